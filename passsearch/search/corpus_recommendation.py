"""What the corpus says of the sequences of the catalog for a network, without building anything.

The sequences come in the order of what they reached on the three networks of the corpus with the most similar counts of
features, and in that of the catalog where fewer than three networks share a class with the network. Of six rules this
one has the largest worst decile where it does not know the architecture family (``docs/evidence/search.md``).
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile

from passsearch.core import Interval
from passsearch.measure import Ratio, next_value_interval
from passsearch.results import Corpus, CorpusNetwork, SearchBound, StatedRatio
from passsearch.toolchain import target_cpu, target_kind, vector_bits

LEAST_ALIKE = 3
"""Fewest networks from which anything is expected of another one."""

NEAREST = 3
"""Networks of the corpus that order the sequences for another one."""

LEAST_SEARCHED = 5
"""Fewest searched networks that make a bound."""

BOUND_LEVEL = 0.95

DEFAULT, ONNXRUNTIME = "default", "onnxruntime"

UNKNOWN = "unknown"
"""Class of a network that fits no other: two of them have nothing in common."""

Networks = Mapping[str, CorpusNetwork]


@dataclass(frozen=True)
class Evidence:
    """What was measured with a sequence on networks alike.

    Attributes:
        alike: The networks of the corpus, by name.
        reach: Geometric mean of the share of the best known throughput that the sequence reaches on these.
        text: The same in words.
    """

    alike: Networks
    reach: float
    text: str


def alike_networks(networks: Networks, classes: Iterable[str]) -> Networks:
    """Return the networks with exactly these classes; those that share one where too few have all."""
    wanted = frozenset(classes) - {UNKNOWN}
    same = {name: row for name, row in networks.items() if frozenset(row.classes) == wanted}
    if len(same) >= LEAST_ALIKE:
        return same
    return {name: row for name, row in networks.items() if wanted & frozenset(row.classes)}


def nearest_networks(networks: Networks, features: Mapping[str, int]) -> tuple[str, ...]:
    """Return the names of the networks with the most similar counts of features, the nearest one first.

    Args:
        networks: The corpus on one kind of processor.
        features: Counts of the features that the network has.
    """
    measured = [name for name, row in networks.items() if row.best() is not None]
    return tuple(sorted(measured, key=lambda name: _distance(networks[name].features, features))[:NEAREST])


def order_by_nearest(
    networks: Networks, classes: Iterable[str], features: Mapping[str, int], suited: Sequence[str]
) -> tuple[str, ...]:
    """Return sequences in the order of what they reached on the nearest networks of the corpus.

    The order stays as it is where the corpus has too few networks alike, of which it expects nothing either.
    A sequence that no network of the corpus takes, such as one for integers, keeps its place before the first one that
    the corpus knows. Those that less than half of the nearest networks take come last, in the order of the catalog.

    Args:
        networks: The corpus on one kind of processor.
        classes: The network's classes.
        features: Counts of the features that it has.
        suited: Names of the sequences that suit it, in the order of the catalog.
    """
    if len(alike_networks(networks, classes)) < LEAST_ALIKE:
        return tuple(suited)
    nearest = [networks[name] for name in nearest_networks(networks, features)]
    taken = {name for row in networks.values() for name in row.order}
    first = tuple(takewhile(lambda name: name not in taken, suited))
    reached = {name: [share for row in nearest if (share := row.reach(name))] for name in suited if name not in first}
    means = {
        name: math.fsum(map(math.log, shares)) / len(shares)
        for name, shares in reached.items()
        if shares and len(shares) >= len(nearest) / 2
    }
    return (*first, *sorted(reached, key=lambda name: -means.get(name, -math.inf)))


def _distance(one: Mapping[str, int], other: Mapping[str, int]) -> float:
    """Return the square of the distance between the logarithms of two networks' counts of features."""
    return math.fsum((math.log1p(one.get(name, 0)) - math.log1p(other.get(name, 0))) ** 2 for name in {*one, *other})


def evidence(networks: Networks, classes: Iterable[str], sequence: str) -> Evidence | None:
    """Return what the corpus has of a sequence on networks of these classes; ``None`` where it has too few.

    Args:
        networks: The corpus on one kind of processor.
        classes: The network's classes.
        sequence: Name of the sequence.
    """
    alike = alike_networks(networks, classes)
    reached = {name: share for name, row in alike.items() if (share := row.reach(sequence)) is not None}
    if len(reached) < LEAST_ALIKE:
        return None
    reach = math.exp(math.fsum(map(math.log, reached.values())) / len(reached))
    rows = {name: alike[name] for name in reached}
    searched = sum(row.search is not None for row in rows.values())
    best = f"throughput of the best sequence{f', or of a search on {searched} of them' if searched else ''}"
    such = (
        "such networks" if all({*row.classes} == {*classes} for row in rows.values()) else "networks that share a class"
    )
    return Evidence(rows, reach, f"on {len(rows)} {such} it has {100 * reach:.1f} % of the {best}")


def expected_gain(networks: Iterable[CorpusNetwork], sequence: str, *, over: str) -> StatedRatio | None:
    """Return the throughput of a sequence over another pipeline's that is expected on a new network.

    The interval holds that of a new network (95 %).
    """
    ratios = [ratio for row in networks if (ratio := row.speed(sequence, over=over)) is not None]
    if len(ratios) < LEAST_ALIKE:
        return None
    mean, interval = next_value_interval([math.log(ratio) for ratio in ratios])
    expected = Ratio(math.exp(mean), Interval(math.exp(interval.low), math.exp(interval.high)))
    return StatedRatio.from_json(expected.to_json())


def search_bound(searched: Iterable[float], *, of: str) -> SearchBound | None:
    """Return what a search of a new network adds at most, from what searches of other networks have added.

    The bound is the one-sided prediction limit of the next value (Hahn and Meeker, Statistical Intervals, 1991).

    Args:
        searched: Throughput that each search found over that of the recommended sequence.
        of: Processors and time limits of the searches, in words.
    """
    logs = [math.log(max(1.0, ratio)) for ratio in searched]
    if len(logs) < LEAST_SEARCHED:
        return None
    # Both ends of an interval of 90 % leave 5 % outside.
    mean, interval = next_value_interval(logs, level=2 * BOUND_LEVEL - 1)
    method = f"one-sided prediction limit from searches of {len(logs)} networks on {of}"
    return SearchBound(math.expm1(interval.high), math.expm1(mean), BOUND_LEVEL, len(logs), method)


def search_gains(networks: Networks) -> dict[str, float]:
    """Return, by searched network, the best known throughput over that of the sequence that others recommend for it."""
    reached = {name: row.reach(recommended_by_others(networks, row)) for name, row in networks.items() if row.search}
    return {name: 1 / share for name, share in reached.items() if share}


def recommended_by_others(networks: Networks, row: CorpusNetwork) -> str:
    """Return the sequence that is recommended for a network by those of other architecture families."""
    others = {name: each for name, each in networks.items() if each.family != row.family}
    return order_by_nearest(others, row.classes, row.features, row.order)[0]


@dataclass(frozen=True)
class CorpusAdvice:
    """What the corpus says of a network.

    Attributes:
        sequence: The recommended sequence.
        reason: Why, in words.
        processor: Kind of processor in the corpus; empty where it has none like that of the target.
        alike: Names of the networks of the corpus on which the expectations rest.
        abstained: Why the corpus says nothing; empty where it does.
        over_default: Expected throughput over TVM's default.
        over_others: The same over each other sequence that suits the network.
        over_onnxruntime: The same over ONNX Runtime.
        bound: What a search could still add.
    """

    sequence: str
    reason: str
    processor: str
    alike: tuple[str, ...] = ()
    abstained: str = ""
    over_default: StatedRatio | None = None
    over_others: Mapping[str, StatedRatio] = field(default_factory=dict)
    over_onnxruntime: StatedRatio | None = None
    bound: SearchBound | None = None


def advise(
    corpus: Corpus, target: str, *, classes: Sequence[str], features: Mapping[str, int], suited: Sequence[str]
) -> CorpusAdvice:
    """Return what the corpus says of a network.

    Args:
        corpus: The corpus.
        target: TVM's target.
        classes: The network's classes.
        features: Counts of the features that it has.
        suited: Sequences that suit it, the recommended one first.
    """
    sequence, kind, names = suited[0], similar_processor(corpus, target), " and ".join(classes)
    first = f"the first of {len(suited)} sequences that suit networks of class {names}, "
    if kind is None:
        known = ", ".join(corpus.processors) or "none"
        abstained = f"the corpus has no processor like `{target_cpu(target) or target}`; it has: {known}"
        return CorpusAdvice(sequence, f"{first}in the catalog's order", "", abstained=abstained)
    networks = corpus.processors[kind].networks
    if len(alike_networks(networks, classes)) < LEAST_ALIKE:
        first += "in the catalog's order"
    else:
        nearest = ", ".join(nearest_networks(networks, features))
        first += f"in the order of what they reached on the most similar networks ({nearest})"
    found = evidence(networks, classes, sequence)
    if found is None:
        abstained = f"the corpus has fewer than {LEAST_ALIKE} networks of class {names} on `{kind}`"
        return CorpusAdvice(sequence, first, kind, abstained=abstained)
    rows = [*found.alike.values()]
    gains = {name: expected_gain(rows, sequence, over=name) for name in suited[1:]}
    return CorpusAdvice(
        sequence,
        f"{first}; {found.text}",
        kind,
        tuple(found.alike),
        over_default=expected_gain(rows, sequence, over=DEFAULT),
        over_others={name: gain for name, gain in gains.items() if gain is not None},
        over_onnxruntime=expected_gain(rows, sequence, over=ONNXRUNTIME),
        bound=_bound(corpus),
    )


def similar_processor(corpus: Corpus, target: str) -> str | None:
    """Return the kind of processor of a target; one with as wide vectors where the corpus does not have it."""
    cpu = target_cpu(target)
    if cpu in corpus.processors or target_kind(target) != "llvm":
        return cpu if cpu in corpus.processors else None
    bits = vector_bits(cpu)
    alike = [kind for kind in corpus.processors if bits and vector_bits(kind) == bits]
    return max(alike, key=lambda kind: len(corpus.processors[kind].networks), default=None)


def _bound(corpus: Corpus) -> SearchBound | None:
    """Return what a search adds at most, from the searches on all kinds of processors."""
    found = {kind: search_gains(each.networks) for kind, each in corpus.processors.items()}
    rows = [corpus.processors[kind].networks[name] for kind, gains in found.items() for name in gains]
    limits = {row.search.seconds for row in rows if row.search and row.search.seconds}
    lengths = f" of {min(limits):.0f} to {max(limits):.0f} s" if limits else ""
    where = " and ".join(kind for kind, gains in found.items() if gains)
    gains = [gain for each in found.values() for gain in each.values()]
    without = [search_bound([*gains[:place], *gains[place + 1 :]], of="") for place in range(len(gains))]
    held = sum(bound is not None and gain - 1 <= bound.most for gain, bound in zip(gains, without, strict=True))
    return search_bound(gains, of=f"{where}{lengths}; made without it, it held for {held}")
