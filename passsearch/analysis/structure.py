"""The shape of the whole graph: depth, what is dynamic, and blocks that repeat."""

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

import networkx as nx

from passsearch.analysis.convolution import is_depthwise, kernel
from passsearch.analysis.graph import Dataflow, Digraph, occurrences
from passsearch.analysis.kinds import CONVOLUTIONS, HEAVY
from passsearch.core import Feature

_RESHAPES = frozenset({"reshape", "broadcast_to", "full", "strided_slice", "tile", "resize2d", "expand_dims"})
_DATA_SHAPED = frozenset({"unique", "argwhere", "nonzero", "non_max_suppression"})
_LONGEST_PERIOD = 48
_SOURCE = -1


def features(flow: Dataflow) -> Mapping[str, Feature]:
    """Features of this family by name; ``depth`` counts weighted operators on the longest path."""
    return {
        "depth": Feature(_depth(flow), next((each.index for each in flow.of_kind(HEAVY)), None)),
        "dynamic": occurrences(_dynamic(flow)),
        "repeated_block": _repeated(flow),
    }


def _depth(flow: Dataflow) -> int:
    longest: dict[int, int] = {}
    for index in sorted(flow.data):
        before = max((longest[source] for source in flow.arguments(index)), default=0)
        longest[index] = before + (flow.kind(index) in HEAVY)
    return max(longest.values(), default=0)


def _dynamic(flow: Dataflow) -> Iterator[int]:
    """Operators with a dimension known only at run time, or with an argument that decides their shape."""
    for operator in flow.operators:
        unknown = any(size is None for output in operator.outputs for size in output.shape)
        decided = operator.kind in _RESHAPES and len(flow.arguments(operator.index)) > 1
        if unknown or decided or operator.kind in _DATA_SHAPED:
            yield operator.index


def _repeated(flow: Dataflow) -> Feature:
    """The block whose repeats cover most of the trunk.

    The trunk is the longest chain of values that everything after the first weight passes through (a path of
    the dominator tree); a block is what lies between two of them, compared by kinds and how they are joined.
    """
    graph = _weighted_part(flow)
    trunk = _trunk(graph, flow.results)
    segments = _segments(graph, trunk)
    digests = _digests(flow, segments)
    return _best(flow, itertools.chain(_scattered(segments, digests), _successive(segments, digests)))


def _weighted_part(flow: Dataflow) -> Digraph:
    """What follows the first weights; masks and positions, which join every block from outside, do not."""
    reached: set[int] = set()
    for index in sorted(flow.data):
        heavy = flow.kind(index) in HEAVY or flow.kind(index) == "take"
        if heavy or any(source in reached for source in flow.arguments(index)):
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
    node = _foot(depth, results)
    chain = [node]
    while above[node] not in (_SOURCE, None):
        node = above[node]
        chain.append(node)
    return chain[::-1]


def _foot(depth: Mapping[int, int], results: Iterable[int]) -> int:
    """Where the trunk ends: at a result, unless all results hang on its upper half, as those of SSD do."""
    deepest = max(sorted(depth), key=lambda node: depth[node])
    result = max(sorted(set(results) & set(depth)), key=lambda node: depth[node], default=deepest)
    return result if 2 * depth[result] >= depth[deepest] else deepest


def _segments(graph: Digraph, trunk: Sequence[int]) -> list[tuple[int, ...]]:
    """Operators after each trunk value up to and with the next one, in topological order."""
    if not trunk:
        return []
    segments: list[tuple[int, ...]] = [(trunk[0],)]
    for start, end in itertools.pairwise(trunk):
        segments.append(_between(graph, start, end=end))
    return segments


def _between(graph: Digraph, start: int, *, end: int) -> tuple[int, ...]:
    found = {end}
    stack = [end]
    while stack:
        for source in graph.predecessors(stack.pop()):
            if source > start and source not in found:
                found.add(source)
                stack.append(source)
    return tuple(sorted(found))


def _digests(flow: Dataflow, segments: Sequence[tuple[int, ...]]) -> list[int]:
    """A number for each block, equal for equal blocks: labels hashed with the digests of what they read."""
    return [_digest(flow, segment) for segment in segments]


def _digest(flow: Dataflow, segment: tuple[int, ...]) -> int:
    found: dict[int, int] = {}
    for index in segment:
        read = sorted(found[source] for source in flow.arguments(index) if source in found)
        found[index] = hash((_label(flow, index), *read))
    return found[segment[-1]]


def _label(flow: Dataflow, index: int) -> str:
    operator = flow.operators[index]
    if operator.kind not in CONVOLUTIONS:
        return operator.kind
    depthwise = "depthwise " if is_depthwise(flow, operator) else ""
    return f"{depthwise}{operator.kind} {kernel(flow, operator)}"


def _best(flow: Dataflow, blocks: Iterator[tuple[int, list[int]]]) -> Feature:
    """The block whose repeats hold most operators, the one repeated most often among equals."""
    weighted = ((times, block) for times, block in blocks if any(flow.kind(index) in HEAVY for index in block))
    found = max(weighted, key=lambda each: ((each[0] - 1) * len(each[1]), each[0]), default=None)
    if found is None:
        return Feature(0)
    times, block = found
    return Feature(times, min(block), f"{len(block)} operators, {_contents(flow, block)}")


def _scattered(segments: Sequence[tuple[int, ...]], digests: Sequence[int]) -> Iterator[tuple[int, list[int]]]:
    """Branching blocks that occur more than once, wherever on the trunk."""
    counts = Counter(digests)
    for segment, digest in zip(segments, digests, strict=True):
        if len(segment) > 1 and counts[digest] > 1:
            yield counts[digest], list(segment)


def _successive(segments: Sequence[tuple[int, ...]], digests: Sequence[int]) -> Iterator[tuple[int, list[int]]]:
    """Windows of the trunk that occur several times in a row."""
    for period in range(1, min(_LONGEST_PERIOD, len(digests) // 2) + 1):
        for start, times in _runs(digests, period):
            yield times, [index for segment in segments[start : start + period] for index in segment]


def _runs(digests: Sequence[int], period: int) -> Iterator[tuple[int, int]]:
    """Starts of maximal runs of a repeated window, with how often the window occurs in each."""
    start = 0
    while start + period < len(digests):
        end = start
        while end + period < len(digests) and digests[end] == digests[end + period]:
            end += 1
        times = (end - start) // period + 1
        if times > 1:
            yield start, times
        start = max(end, start) + 1


def _contents(flow: Dataflow, block: Sequence[int]) -> str:
    counts = Counter(flow.kind(index) for index in block if flow.kind(index) in HEAVY)
    return ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items()))
