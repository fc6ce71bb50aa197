"""The inputs on which a network is checked and timed: types, ranges of values, and samples of the user."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from passsearch.core.passes import Json
from passsearch.core.summary import TensorType

TABLE, DTYPE, MASK, SAMPLES, UNKNOWN = RANGE_SOURCES = ("table", "dtype", "mask", "samples", "unknown")
"""Where a range comes from: a table that the input indexes, the whole dtype, a mask's two values, the samples of the
user, or nowhere; random values are then 0 and 1, which are valid as an index and as a mask."""


@dataclass(frozen=True)
class InputRange:
    """The values that random inputs have.

    Attributes:
        low: The least value.
        high: The largest value.
        source: Where the range comes from, one of ``RANGE_SOURCES``.
        values: The only values, where they are a few; all from ``low`` to ``high`` if empty.
    """

    low: int
    high: int
    source: str
    values: tuple[int, ...] = ()

    def to_json(self) -> dict[str, Json]:
        """Return the form of requests and results."""
        only: dict[str, Json] = {"values": list(self.values)} if self.values else {}
        return {"low": self.low, "high": self.high, "source": self.source, **only}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "InputRange":
        """Read what ``to_json`` returns."""
        return cls(data["low"], data["high"], data["source"], tuple(data.get("values", ())))


@dataclass(frozen=True)
class CheckInputs:
    """All that decides the inputs of a network's check. ``passsearch.dialects.case_inputs`` makes them.

    Attributes:
        types: Types by input name, in order.
        ranges: Ranges by input name: of integers, and of floats that are masks. An integer without one is 0 or 1.
        samples: File with the user's samples, as ``read_samples`` takes it; empty without one.
        sample_count: Number of samples in it.
        labels: File with the labels of the samples, as ``read_labels`` takes it; empty without one.
    """

    types: Mapping[str, TensorType]
    ranges: Mapping[str, InputRange] = field(default_factory=dict)
    samples: str = ""
    sample_count: int = 0
    labels: str = ""

    def to_json(self) -> dict[str, Json]:
        """Return the form of worker requests."""
        types: dict[str, Json] = {name: [list(kind.shape), kind.dtype] for name, kind in self.types.items()}
        samples: dict[str, Json] = {"samples": self.samples, "count": self.sample_count}
        labels: dict[str, Json] = {"labels": self.labels} if self.labels else {}
        return {"types": types, "ranges": self.ranges_to_json(), **samples, **labels}

    def ranges_to_json(self) -> dict[str, Json]:
        """Return the ranges in the form of results."""
        return {name: range_.to_json() for name, range_ in self.ranges.items()}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "CheckInputs":
        """Read what ``to_json`` returns."""
        types = {name: TensorType(tuple(shape), dtype) for name, (shape, dtype) in data["types"].items()}
        return cls(types, read_ranges(data["ranges"]), data["samples"], data["count"], data.get("labels", ""))

    @property
    def unknown(self) -> tuple[str, ...]:
        """Inputs whose range is unknown, so that only 0 and 1 are tried."""
        return tuple(name for name, range_ in self.ranges.items() if range_.source == UNKNOWN)


def read_ranges(data: Mapping[str, Any]) -> dict[str, InputRange]:
    """Read the ranges of a request or a result."""
    return {name: InputRange.from_json(range_) for name, range_ in data.items()}
