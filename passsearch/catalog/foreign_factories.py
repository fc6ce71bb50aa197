"""The pass factories that a run folder names. Another user may have made the folder, so its factories are not code."""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from passsearch.catalog.schema import Catalog
from passsearch.core import Pipeline, require_trust
from passsearch.errors import UserError

_PLAIN = re.compile(r"(?!.*cl-opt)[\w.,:;=+*@#%()\[\]<>|&! -]*")
"""Texts that are neither paths nor JSON, and hold no options of LLVM."""

_CALLED = frozenset({"fget_item", "fset_item"})
"""Arguments that become calls of the compiler's functions, by name."""


def find_folders(pipeline: Pipeline) -> list[str]:
    """Return, in words, the folders, functions and options of compilers among the arguments of a foreign pipeline.

    A tuning database holds schedules, which are programs, and a pass that tunes writes to its folder.
    """
    return [
        f"pass `{step.name}` uses the {_kind(name, text)} `{text}`"
        for step in pipeline.passes
        for name, value in step.argument_values.items()
        for text in _texts(value)
        if name in _CALLED or not _PLAIN.fullmatch(text)
    ]


def _kind(name: str, text: str) -> str:
    if name in _CALLED:
        return "function"
    return "folder" if "/" in text else "text"


def _texts(value: object) -> Iterator[str]:
    """Yield the texts in the value of an argument."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from (*_texts(key), *_texts(item))
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _texts(item)


def check_factories(
    pipeline: Pipeline,
    factories: Mapping[str, str],
    catalog: Catalog,
    *,
    file: Path,
    trust: bool,
    paths: Sequence[str] = (),
) -> dict[str, str]:
    """Return the factory of every pass of a pipeline that a file describes; nothing is imported.

    A factory is used if the catalog has the same for this pass. The catalog is the shipped one with the files that the
    user gives in this call. Every other factory needs the user's trust, also one of an earlier catalog, and so does a
    folder among the arguments.

    Args:
        pipeline: The passes.
        factories: ``module:function`` by pass name, as the file has them.
        catalog: The shipped passes and those of the user.
        file: The file.
        trust: True if the user trusts the file.
        paths: Import paths that the file names, for the message.

    Raises:
        UserError: A pass has no factory, or one that is neither in the catalog nor trusted by the user.
    """
    names = list(dict.fromkeys(step.name for step in pipeline.passes))
    for name in names:
        if not isinstance(factories.get(name), str):
            raise UserError(
                f"`{file}` has no `module:function` for pass `{name}`; run the same `passsearch tune` again."
            )
    origin = f" (import path {', '.join(paths)})" if paths else ""
    foreign = [
        f"pass `{name}` is made by `{factories[name]}`, which is not in the catalog{origin}"
        for name in names
        if not _is_of_catalog(name, factories[name], catalog)
    ]
    foreign += find_folders(pipeline)
    require_trust(file, foreign, trust=trust, otherwise="give the catalog with this pass by --catalog FILE (catalogs=)")
    return {
        name: catalog.entries[name].factory if _is_of_catalog(name, factories[name], catalog) else factories[name]
        for name in names
    }


def _is_of_catalog(name: str, factory: str, catalog: Catalog) -> bool:
    """Return True if a pass has this factory in the catalog, today or before passes became files of their own room."""
    if name not in catalog.entries:
        return False
    today = catalog.entries[name].factory
    moved = factory.startswith("passsearch.dialects.") and today.startswith("passsearch.standalone.")
    return factory == today or (moved and factory.partition(":")[2] == today.partition(":")[2])
