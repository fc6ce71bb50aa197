"""Records become JSON and come back, and their schemas allow what they read."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import pytest
from jsonschema import Draft202012Validator

from passsearch.errors import UserError
from passsearch.results.record import Allowed, Record, key, left_out, placed


@dataclass(frozen=True)
class Part(Record):
    """A part with a key that is a word of Python."""

    step: str = key("pass")
    value: object = None


@dataclass(frozen=True)
class Nothing(Record):
    """What stands where there is no part."""

    failure: str


@dataclass(frozen=True)
class Whole(Record):
    """A record with a field of every kind."""

    kind: Literal["a", "b"] | None
    ends: tuple[float, float | None] | None
    part: Nothing | Part | None
    parts: tuple[Part, ...] = ()
    counts: Mapping[str, int | None] | None = None
    size: Annotated[float, Allowed(above=0, most=9)] | None = None
    samples: int = left_out(0)
    unit: Literal["s"] | None = None
    note: str | None = left_out()
    reason: str | None = left_out(or_null=True)


@dataclass(frozen=True, kw_only=True)
class Longer(Part):
    """A record that requires an inherited key and has one between inherited ones."""

    middle: int = placed(0, after="step")
    value: object = field()


JSON: dict[str, Any] = {
    "kind": "a",
    "ends": [1.0, None],
    "part": {"pass": "FuseOps", "value": {"depth": [1, 2]}},
    "parts": [{"pass": "FoldConstant", "value": None}],
    "counts": {"x": 1, "y": None},
    "size": 2.5,
    "samples": 3,
    "unit": "s",
    "note": "text",
    "reason": "none",
}


def refused(document: dict[str, Any]) -> bool:
    return not Draft202012Validator(Whole.json_schema()).is_valid(document)


def test_a_record_is_the_json_it_was_read_from() -> None:
    whole = Whole.from_json(JSON)
    assert whole.part == Part("FuseOps", {"depth": [1, 2]}) and whole.ends == (1.0, None)
    assert list(whole.to_json().items()) == list(JSON.items())
    assert not refused(JSON)


def test_what_earlier_versions_lacked_has_its_default_and_other_keys_are_ignored() -> None:
    whole = Whole.from_json({"kind": None, "ends": None, "part": {"failure": "none"}, "later": 1})
    assert whole.part == Nothing("none") and whole.parts == () and whole.samples == 0
    assert [*whole.to_json()] == [name for name in JSON if name not in ("samples", "note", "reason")]


def test_a_missing_key_is_named() -> None:
    with pytest.raises(UserError, match="`part` is missing"):
        Whole.from_json({"kind": None, "ends": None})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("kind", "c"), ("kind", 1), ("ends", [1.0]), ("ends", [1.0, "x"]), ("part", {}), ("part", [])),
        *(("parts", [{}]), ("parts", None), ("counts", {"x": "1"}), ("size", 0), ("size", 10), ("samples", None)),
        *(("unit", "m"), ("note", None)),
    ],
)
def test_the_schema_refuses_wrong_values(name: str, value: object) -> None:
    assert refused({**JSON, name: value})


@pytest.mark.parametrize("name", ["kind", "ends", "part", "counts", "size", "unit", "reason"])
def test_the_schema_allows_null_where_the_type_does(name: str) -> None:
    assert not refused({**JSON, name: None})


def test_a_subclass_requires_an_inherited_key_and_places_its_own() -> None:
    assert [*Longer(step="a", middle=1, value=2).to_json()] == ["pass", "middle", "value"]
    with pytest.raises(UserError, match="`value` is missing"):
        Longer.from_json({"pass": "a", "middle": 1})
