"""Cases: the ways in which one network is called, each a function and the sizes of its inputs, with a weight."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from passsearch.core.inputs import format_input
from passsearch.core.passes import Json
from passsearch.core.rules import short_repr
from passsearch.core.summary import TensorType
from passsearch.errors import UserError

MAIN = "main"
"""Name of the function that runs a network with one case."""

OPEN = f"{MAIN}__open"
"""Name of the function whose sizes stay open, beside functions of fixed sizes."""

_ENTRY = re.compile(rf"{MAIN}(_[0-9A-Za-z_]+)?")
_SIZE = re.compile(r"\d+(x\d+)*")
_SIZES_EXAMPLE = "--sizes ids=1x128:0.3,1x1024:0.7"
_FUNCTION_EXAMPLE = "--function prefill:0.1,decode:0.9"


@dataclass(frozen=True)
class Case:
    """One way in which a network is called.

    Attributes:
        name: Name in results: the function, or the size of the first input that ``sizes`` lists.
        weight: Share of the calls; the weights of a network's cases add up to 1.
        function: Name of the function in the model file; empty for ``main``.
        entry: Name of the function in the compiled module.
        inputs: Types by input name; those that the user stated, or all of them once the network is imported.
    """

    name: str
    weight: float
    function: str
    entry: str
    inputs: Mapping[str, TensorType] = field(default_factory=dict)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Case":
        """Read the form of requests and results.

        Raises:
            UserError: The entry is no name of one; in a deployment it is also the name of a folder.
        """
        if not _ENTRY.fullmatch(str(data["entry"])):
            raise UserError(f"`{data['entry']}` is no entry function of a case; tune again with another --out.")
        inputs = {name: TensorType(tuple(shape), dtype) for name, (shape, dtype) in data["inputs"].items()}
        return cls(data["name"], data["weight"], data["function"], data["entry"], inputs)

    def to_json(self) -> dict[str, Json]:
        """Return the form of requests and results."""
        inputs: dict[str, Json] = {name: [list(kind.shape), kind.dtype] for name, kind in self.inputs.items()}
        plain: dict[str, Json] = {"name": self.name, "weight": self.weight}
        return {**plain, "function": self.function, "entry": self.entry, "inputs": inputs}

    def __str__(self) -> str:
        inputs = ", ".join(format_input(name, kind) for name, kind in self.inputs.items())
        form = " symbolic" if self.is_symbolic else ""
        return f"{self.function or MAIN} {self.name}:{self.weight:g}{form} {inputs}".rstrip()

    @property
    def is_symbolic(self) -> bool:
        """True if its function takes other sizes, too; those of this case are measured."""
        return self.entry in (MAIN, OPEN)

    def full_name(self, name: str) -> str:
        """Return the name of one of its inputs among the inputs of all cases."""
        return f"{self.name}.{name}"

    def own(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return its part of values by the inputs of all cases, by its own input names."""
        prefix = self.full_name("")
        return {name.removeprefix(prefix): value for name, value in values.items() if name.startswith(prefix)}


@dataclass(frozen=True)
class Calls:
    """What of a network is tuned.

    Attributes:
        function: The function of the model file; empty for ``main``, or where the cases name functions.
        inputs: Types that the user states.
        cases: The cases, where there are several.
    """

    function: str = ""
    inputs: Mapping[str, TensorType] = field(default_factory=dict)
    cases: tuple[Case, ...] = ()


def read_calls(
    function: str | None,
    sizes: Sequence[str] | str | None,
    inputs: Mapping[str, TensorType],
    *,
    keep_symbolic: bool = False,
) -> Calls:
    """Return the function to tune, or the cases to weigh.

    Args:
        function: ``NAME``, or several as ``NAME:WEIGHT,NAME:WEIGHT``.
        sizes: ``INPUT=SIZE:WEIGHT,SIZE:WEIGHT``, a size being ``1x128``; a list of such texts for several inputs,
            which then have as many sizes each.
        inputs: Types that the user states. With several functions, an input of one of them is ``FUNCTION.INPUT``.
        keep_symbolic: True to compile one function whose sizes stay open, and to measure it at these sizes.

    Raises:
        UserError: A text has another form, a weight is not positive, a case occurs twice, both arguments have several,
            or sizes that stay open are given none to measure at.
    """
    listed = [sizes] if isinstance(sizes, str) else sizes or ()
    if keep_symbolic and not listed:
        raise UserError(f"A network that stays symbolic is measured at sizes that you choose: {_SIZES_EXAMPLE}")
    functions = [("", 1.0)] if function is None else _weighted(function, "a function", _FUNCTION_EXAMPLE)
    name = functions[0][0]
    if listed and len(functions) > 1:
        raise UserError(
            f"Sizes go with one function; got both. State the inputs of each function: --input {name}.ids:int64[1,128]"
        )
    if len(functions) > 1:
        names = [name for name, _ in functions]
        cases = _unique(_case(name, weight, name, _own(name, inputs, names)) for name, weight in functions)
        return Calls(cases=cases)
    cases = _unique(_sized(name, listed, inputs)) if listed else ()
    if keep_symbolic:
        return Calls(name, inputs, tuple(replace(case, entry=MAIN) for case in cases))
    return Calls(name, inputs, cases) if len(cases) != 1 else Calls(name, cases[0].inputs)


def _case(name: str, weight: float, function: str, inputs: Mapping[str, TensorType]) -> Case:
    return Case(name, weight, function, f"{MAIN}_{re.sub(r'[^0-9A-Za-z_]', '_', name)}", inputs)


def _own(function: str, inputs: Mapping[str, TensorType], functions: Sequence[str]) -> dict[str, TensorType]:
    """Return the inputs that name this function or none, by their names in it."""
    others = tuple(f"{name}." for name in functions if name != function)
    return {name.removeprefix(f"{function}."): kind for name, kind in inputs.items() if not name.startswith(others)}


def _sized(function: str, texts: Sequence[str], inputs: Mapping[str, TensorType]) -> list[Case]:
    columns: dict[str, list[tuple[str, float]]] = {}
    for text in texts:
        name, equals, rest = text.partition("=")
        if not equals or not name.strip():
            raise UserError(f"Sizes read INPUT=SIZE:WEIGHT,…; got {short_repr(text)}. For example: {_SIZES_EXAMPLE}")
        if name.strip() in columns:
            raise UserError(f"Sizes of `{name.strip()}` are given twice; give all of them at once: {_SIZES_EXAMPLE}")
        columns[name.strip()] = _weighted(rest, "a size", _SIZES_EXAMPLE)
    first = next(iter(columns))
    for name, sizes in columns.items():
        if len(sizes) != len(columns[first]):
            raise UserError(
                f"Every input has as many sizes; got {len(columns[first])} of `{first}` and {len(sizes)} of `{name}`."
            )
        if [weight for _, weight in sizes] not in ([weight for _, weight in columns[first]], [1.0] * len(sizes)):
            raise UserError(f"A case has one weight; those of `{name}` are not those of `{first}`. Leave them out.")
    rows = zip(*columns.values(), strict=True)
    dtypes = {name: type_.dtype for name, type_ in inputs.items()}
    types = [
        {name: _sized_type(size, dtypes.get(name, "")) for name, (size, _) in zip(columns, row, strict=True)}
        for row in rows
    ]
    return [
        _case(size, weight, function, {**inputs, **sized})
        for (size, weight), sized in zip(columns[first], types, strict=True)
    ]


def _sized_type(text: str, dtype: str) -> TensorType:
    """Return the shape that ``1x128`` stands for; without a dtype that the user states, it is the network's."""
    sizes = tuple(map(int, text.split("x"))) if _SIZE.fullmatch(text) else (0,)
    if 0 in sizes:
        raise UserError(f"A size reads 1x128, of numbers from 1 on; got `{text}`. For example: {_SIZES_EXAMPLE}")
    return TensorType(sizes, dtype)


def _weighted(text: str, kind: str, example: str) -> list[tuple[str, float]]:
    """Return names with weights, which are equal where none are given."""
    pairs = [item.strip().rpartition(":") if ":" in item else (item.strip(), "", "1") for item in text.split(",")]
    if not all(name for name, _, _ in pairs):
        raise UserError(
            f"Each item is {kind}, with or without a weight; got {short_repr(text)}. For example: {example}"
        )
    return [(name, _weight(weight, text, example)) for name, _, weight in pairs]


def _weight(text: str, whole: str, example: str) -> float:
    try:
        weight = float(text)
    except ValueError:
        weight = 0.0
    if not 0 < weight < math.inf:
        raise UserError(f"A weight is a number above 0; got `{text}` in {short_repr(whole)}. For example: {example}")
    return weight


def _unique(cases: Any) -> tuple[Case, ...]:
    """Return cases whose weights add up to 1; refuse two of one name."""
    listed = tuple(cases)
    for place, case in enumerate(listed):
        if (other := next((each for each in listed[:place] if each.entry == case.entry), None)) is None:
            continue
        if other.name == case.name:
            raise UserError(f"Each case occurs once; `{case.name}` is given twice. Add up the weights.")
        raise UserError(f"`{other.name}` and `{case.name}` have the same letters and digits; rename one of them.")
    total = sum(case.weight for case in listed)
    return tuple(replace(case, weight=case.weight / total) for case in listed)
