"""The corpus: times of networks by pipeline and kind of processor, from which pipelines are recommended."""

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median

from passsearch.results.parts import Compiler, Device, StatedRatio
from passsearch.results.record import Record, left_out


@dataclass(frozen=True)
class CorpusSearch(Record):
    """A search of a network of the corpus.

    Attributes:
        seconds: Its time limit; ``None`` for one that ended by itself.
        sequence: The best sequence of the catalog.
        best: Name of the winner; empty for one that a sampler found.
        gain: Throughput of the winner over that of the best sequence.
    """

    seconds: float | None
    sequence: str
    best: str
    gain: StatedRatio


@dataclass(frozen=True, kw_only=True)
class CorpusNetwork(Record):
    """A network that was measured on one kind of processor.

    Attributes:
        family: Its architecture family, such as ``resnet``.
        date: Day of the measurement.
        code: Commit of passsearch.
        source: File of results that the row was taken from; empty for a measurement of the corpus itself.
        inputs: Shapes of its inputs.
        classes: Names of its architecture classes.
        features: Counts of the features that it has.
        order: Sequences that suit it, in the order of the catalog.
        same: Sequences that make the same kernels as another one, with the other one.
        failures: Why a pipeline has no times.
        rounds_s: Seconds of the fastest inference in each round, by pipeline; ``onnxruntime`` beside them.
        foreign_percent: Share of the cores' time that others took; ``None`` where it is unknown.
        search: What a search found; ``None`` where there was none.
    """

    family: str
    date: str
    code: str
    source: str = left_out("")
    inputs: Mapping[str, tuple[int, ...]]
    classes: tuple[str, ...]
    features: Mapping[str, int]
    order: tuple[str, ...]
    same: Mapping[str, str]
    failures: Mapping[str, str]
    rounds_s: Mapping[str, tuple[float, ...]]
    foreign_percent: float | None
    search: CorpusSearch | None = left_out()

    def rounds(self, pipeline: str) -> tuple[float, ...]:
        """Return the seconds of a pipeline by round; empty where it has no times."""
        return self.rounds_s.get(self.same.get(pipeline, pipeline), ())

    def speed(self, pipeline: str, *, over: str) -> float | None:
        """Return the throughput of a pipeline over that of another one; ``None`` where one has no times.

        It is the median of the rounds, in which both met the same state of the machine; of the fastest ones where one
        of them is too slow to be in all rounds.
        """
        own_s, other_s = self.rounds(pipeline), self.rounds(over)
        if not own_s or not other_s:
            return None
        if len(own_s) != len(other_s):
            return min(other_s) / min(own_s)
        return median(other / own for own, other in zip(own_s, other_s, strict=True))

    def best(self) -> str | None:
        """Return the fastest sequence; ``None`` where none has times."""
        timed = [name for name in self.order if self.rounds(name)]
        return max(timed, key=lambda name: self.speed(name, over=timed[0]) or 0.0, default=None)

    def reach(self, pipeline: str) -> float | None:
        """Return the share of the best known throughput, by a sequence or a search, that a pipeline reaches."""
        best = self.best()
        share = None if best is None else self.speed(pipeline, over=best)
        return None if share is None else share / max(1.0, (self.search and self.search.gain.ratio) or 1.0)


@dataclass(frozen=True)
class CorpusProcessor(Record):
    """Measurements on one kind of processor.

    Attributes:
        device: The processor.
        target: TVM's target.
        toolchain: The compiler.
        networks: The networks by name.
    """

    device: Device
    target: str
    toolchain: Compiler
    networks: Mapping[str, CorpusNetwork]


@dataclass(frozen=True)
class Corpus(Record):
    """The corpus as the catalog ships it, in ``pass_catalog/relax/corpus.json``.

    Attributes:
        schema: Version of the form.
        processors: What was measured by kind of processor, which is LLVM's name of it.
    """

    schema: str
    processors: Mapping[str, CorpusProcessor]
