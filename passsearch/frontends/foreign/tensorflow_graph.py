"""Operators in graphs of TensorFlow: only those that compute, and the user's own variables and tables, are allowed.

A SavedModel runs its functions while it is loaded. Field numbers are those of TensorFlow's ``saved_model.proto``,
``meta_graph.proto``, ``graph.proto``, ``function.proto``, ``node_def.proto`` and ``attr_value.proto``.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from passsearch.frontends.foreign.operators import allowed
from passsearch.frontends.foreign.wire import Bytes, fields, joined, parts, read, texts

SAVED_MODEL = "saved_model.pb"
"""Name of the graph in the folder of a TensorFlow SavedModel."""

SAVING = frozenset({"SaveV2", "RestoreV2", "MergeV2Checkpoints", "ShardedFilename"})
"""Operators of the function that saves a model again; they may only stand where loading does not get."""

RESTORING = frozenset({"RestoreV2"})
"""The operator that reads variables while a SavedModel without a graph of objects is loaded."""

_FILES = frozenset({SAVED_MODEL, "keras_metadata.pb", "fingerprint.pb"})
_FOLDERS = frozenset({"variables", "assets", "assets.extra", "debug"})
_FUNCTION = re.compile(r"__|[a-z]")
"""Beginning of a function's name; operators begin with a capital letter or with one underscore."""


@dataclass(frozen=True)
class _Node:
    """An operator of a graph.

    Attributes:
        name: Its name.
        operator: The name of its operator, or of the function that it calls.
        inputs: Names of the operators that it reads or waits for.
        functions: Names of the functions in its attributes.
    """

    name: str
    operator: str
    inputs: tuple[str, ...]
    functions: tuple[str, ...]

    @property
    def calls(self) -> tuple[str, ...]:
        """Names of everything that it may call."""
        return self.operator, *self.functions


def in_frozen_graph(path: Path) -> Iterator[str]:
    """Yield the operators of a frozen graph that are not allowed."""
    graph = read(path)
    functions = _functions(graph)
    yield from _refused((*_nodes(graph, 1), *_all_nodes(functions)), functions)


def in_saved_model(folder: Path) -> Iterator[str]:
    """Yield what is not allowed in the folder of a SavedModel."""
    yield from _other_files(folder)
    graphs = list(parts(read(folder / SAVED_MODEL), 2))
    if len(graphs) > 1:
        yield f"{len(graphs)} graphs, which TensorFlow loads in another way than one"
    for graph in graphs:
        yield from _in_meta_graph(graph)


def _other_files(folder: Path) -> Iterator[str]:
    """Yield entries that TensorFlow may read in place of those that are checked, and links."""
    for entry in sorted(folder.iterdir()):
        if entry.name.startswith("saved_model") and entry.name not in _FILES:
            yield f"a second graph `{entry.name}`"
        if entry.name in _FILES | _FOLDERS and _leaves(entry, folder):
            yield f"`{entry.name}`, which is a link out of the folder"
        for inner in sorted(entry.rglob("*")) if entry.name in _FOLDERS else ():
            if _leaves(inner, folder):
                yield f"`{inner.relative_to(folder)}`, which is a link out of the folder"
            elif not inner.is_file() and not inner.is_dir():
                yield f"`{inner.relative_to(folder)}`, which is no file"


def _leaves(path: Path, folder: Path) -> bool:
    return path.is_symlink() and folder.resolve() not in path.resolve().parents


def _in_meta_graph(meta: Bytes) -> Iterator[str]:
    for name in texts(meta, 6, 2):
        if PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts:
            yield f"the asset `{name}`, which is not in the folder"
    graph = joined(meta, 2)
    nodes, functions = tuple(_nodes(graph, 1)), _functions(graph)
    saver = joined(meta, 3)
    spared = _only_saving(meta, nodes, functions)
    restoring = _reached(set(map(_base, texts(saver, 3))), nodes)
    for node in nodes:
        also = SAVING if node.name in spared else RESTORING if node.name in restoring else frozenset()
        yield from _refused((node,), functions, also)
    for name, inner in functions.items():
        yield from _refused(inner, functions, SAVING if name in spared else frozenset())


def _only_saving(meta: Bytes, nodes: Sequence[_Node], functions: Mapping[str, tuple[_Node, ...]]) -> set[str]:
    """Return the names of nodes and functions that only the saver of a SavedModel reaches."""
    saver = joined(meta, 3)
    # With a graph of objects, TensorFlow restores them itself; without one it runs the operator of the saver.
    has_objects = any(number == 7 and not isinstance(value, int) for number, value in fields(meta))
    restoring = set(map(_base, texts(saver, 3)))
    starts = set(map(_base, texts(saver, 2))) | (restoring if has_objects else set())
    run = set() if has_objects else restoring
    # What any other field names may run: signatures, initializers, objects, collections.
    others = b"\0".join(value for number, value in fields(meta) if number not in (2, 3) and not isinstance(value, int))
    saved = _reached(starts, nodes)
    outside = {node.name for node in nodes if node.name not in saved or node.name.encode() in others}
    used = _reached(outside | run, nodes)
    called = _called((node for node in nodes if node.name in saved - used), functions)
    roots = {name for name in functions if name not in called or name.encode() in others}
    kept = _closure(roots, functions) | _called((node for node in nodes if node.name not in saved - used), functions)
    return (saved - used) | (called - kept - _exchanged(meta))


def _exchanged(meta: Bytes) -> set[str]:
    """Return the names of functions that TensorFlow may run in place of others: all with one `api_implements`."""
    functions = [function for graph in parts(meta, 2) for function in parts(graph, 2, 1)]
    marked = [each for each in functions if "api_implements" in texts(each, 5, 1)]
    return {name for function in marked for name in texts(function, 1, 1)}


def _reached(starts: set[str], nodes: Iterable[_Node]) -> set[str]:
    """Return the names of nodes that others need, with their own."""
    inputs: dict[str, list[str]] = {}
    for node in nodes:
        inputs.setdefault(node.name, []).extend(node.inputs)
    found: set[str] = set()
    left = list(starts)
    while left:
        name = left.pop()
        if name not in found and name in inputs:
            found.add(name)
            left += inputs[name]
    return found


def _called(nodes: Iterable[_Node], functions: Mapping[str, tuple[_Node, ...]]) -> set[str]:
    return _closure({name for node in nodes for name in node.calls}, functions)


def _closure(starts: Iterable[str], functions: Mapping[str, tuple[_Node, ...]]) -> set[str]:
    """Return the names of functions, and of those that they call."""
    found: set[str] = set()
    left = list(starts)
    while left:
        name = left.pop()
        if name in functions and name not in found:
            found.add(name)
            left += [called for node in functions[name] for called in node.calls]
    return found


def _refused(
    nodes: Iterable[_Node], functions: Mapping[str, tuple[_Node, ...]], also: frozenset[str] = frozenset()
) -> Iterator[str]:
    for node in nodes:
        if node.operator in functions and _FUNCTION.match(node.operator):
            continue
        if node.operator not in allowed("tensorflow") and node.operator not in also:
            yield f"operator `{node.operator}`"


def _all_nodes(functions: Mapping[str, tuple[_Node, ...]]) -> Iterator[_Node]:
    for nodes in functions.values():
        yield from nodes


def _functions(graph: Bytes) -> dict[str, tuple[_Node, ...]]:
    """Return the operators of a graph's functions, by name; two of one name count as one with the operators of both."""
    found: dict[str, list[_Node]] = {}
    for function in parts(graph, 2, 1):
        nodes = list(_nodes(function, 3))
        for name in texts(function, 1, 1):
            found.setdefault(name, []).extend(nodes)
    return {name: tuple(nodes) for name, nodes in found.items()}


def _nodes(message: Bytes, field: int) -> Iterator[_Node]:
    """Yield the operators in a field of a graph or function, one for each name of an operator that stands in one."""
    for node in parts(message, field):
        names, operators = list(texts(node, 1)) or [""], list(texts(node, 2)) or [""]
        inputs = tuple(map(_base, texts(node, 3)))
        functions = tuple(name for value in parts(node, 5, 2) for name in _functions_in(value))
        for operator in operators:
            yield _Node(names[-1], operator, inputs, functions)


def _functions_in(attribute: Bytes) -> Iterator[str]:
    """Yield the names of the functions in the value of an attribute, also those in the attributes of functions."""
    for function in (*parts(attribute, 10), *parts(attribute, 1, 9)):
        yield from texts(function, 1)
        for value in parts(function, 2, 2):
            yield from _functions_in(value)


def _base(name: str) -> str:
    """Return the name of the operator that computes a tensor."""
    return name.lstrip("^").partition(":")[0]
