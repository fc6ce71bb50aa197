"""The keys of the JSON documents as Markdown, from the records and their docstrings."""

import re
from collections.abc import Iterator, Mapping
from inspect import cleandoc
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import passsearch.results as results
from passsearch.results.record import keys_of

_NAMES = {str: "text", bool: "true or false", int: "integer", float: "number", object: "anything", NoneType: "`null`"}
_ATTRIBUTE = re.compile(r"^    (\w+): (.*(?:\n {8}.*)*)", re.MULTILINE)


def records_markdown(*names: str) -> str:
    """Return a section for each of these records, followed by the records that they consist of.

    Args:
        names: Names of records of ``passsearch.results``.
    """
    wanted: list[type[results.Record]] = [getattr(results, name) for name in names]
    shown = list(dict.fromkeys(each for record in wanted for each in _with_parts(record)))
    return "\n\n".join(map(_section, shown))


def descriptions(record: type[results.Record]) -> Mapping[str, str]:
    """Return what the docstrings of a record and of its bases say about its fields."""
    found: dict[str, str] = {}
    for each in reversed(record.__mro__):
        _, _, attributes = cleandoc(each.__doc__ or "").partition("Attributes:\n")
        found |= {name: " ".join(text.split()) for name, text in _ATTRIBUTE.findall(attributes)}
    return found


def _with_parts(record: type[results.Record]) -> Iterator[type[results.Record]]:
    yield record
    for base in _bases(record):
        yield from _with_parts(base)
    for key in keys_of(record):
        for part in _records(key.kind):
            yield from _with_parts(part)


def _bases(record: type[results.Record]) -> list[type[results.Record]]:
    """Return the nearest bases whose keys have a section of their own."""
    found: list[type[results.Record]] = []
    for base in record.__bases__:
        if base is not results.Record:
            found += [base] if hasattr(results, base.__name__) else _bases(base)
    return found


def _records(kind: Any) -> Iterator[type[results.Record]]:
    if isinstance(kind, type) and issubclass(kind, results.Record):
        yield kind
    for argument in () if get_origin(kind) is Literal else get_args(kind):
        yield from _records(argument)


def _section(record: type[results.Record]) -> str:
    texts, bases = descriptions(record), _bases(record)
    summary = " ".join(cleandoc(record.__doc__ or "").partition("\n\n")[0].split())
    if bases:
        summary += f" It has the keys of {' and '.join(map(_type, bases))}, too."
    inherited = {key.key for base in bases for key in keys_of(base)}
    rows = [
        f"| `{key.key}` | {_type(key.kind)}{', or missing' if key.may_be_missing else ''} | {_code(texts[key.name])} |"
        for key in keys_of(record)
        if key.key not in inherited
    ]
    table = ["", "| key | type | holds |", "|---|---|---|", *rows] if rows else []
    return "\n".join([f"### {record.__name__}", "", _code(summary), *table])


def _code(text: str) -> str:
    return re.sub(r"``null``|``None``", "`null`", text).replace("``", "`").replace("|", "\\|")


def _type(kind: Any) -> str:
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _type(arguments[0])
    if origin is Literal:
        return ", ".join(f"`{value}`" for value in arguments)
    if origin in (Union, UnionType):
        return " or ".join(map(_type, arguments))
    if origin is tuple and arguments[-1] is Ellipsis:
        return f"list of {_type(arguments[0])}"
    if origin is tuple:
        return f"list: {', '.join(map(_type, arguments))}"
    if origin is Mapping:
        value = _type(arguments[1])
        return f"object with values ({value})" if " or " in value else f"object with values {value}"
    return _NAMES.get(kind) or f"[{kind.__name__}](#{kind.__name__.lower()})"
