"""The base of all records: to JSON and from it, and the JSON Schema, by the types of the fields."""

from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from functools import cache, partial, reduce
from operator import or_
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from passsearch.errors import UserError

T = TypeVar("T", bound="Record")

_KEY, _AFTER, _MISSING, _LEFT_OUT, _NULL = "key", "after", "missing", "left out", "null"
_NAMES: Mapping[object, str] = {str: "string", bool: "boolean", int: "integer", float: "number", NoneType: "null"}


@dataclass(frozen=True)
class Allowed:
    """The values that a key may have, as ``Annotated[float, Allowed(above=0)]``.

    Attributes:
        above: A number that all are above.
        least: The least one.
        most: The largest one.
        required: Keys that a mapping has.
    """

    above: float | None = None
    least: float | None = None
    most: float | None = None
    required: tuple[str, ...] = ()

    def schema(self) -> dict[str, Any]:
        """Return the JSON Schema."""
        keywords = {"exclusiveMinimum": self.above, "minimum": self.least, "maximum": self.most}
        limits: dict[str, Any] = {keyword: value for keyword, value in keywords.items() if value is not None}
        return {**limits, "required": [*self.required]} if self.required else limits


def key(name: str, **options: Any) -> Any:
    """Return a field whose key is no name of Python."""
    return field(metadata={_KEY: name}, **options)


def placed(default: Any, *, after: str) -> Any:
    """Return a field whose key stands after that of an inherited field."""
    return field(default=default, metadata={_AFTER: after})


def left_out(default: Any = None, *, or_null: bool = False) -> Any:
    """Return a field that JSON lacks where it has its default.

    Args:
        default: The default.
        or_null: True for a key that earlier versions may have written as ``null``; else it is missing instead.
    """
    return field(default=default, metadata={_LEFT_OUT: True, _MISSING: True, _NULL: or_null})


def may_be_missing(default: Any = None) -> Any:
    """Return a field that JSON lacks in cases that its record decides on."""
    return field(default=default, metadata={_MISSING: True})


class Record:
    """A JSON object with fixed keys. Subclasses are frozen dataclasses; the order of the fields is that of the keys.

    A field has one of these types: ``str``, ``bool``, ``int``, ``float``, ``Literal``, another record,
    ``Mapping[str, …]``, ``tuple[…, …]``, ``object`` (any JSON), or a union of these with ``None``. Keys without a
    field are ignored, so that documents of later versions are read; a field that earlier versions lacked has the value
    that stands for it as its default. A subclass that requires such a key assigns ``field()``: without it, a dataclass
    inherits the default.
    """

    def to_json(self) -> dict[str, Any]:
        """Return the JSON object."""
        values = ((each, getattr(self, each.name)) for each in keys_of(type(self)))
        return {each.key: _json(value) for each, value in values if not (each.is_left_out and value == each.default)}

    @classmethod
    def from_json(cls: type[T], content: Mapping[str, Any]) -> T:
        """Read a JSON object.

        Raises:
            UserError: A key is missing.
        """
        values = {}
        for each in keys_of(cls):
            if each.key in content:
                values[each.name] = each.read(content[each.key])
            elif each.is_required:
                raise UserError(f"`{each.key}` is missing in what should be the JSON of {cls.__name__}.")
        return cls(**values)

    @classmethod
    @cache
    def json_schema(cls) -> dict[str, Any]:
        """Return the JSON Schema of the object; callers share it and do not change it."""
        return {
            "type": "object",
            "required": [each.key for each in keys_of(cls) if each.is_required],
            "properties": {each.key: _schema(each.kind) for each in keys_of(cls)},
        }


@dataclass(frozen=True)
class Key:
    """A field of a record; ``kind`` is the type of its value in JSON."""

    name: str
    key: str
    kind: Any
    default: Any
    is_required: bool
    is_left_out: bool
    may_be_missing: bool
    read: Callable[[Any], Any]


def keys_of(record: Any) -> tuple[Key, ...]:
    """Return the fields of a class of records in the order of the keys."""
    return _cached_keys(record)


@cache
def _cached_keys(record: Any) -> tuple[Key, ...]:  # mypy takes no class of records for hashable
    kinds = get_type_hints(record, include_extras=True)
    keys: list[Key] = []
    for each in fields(record):
        after = each.metadata.get(_AFTER)
        place = [key.name for key in keys].index(after) + 1 if after else len(keys)
        keys.insert(place, _key(each, kinds[each.name]))
    return tuple(keys)


def _key(declared: Field[Any], kind: Any) -> Key:
    options, read = declared.metadata, _reader(kind)
    if options.get(_NULL) is False and declared.default is None:
        kind = reduce(or_, (each for each in get_args(kind) if each is not NoneType))
    return Key(
        name=declared.name,
        key=options.get(_KEY, declared.name),
        kind=kind,
        default=declared.default,
        is_required=declared.default is MISSING and declared.default_factory is MISSING,
        is_left_out=options.get(_LEFT_OUT, False),
        may_be_missing=options.get(_MISSING, False),
        read=read,
    )


def _json(value: Any) -> Any:
    if isinstance(value, Record):
        return value.to_json()
    if isinstance(value, Mapping):
        return {name: _json(item) for name, item in value.items()}
    return [_json(item) for item in value] if isinstance(value, list | tuple) else value


def _reader(kind: Any) -> Callable[[Any], Any]:
    """Return the function that makes a value of this type from JSON."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _reader(arguments[0])
    if origin in (Union, UnionType):
        return partial(_read_member, [(each, _reader(each)) for each in arguments if each is not NoneType])
    if origin is tuple and arguments[-1] is Ellipsis:
        return partial(_read_items, _reader(arguments[0]))
    if origin is tuple:
        return partial(_read_places, [_reader(each) for each in arguments])
    if origin is Mapping:
        return partial(_read_values, _reader(arguments[1]))
    return kind.from_json if _is_record(kind) else _same


def _is_record(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Record)


def _same(value: Any) -> Any:
    return value


def _read_member(members: list[tuple[Any, Callable[[Any], Any]]], value: Any) -> Any:
    """Read a value of a union; of several records it is the first that has all its keys."""
    if value is None:
        return None
    *others, (_, last) = members
    for kind, read in others:
        if not _is_record(kind) or all(each.key in value for each in keys_of(kind) if each.is_required):
            return read(value)
    return last(value)


def _read_items(read: Callable[[Any], Any], items: Any) -> Any:
    return tuple(items) if read is _same else tuple(map(read, items))


def _read_places(readers: list[Callable[[Any], Any]], items: Any) -> Any:
    return tuple(read(item) for read, item in zip(readers, items, strict=True))


def _read_values(read: Callable[[Any], Any], items: Any) -> Any:
    return {name: read(item) for name, item in items.items()}


def _schema(kind: Any) -> dict[str, Any]:
    """Return the JSON Schema of a type."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return {**_schema(arguments[0]), **arguments[1].schema()}
    if origin is Literal:
        return {"enum": [*arguments]} if len(arguments) > 1 else {"const": arguments[0]}
    if origin in (Union, UnionType):
        return _union_schema([_schema(each) for each in arguments])
    if origin is tuple and arguments[-1] is Ellipsis:
        return {"type": "array", "items": _schema(arguments[0])}
    if origin is tuple:
        number = len(arguments)
        return {"type": "array", "prefixItems": [*map(_schema, arguments)], "minItems": number, "maxItems": number}
    if origin is Mapping:
        return {"type": "object", "additionalProperties": _schema(arguments[1])}
    if kind is object:
        return {}
    return kind.json_schema() if _is_record(kind) else {"type": _NAMES[kind]}


def _union_schema(members: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the schema of a union: one that allows ``null`` too where that is the only other member."""
    null = {"type": _NAMES[NoneType]}
    others = [each for each in members if each != null]
    if len(others) > 1 or len(others) == len(members):
        return {"anyOf": members}
    [schema] = others
    if "enum" in schema:
        return {**schema, "enum": [*schema["enum"], None]}
    return {**schema, "type": [schema["type"], "null"]} if "type" in schema else {"anyOf": members}
