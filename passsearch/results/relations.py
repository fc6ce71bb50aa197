"""Relations between passes, measured in every ordered pair."""

from collections.abc import Mapping
from dataclasses import dataclass

from passsearch.results.record import Record


@dataclass(frozen=True)
class PassRelation(Record):
    """A relation between two passes, with the smallest network that shows it.

    Attributes:
        relation: ``enables`` if the second pass changes nothing alone and something after the first; ``disables`` if
            it changes something alone and nothing after the first; ``commutes`` if both orders give one program;
            ``idempotent`` if a pass, here both, changes nothing the second time; ``precedes`` if a pass fails in the
            other order only.
        first: Name of the first pass.
        second: Name of the second pass.
        seen: Number of states of networks that show the relation.
        states: Number of states in which it could be seen or contradicted.
        network: The smallest network that shows it.
        after: The passes that lead to the state, as text; empty for the imported network.
    """

    relation: str
    first: str
    second: str
    seen: int
    states: int
    network: str
    after: str


@dataclass(frozen=True)
class PassRelations(Record):
    """The measured relations of one pass, as ``catalog show --json`` prints them.

    Attributes:
        tvm: Version of TVM.
        date: Day of the last measurement.
        passes: Number of passes that were measured, on each network those that apply to it.
        networks: Number of networks.
        states: Number of states of these networks in which every pair of passes was measured.
        pairs: The relations.
    """

    tvm: str
    date: str
    passes: int
    networks: int
    states: int
    pairs: tuple[PassRelation, ...]


@dataclass(frozen=True)
class RelatedNetwork(Record):
    """A network on which pairs of passes were measured.

    Attributes:
        operators: Number of its operators, inputs and constants.
        states: Number of states in which every pair was measured.
    """

    operators: int
    states: int


@dataclass(frozen=True, kw_only=True)
class MeasuredRelations(Record):
    """The relations of all passes as the catalog ships them, in ``pass_catalog/<dialect>/pairs.json``.

    Attributes:
        schema: Version of the form.
        tvm: Version of TVM.
        date: Day of the last measurement.
        passes: Number of passes that were measured, on each network those that apply to it.
        networks: The networks by name, which ends with ``@gpu`` where they were lowered for a GPU.
        witnesses: Networks with the passes that lead to a state; relations name them by number.
        relations: By relation, first pass and second pass: the number of states that show it, of those that contradict
            it, and its witness.
    """

    schema: str
    tvm: str
    date: str
    passes: int
    networks: Mapping[str, RelatedNetwork]
    witnesses: tuple[tuple[str, str], ...]
    relations: Mapping[str, Mapping[str, Mapping[str, tuple[int, int, int]]]]

    def of(self, name: str) -> PassRelations:
        """Return the relations of a pass: by kind, those in which it is first, those seen most often first."""
        found = [
            PassRelation(relation, first, second, seen, seen + contradicted, *self.witnesses[witness])
            for relation, firsts in self.relations.items()
            for first, seconds in firsts.items()
            for second, (seen, contradicted, witness) in seconds.items()
            if name in (first, second)
        ]
        ordered = sorted(found, key=lambda each: (each.relation, each.first != name, -each.seen))
        states = sum(network.states for network in self.networks.values())
        return PassRelations(self.tvm, self.date, self.passes, len(self.networks), states, tuple(ordered))
