"""The structure of the whole graph: depth, dynamic shapes and repeated blocks."""

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

import networkx as nx

from passsearch.analysis.convolution import is_depthwise, kernel_size
from passsearch.analysis.graph import Dataflow, Digraph, make_feature
from passsearch.analysis.kinds import CONVOLUTIONS, HEAVY
from passsearch.core import Feature

_RESHAPES = frozenset({"reshape", "broadcast_to", "full", "strided_slice", "tile", "resize2d", "expand_dims"})
_DATA_SHAPED = frozenset({"unique", "argwhere", "nonzero", "non_max_suppression"})
# Longest repeated block, in segments of the trunk; the search for repeats takes time in proportion to it.
_LONGEST_PERIOD = 48
# An extra node before all inputs: dominators need one root. Operators have indices from 0 on.
_SOURCE = -1


def find_features(flow: Dataflow) -> Mapping[str, Feature]:
    """Return the structural features by name; ``depth`` counts weighted operators on the longest path."""
    return {
        "depth": Feature(_depth(flow), next((operator.index for operator in flow.of_kind(HEAVY)), None)),
        "dynamic": make_feature(_dynamic(flow)),
        "repeated_block": _repeated_block(flow),
    }


def _depth(flow: Dataflow) -> int:
    # A loop in topological order instead of recursion: networks are deeper than Python's recursion limit.
    longest: dict[int, int] = {}
    for index in sorted(flow.data):
        before = max((longest[source] for source in flow.arguments(index)), default=0)
        longest[index] = before + (flow.kind(index) in HEAVY)
    return max(longest.values(), default=0)


def _dynamic(flow: Dataflow) -> Iterator[int]:
    """Yield the operators whose result has a shape that is fixed only at run time."""
    for operator in flow.operators:
        is_open = any(size is None for output in operator.outputs for size in output.shape)
        # The second data argument of a reshape is the shape, so data decides it, even if the result shows sizes.
        follows_data = operator.kind in _RESHAPES and len(flow.arguments(operator.index)) > 1
        if is_open or follows_data or operator.kind in _DATA_SHAPED:
            yield operator.index


def _repeated_block(flow: Dataflow) -> Feature:
    blocks = repeated_blocks(flow)
    if not blocks:
        return Feature(0)
    block = blocks[0]
    return Feature(len(blocks), min(block), f"{len(block)} operators, {_contents(flow, block)}")


def repeated_blocks(flow: Dataflow) -> list[list[int]]:
    """Return all occurrences of the block whose repeats cover most of the trunk, each as its operators.

    The trunk is the longest chain of values that all data flows through after the first weight: a path in the
    dominator tree. A segment is the set of operators between two values of the trunk. Segments are equal if their
    operators have equal kinds and equal connections.
    """
    graph = _weighted_part(flow)
    trunk = _trunk(graph, flow.results)
    segments = _segments(graph, trunk)
    digests = [_digest(flow, segment) for segment in segments]
    repeats = itertools.chain(_repeated_segments(segments, digests), _successive(segments, digests))
    weighted = (blocks for blocks in repeats if any(flow.kind(index) in HEAVY for index in blocks[0]))
    # The first occurrence is no repeat. Without the -1, the whole network would count as one large block. Among blocks
    # that cover equally many operators, the one that is repeated most often.
    return max(weighted, key=lambda blocks: ((len(blocks) - 1) * len(blocks[0]), len(blocks)), default=[])


def _weighted_part(flow: Dataflow) -> Digraph:
    """Return the graph behind the first weights.

    Masks and positions are not part of it. They enter every block from outside, so with them no value would
    dominate the blocks and there would be no trunk.
    """
    reached: set[int] = set()
    for index in sorted(flow.data):
        # `take` is the look-up in an embedding table, the first weight of a language model.
        is_weighted = flow.kind(index) in HEAVY or flow.kind(index) == "take"
        if is_weighted or any(source in reached for source in flow.arguments(index)):
            reached.add(index)
    return flow.data.subgraph(reached).copy()


def _trunk(graph: Digraph, results: Iterable[int]) -> list[int]:
    if not graph:
        return []
    rooted = graph.copy()
    rooted.add_edges_from((_SOURCE, node) for node in graph if graph.in_degree(node) == 0)
    above = nx.immediate_dominators(rooted, _SOURCE)
    depth = {_SOURCE: 0}
    for node in sorted(graph):
        depth[node] = depth[above[node]] + 1
    node = _trunk_end(depth, results)
    chain = [node]
    while above[node] not in (_SOURCE, None):
        node = above[node]
        chain.append(node)
    return chain[::-1]


def _trunk_end(depth: Mapping[int, int], results: Iterable[int]) -> int:
    """Return the last value of the trunk: a result, or the deepest value if all results branch off early."""
    # The results of SSD join heads at all depths, so the value that dominates them lies near the start of the network.
    deepest = max(sorted(depth), key=lambda node: depth[node])
    result = max(sorted(set(results) & set(depth)), key=lambda node: depth[node], default=deepest)
    return result if 2 * depth[result] >= depth[deepest] else deepest


def _segments(graph: Digraph, trunk: Sequence[int]) -> list[tuple[int, ...]]:
    """Return the operators between neighbours of the trunk, the later neighbour included, in topological order."""
    if not trunk:
        return []
    segments: list[tuple[int, ...]] = [(trunk[0],)]
    for start, end in itertools.pairwise(trunk):
        segments.append(_between(graph, start, end=end))
    return segments


def _between(graph: Digraph, start: int, *, end: int) -> tuple[int, ...]:
    reached = {end}
    stack = [end]
    while stack:
        for source in graph.predecessors(stack.pop()):
            if source > start and source not in reached:
                reached.add(source)
                stack.append(source)
    return tuple(sorted(reached))


def _digest(flow: Dataflow, segment: tuple[int, ...]) -> int:
    """Return a number that is equal for equal segments: labels, hashed with the digests of the values they read."""
    digests: dict[int, int] = {}
    for index in segment:
        # Sorted, because exporters swap the operands of commutative operators.
        sources = sorted(digests[source] for source in flow.arguments(index) if source in digests)
        digests[index] = hash((_label(flow, index), *sources))
    return digests[segment[-1]]


def _label(flow: Dataflow, index: int) -> str:
    operator = flow.operators[index]
    if operator.kind not in CONVOLUTIONS:
        return operator.kind
    # Channels are not part of the label: blocks that differ in width only count as repeats.
    depthwise = "depthwise " if is_depthwise(flow, operator) else ""
    return f"{depthwise}{operator.kind} {kernel_size(flow, operator)}"


def _repeated_segments(segments: Sequence[tuple[int, ...]], digests: Sequence[int]) -> Iterator[list[list[int]]]:
    """Yield all occurrences of each segment that occurs more than once, at any place of the trunk.

    A segment without branches is left out. Every occurrence is the list of its operators, by number.

    Args:
        segments: The numbers of the operators of each segment.
        digests: The digest of each segment; occurrences of one segment have equal digests.
    """
    occurrences: defaultdict[int, list[list[int]]] = defaultdict(list)
    for segment, digest in zip(segments, digests, strict=True):
        if len(segment) > 1:
            occurrences[digest].append(list(segment))
    yield from (blocks for blocks in occurrences.values() if len(blocks) > 1)


def _successive(segments: Sequence[tuple[int, ...]], digests: Sequence[int]) -> Iterator[list[list[int]]]:
    """Yield the occurrences of sequences of segments that occur several times in succession."""
    for period in range(1, min(_LONGEST_PERIOD, len(digests) // 2) + 1):
        for start, times in _runs(digests, period):
            starts = range(start, start + times * period, period)
            yield [[index for segment in segments[first : first + period] for index in segment] for first in starts]


def _runs(digests: Sequence[int], period: int) -> Iterator[tuple[int, int]]:
    """Yield the start of every maximal run of a repeated window, and the number of its occurrences."""
    start = 0
    # A run of windows with period p is a run of digests that equal the digest p places later.
    while start + period < len(digests):
        end = start
        while end + period < len(digests) and digests[end] == digests[end + period]:
            end += 1
        times = (end - start) // period + 1
        if times > 1:
            yield start, times
        start = end + 1


def _contents(flow: Dataflow, block: Sequence[int]) -> str:
    counts = Counter(flow.kind(index) for index in block if flow.kind(index) in HEAVY)
    return ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items()))
