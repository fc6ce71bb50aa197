"""Read files in YAML; the only module that parses it."""

from pathlib import Path
from typing import Any, cast

import yaml

from passsearch.core import Json
from passsearch.errors import UserError

MOST_VALUES = 200_000
"""Most values in a file. Aliases, which YAML only refers to, make a text of a few lines as large as they like."""

MOST_BITS = 64

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
    except RecursionError:
        raise UserError(f"`{origin}` is not valid YAML: it is nested too deeply.") from None
    except (ValueError, OverflowError) as error:  # a number or date that Python does not have
        raise UserError(f"`{origin}` is not valid YAML: {error}.") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" at line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        problem = getattr(error, "problem", None) or "not YAML"
        lines = text.split("\n")
        if mark and "\t" in lines[min(mark.line, len(lines) - 1)][: mark.column + 1]:
            problem = "a tab; YAML indents by spaces only"
        raise UserError(f"`{origin}` is not valid YAML{where}: {problem}.") from None


class _UniqueKeys(_Loader):  # type: ignore[misc]  # mypy knows no class that is chosen at run time
    """A loader that refuses a key that stands twice in one mapping; YAML itself keeps the last value."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._compared: set[yaml.MappingNode] = set()

    def construct_document(self, node: yaml.Node) -> Any:
        """Return the content of a document, unless its aliases make it much larger than its text."""
        _count(node, {})
        return super().construct_document(node)

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        """Merge the mappings that `<<` names, after a check of the mapping's own keys."""
        # Once for each mapping: after the merge, a key that replaces a merged one stands there twice and rightly so.
        if node not in self._compared:
            self._compared.add(node)
            _check_keys(node)
        super().flatten_mapping(node)


def _read_integer(loader: Any, node: yaml.ScalarNode) -> int:
    value = int(loader.construct_yaml_int(node))
    if value.bit_length() > MOST_BITS:  # such a number cannot be printed, among others
        raise yaml.constructor.ConstructorError(problem=f"a number over {MOST_BITS} bits", problem_mark=node.start_mark)
    return value


_UniqueKeys.add_constructor("tag:yaml.org,2002:int", _read_integer)


def _count(node: yaml.Node, counts: dict[int, int]) -> int:
    """Return the number of values in a node, those of an alias each time that it is used.

    Args:
        node: The node.
        counts: The numbers of nodes that are counted already, by ``id``; this one is added.

    Raises:
        yaml.constructor.ConstructorError: An anchor holds itself, or there are more than ``MOST_VALUES`` values.
    """
    if id(node) in counts:
        if not counts[id(node)]:
            raise yaml.constructor.ConstructorError(problem="an anchor holds itself", problem_mark=node.start_mark)
        return counts[id(node)]
    counts[id(node)] = 0
    inner = node.value if isinstance(node, yaml.SequenceNode) else ()
    if isinstance(node, yaml.MappingNode):
        inner = [each for pair in node.value for each in pair]
    count = 1 + sum(_count(each, counts) for each in inner)
    if count > MOST_VALUES:
        problem = f"its anchors make more than {MOST_VALUES:,} values of it"
        raise yaml.constructor.ConstructorError(problem=problem, problem_mark=node.start_mark)
    counts[id(node)] = count
    return count


def _check_keys(node: yaml.MappingNode) -> None:
    keys = set()
    for key, _ in node.value:
        if isinstance(key, yaml.ScalarNode) and (key.tag, key.value) in keys:
            problem = f"`{key.value}` stands in this mapping a second time; keep one of them"
            raise yaml.constructor.ConstructorError(problem=problem, problem_mark=key.start_mark)
        if isinstance(key, yaml.ScalarNode):
            keys.add((key.tag, key.value))
