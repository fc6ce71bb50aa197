"""The documents of an explored space."""

from collections.abc import Mapping
from dataclasses import dataclass

from passsearch.results.candidate import StatedFailure
from passsearch.results.network import NetworkIdentity, Reference
from passsearch.results.parts import Compiler
from passsearch.results.record import Record, key
from passsearch.results.record import left_out as missing_if_none


@dataclass(frozen=True, kw_only=True)
class SequenceCount(Record):
    """The number of sequences of one length.

    Attributes:
        length: The length.
        number: Number of all sequences.
        valid: Number of those in which no pass fails.
    """

    length: int
    number: int = key("all")
    valid: int


@dataclass(frozen=True)
class PassPair(Record):
    """Two passes, and on how many states something is true of them.

    Attributes:
        first: The first pass.
        second: The second one.
        equal: Number of states on which both orders give the same IR.
        different: Number of states on which they give different ones.
        states: Number of states on which the first one enables or disables the second one.
    """

    first: str
    second: str
    equal: int | None = missing_if_none()
    different: int | None = missing_if_none()
    states: int | None = missing_if_none()


@dataclass(frozen=True)
class ClosedPart(Record):
    """The largest closed part of a space.

    Attributes:
        steps: Its passes.
        states: Number of its states.
    """

    steps: tuple[str, ...]
    states: int


@dataclass(frozen=True, kw_only=True)
class SpaceGraph(Record):
    """The graph of a space.

    Attributes:
        states: Hashes of the IRs; the network is the first one.
        steps: The passes.
        table: For each state and pass the number of the state it leads to, or a negative number: untried, or failed.
        seconds: Seconds that every pass took.
        failures: The failures that negative numbers stand for.
    """

    states: tuple[str, ...]
    steps: tuple[str, ...]
    table: tuple[tuple[int, ...], ...]
    seconds: tuple[tuple[float, ...], ...]
    failures: tuple[StatedFailure, ...]


@dataclass(frozen=True, kw_only=True)
class ExploredSpace(Record):
    """An explored space: ``explore --out`` writes it, ``explore --json`` prints it without the graph.

    Attributes:
        schema: Version of the form.
        model: The network.
        target: TVM's target.
        toolchain: The compiler.
        reference: What proves the import; earlier versions did not say.
        classes: Names of the architecture classes.
        closed: True if no edge is left to try.
        ended: ``closed``, or the limit that ended the exploration.
        states: Number of states.
        unfinished: Number of states with untried edges.
        edges: Number of edges.
        failed: Number of edges that failed.
        depth: Number of passes to the farthest state.
        sequences: Numbers of sequences by length.
        steps: The passes.
        left_out: Passes with which the space never closes.
        given_up: Passes that crashed, timed out or ran out of memory.
        idle: Passes that change nothing.
        unsteady: Nondeterministic passes.
        not_idempotent: Number of states on which a pass changes the IR again when repeated, by pass.
        commuting: Pairs that give the same IR in both orders.
        not_commuting: The other pairs.
        enabling: Pairs of which the first one enables the second one.
        disabling: Pairs of which the first one disables the second one.
        barriers: Pairs of which the second one never acts after the first one; ``None`` for an open space.
        new_states: Number of states that each pass reached first.
        closed_part: The closed part of the space.
        growth: Seconds, number of finished states and number of states, whenever one grew.
        tried: Number of passes that were applied.
        remembered: True if later runs know the space too.
        seconds: Wall time.
        graph: The graph.
    """

    schema: str
    model: NetworkIdentity
    target: str
    toolchain: Compiler
    reference: Reference | None = None
    classes: tuple[str, ...]
    closed: bool
    ended: str
    states: int
    unfinished: int
    edges: int
    failed: int
    depth: int
    sequences: tuple[SequenceCount, ...]
    steps: tuple[str, ...]
    left_out: tuple[str, ...]
    given_up: tuple[str, ...]
    idle: tuple[str, ...]
    unsteady: tuple[str, ...]
    not_idempotent: Mapping[str, int]
    commuting: tuple[tuple[str, str], ...]
    not_commuting: tuple[PassPair, ...]
    enabling: tuple[PassPair, ...]
    disabling: tuple[PassPair, ...]
    barriers: tuple[tuple[str, str], ...] | None
    new_states: Mapping[str, int]
    closed_part: ClosedPart
    growth: tuple[tuple[float, int, int], ...]
    tried: int
    remembered: bool
    seconds: float
    graph: SpaceGraph | None = missing_if_none()


@dataclass(frozen=True, kw_only=True)
class CertificateCheck(Record):
    """The check of an explored space, as ``explore --check --json`` prints it.

    Attributes:
        schema: Version of the form.
        holds: True if nothing contradicts the file.
        problems: What contradicts it.
        checked: Number of edges that were applied again.
        edges: Number of edges that can be checked.
        closed: True if the space is closed.
        states: Number of its states.
        seed: Seed of the sample.
    """

    schema: str
    holds: bool
    problems: tuple[str, ...]
    checked: int | None
    edges: int
    closed: bool
    states: int
    seed: int
