"""The document of a check of the catalog."""

from dataclasses import dataclass

from passsearch.results.record import Record


@dataclass(frozen=True)
class CheckedEntry(Record):
    """The result of checking one entry of the catalog.

    Attributes:
        name: Name of the pass.
        problems: Sentences that say what is wrong; none if the entry agrees with the compiler.
        skipped: Reason why it was not checked; empty if it was.
    """

    name: str
    problems: tuple[str, ...] = ()
    skipped: str = ""


@dataclass(frozen=True)
class CheckedSequence(Record):
    """The result of checking one sequence of the catalog on one network.

    Attributes:
        name: Name of the sequence.
        network: Name of the network.
        state: State that a process of its own reached; empty if the compiler refuses the sequence.
        problem: Sentence that says what is wrong; empty if both ways lead to the same.
        refusal: Reason why the compiler refuses the sequence, both ways; empty if it does not.
    """

    name: str
    network: str
    state: str = ""
    problem: str = ""
    refusal: str = ""


@dataclass(frozen=True)
class CatalogCheck(Record):
    """A check of the catalog, as ``catalog check --json`` prints it.

    Attributes:
        toolchain: Name of the toolchain.
        tvm_version: Version of TVM.
        entries: The entries.
        sequences: The sequences.
    """

    toolchain: str
    tvm_version: str
    entries: tuple[CheckedEntry, ...]
    sequences: tuple[CheckedSequence, ...] = ()

    @property
    def is_wrong(self) -> bool:
        """True if an entry or a sequence has a problem."""
        return any(entry.problems for entry in self.entries) or any(sequence.problem for sequence in self.sequences)
