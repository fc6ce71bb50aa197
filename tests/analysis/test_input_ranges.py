"""Ranges of the values of inputs, from graphs."""

from passsearch.analysis import input_ranges
from passsearch.core import InputRange, ModuleSummary, Operator, TensorType

IDS = TensorType((1, 8), "int64")


class Graph:
    """A graph under construction; every method adds an operator and returns its index."""

    def __init__(self) -> None:
        self.operators: list[Operator] = []

    def add(self, kind: str, *inputs: int, shape=(1, 8), dtype: str = "int64", op: str = "", value=None, **rest) -> int:
        index = len(self.operators)
        outputs = (TensorType(tuple(shape), dtype),)
        self.operators.append(Operator(index, kind, op or kind, inputs, outputs, rest, value))
        return index

    def table(self, rows: int) -> int:
        return self.add("constant", shape=(rows, 16), dtype="float32")

    def range_of(self, name: str = "ids", kind: TensorType = IDS) -> InputRange:
        return input_ranges(ModuleSummary(tuple(self.operators), ()), {name: kind})[name]


def test_an_index_reaches_the_last_row_of_the_smallest_table_that_it_indexes() -> None:
    graph = Graph()
    ids = graph.add("input", op="ids")
    narrow = graph.add("reshape", graph.add("cast", ids, dtype="int32"), shape=(8,), dtype="int32")
    graph.add("take", graph.table(30522), narrow, axis=0)
    graph.add("take", graph.table(512), ids, axis=0)
    assert graph.range_of() == InputRange(0, 511, "table")


def test_the_correction_of_negative_indices_does_not_shift_the_range() -> None:
    graph = Graph()
    ids = graph.add("input", op="ids")
    size = graph.add("constant", shape=(), value=100.0)
    corrected = graph.add("where", graph.add("less", ids, size, dtype="bool"), graph.add("add", ids, size), ids)
    graph.add("take", graph.table(100), corrected, axis=0)
    assert graph.range_of() == InputRange(0, 99, "table")


def test_an_offset_into_a_table_leaves_fewer_values() -> None:
    graph = Graph()
    ids = graph.add("input", op="ids")
    moved = graph.add("add", ids, graph.add("constant", shape=(), value=2.0))
    graph.add("take", graph.table(514), moved, axis=0)
    assert graph.range_of() == InputRange(0, 511, "table")


def test_what_is_looked_up_is_no_index() -> None:
    graph = Graph()
    ids = graph.add("input", op="ids")
    graph.add("take", ids, graph.add("constant", shape=(2,)), axis=1)
    assert graph.range_of() == InputRange(0, 1, "unknown")


def test_names_and_dtypes_say_what_no_graph_says() -> None:
    graph = Graph()
    assert graph.range_of("attention_mask") == InputRange(0, 1, "mask")
    assert graph.range_of("x", TensorType((4,), "uint8")) == InputRange(0, 255, "dtype")
    assert graph.range_of("x", TensorType((4,), "int8")) == InputRange(-128, 127, "dtype")
    assert graph.range_of("mask", TensorType((4,), "float32")).source == "mask"
    summary = ModuleSummary((), ())
    assert input_ranges(summary, {"x": TensorType((4,), "float32"), "on": TensorType((4,), "bool")}) == {}
