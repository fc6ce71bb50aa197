"""Tables of vectors, one for each token or category: where they are looked up, and where they write tokens."""

from collections.abc import Iterator, Mapping

from passsearch.analysis.graph import Dataflow, is_weighted_matmul, make_feature, walk_back
from passsearch.analysis.kinds import LAYOUTS, SLICES
from passsearch.core import Feature, Operator

# Between the product with the vocabulary and the result: a bias, a scale, a cap, probabilities.
_AFTER_LOGITS = LAYOUTS | SLICES | {"add", "bias_add", "multiply", "divide", "tanh", "softmax", "log_softmax"}


def find_features(flow: Dataflow) -> Mapping[str, Feature]:
    """Return the features of tables by name."""
    lookups = list(_lookups(flow))
    rows = {flow.shape(table)[0] for _, table in lookups}
    return {
        "table_lookup": make_feature(lookup.index for lookup, _ in lookups),
        "vocabulary_product": make_feature(_products_with_vocabulary(flow, rows)),
    }


def _lookups(flow: Dataflow) -> Iterator[tuple[Operator, int]]:
    """Yield operators that read rows of a matrix of weights by indices in the data, with the matrix."""
    for operator in flow.of_kind({"take", "gather", "embedding"}):
        tables = [source for source in flow.weights(operator.index) if len(flow.shape(source)) == 2]
        if len(tables) == 1 and flow.arguments(operator.index):
            yield operator, tables[0]


def _products_with_vocabulary(flow: Dataflow, rows: set[int | None]) -> Iterator[int]:
    """Yield products before a result with as many columns as a table has rows: scores of the next tokens."""
    walk = walk_back(flow, flow.results, through=lambda index: flow.kind(index) in _AFTER_LOGITS)
    for end in walk.ends:
        if is_weighted_matmul(flow, end) and flow.shape(end)[-1] in rows:
            yield end
