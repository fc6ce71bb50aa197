"""Read files in YAML; the only module that parses it."""

from pathlib import Path
from typing import cast

import yaml

from passsearch.core import Json
from passsearch.errors import UserError

# libyaml parses the catalog several times as fast as pure Python, but not every PyYAML build has it.
_Loader: type = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def read_yaml(path: Path, *, what: str) -> Json:
    """Return the content of a YAML file of the user's.

    Args:
        path: The file.
        what: Name of this kind of file, for error messages.

    Raises:
        UserError: The file cannot be read, or ``parse_yaml`` refuses it.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8 text"
        raise UserError(f"Cannot read the {what} `{path}`: {reason}. Check the path.") from None
    return parse_yaml(text, str(path))


def parse_yaml(text: str, origin: str) -> Json:
    """Return the content of a text in YAML.

    Args:
        text: The text.
        origin: The file that it stands in, for error messages.

    Raises:
        UserError: It is not YAML, or a mapping has a key twice.
    """
    try:
        return cast(Json, yaml.load(text, Loader=_UniqueKeys))  # noqa: S506, both its bases are the safe one
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" at line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        problem = getattr(error, "problem", None) or "not YAML"
        if mark and "\t" in (text.splitlines() or [""])[min(mark.line, text.count("\n"))][: mark.column + 1]:
            problem = "a tab; YAML indents by spaces only"
        raise UserError(f"`{origin}` is not valid YAML{where}: {problem}.") from None


class _UniqueKeys(_Loader):  # type: ignore[misc]  # mypy knows no class that is chosen at run time
    """A loader that refuses a key that stands twice in one mapping; YAML itself keeps the last value."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._compared: set[yaml.MappingNode] = set()

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        """Merge the mappings that `<<` names, after a check of the mapping's own keys."""
        # Once for each mapping: after the merge, a key that replaces a merged one stands there twice and rightly so.
        if node not in self._compared:
            self._compared.add(node)
            _check_keys(node)
        super().flatten_mapping(node)


def _check_keys(node: yaml.MappingNode) -> None:
    keys = set()
    for key, _ in node.value:
        if isinstance(key, yaml.ScalarNode) and (key.tag, key.value) in keys:
            problem = f"`{key.value}` stands in this mapping a second time; keep one of them"
            raise yaml.constructor.ConstructorError(problem=problem, problem_mark=key.start_mark)
        if isinstance(key, yaml.ScalarNode):
            keys.add((key.tag, key.value))
