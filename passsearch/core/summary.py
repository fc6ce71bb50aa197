"""A network's dataflow graph as plain data: the answer of a bridge to the analyzer, equal for every dialect."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from passsearch.core.passes import Json

HALVES, CASTS = ("float16", "bfloat16"), ("cast", "astype")
"""Floats of 16 bits, and the kinds of operators that change only the type."""

STORAGE = "storage"
"""Attribute of constants in float32 whose numbers a 16-bit type has, with the name of that type."""


@dataclass(frozen=True)
class TensorType:
    """Shape and dtype of one tensor; a dimension whose size is fixed only at run time is ``None``."""

    shape: tuple[int | None, ...]
    dtype: str


@dataclass(frozen=True)
class Operator:
    """One node of the dataflow graph.

    Attributes:
        index: Position in topological order; printed as ``%index``.
        kind: ``input``, ``constant``, ``function``, or the operator's name without its dialect's
            namespace (``conv2d``, ``dense``, ``batch_matmul``, ``transpose``, ``pad``, ``batch_norm``,
            ``softmax``, ``layer_norm``, ``add``, …), so that rules over kinds serve every dialect.
        op: The operator's name in the dialect (``nn.conv2d``, ``qnn.dense``, ``dyn.reshape``).
        inputs: Indices of the producers of its tensor arguments, in argument order. A tuple projection counts as
            the producer of the tuple.
        outputs: Types of its results, one per tuple field.
        attributes: Scalars, strings and lists of them: strides, padding, groups, layouts, axes, ….
        value: The number of a scalar constant, else ``None``.
    """

    index: int
    kind: str
    op: str
    inputs: tuple[int, ...]
    outputs: tuple[TensorType, ...]
    attributes: Mapping[str, Json] = field(default_factory=dict)
    value: float | None = None


@dataclass(frozen=True)
class ModuleSummary:
    """A network's operators in topological order, and the indices of the operators whose values it returns."""

    operators: tuple[Operator, ...]
    results: tuple[int, ...]

    def __repr__(self) -> str:
        # A network has thousands of operators, and each has the types of its results.
        kinds = Counter(entry.kind for entry in self.operators)
        counts = ", ".join(f"{count} {kind}" for kind, count in kinds.most_common())
        return f"{len(self.operators)} operators: {counts}"

    @property
    def computed_types(self) -> frozenset[str]:
        """Dtypes of the results of operators; inputs and constants are not computed."""
        computations = (entry for entry in self.operators if entry.kind not in ("input", "constant"))
        return frozenset(output.dtype for entry in computations for output in entry.outputs)

    @property
    def rounded_types(self) -> frozenset[str]:
        """16-bit floats that results are only rounded to; empty if the network computes in them."""
        halves = {entry.index: entry for entry in self.operators if entry.outputs and entry.outputs[0].dtype in HALVES}
        computed = {index: entry for index, entry in halves.items() if entry.kind not in ("input", "constant")}
        users = [entry for entry in self.operators if not computed.keys().isdisjoint(entry.inputs)]
        casts = (*computed.values(), *users)
        # bfloat16 is cast back, because numpy does not have it.
        if any(each.kind not in CASTS for each in casts) or not {each.index for each in users} <= set(self.results):
            return frozenset()
        return frozenset(entry.outputs[0].dtype for entry in computed.values())

    @property
    def quantizes(self) -> bool:
        """True if floats are rounded to integers somewhere."""
        return any(entry.kind == "quantize" for entry in self.operators)

    def to_json(self) -> dict[str, Json]:
        """Return the summary as rows, one per operator, for the pipe between worker and parent."""
        # Rows without keys: a large network has thousands of operators, and one answer is one line of JSON.
        return {"operators": [_row(operator) for operator in self.operators], "results": list(self.results)}

    @classmethod
    def from_json(cls, data: Mapping[str, object]) -> "ModuleSummary":
        """Read what ``to_json`` returns."""
        rows, results = data["operators"], data["results"]
        assert isinstance(rows, list) and isinstance(results, list)
        return cls(tuple(_operator(row) for row in rows), tuple(results))


def _row(operator: Operator) -> Json:
    outputs: list[Json] = [[list(output.shape), output.dtype] for output in operator.outputs]
    attributes = dict(operator.attributes)
    inputs: list[Json] = list(operator.inputs)
    return [operator.index, operator.kind, operator.op, inputs, outputs, attributes, operator.value]


def _operator(row: list[object]) -> Operator:
    # Rows come from `to_json` in a worker of the same version, so their types are not checked again.
    index, kind, op, inputs, outputs, attributes, value = row
    types = tuple(TensorType(tuple(shape), dtype) for shape, dtype in outputs)  # type: ignore[attr-defined]
    return Operator(index, kind, op, tuple(inputs), types, attributes, value)  # type: ignore[arg-type]
