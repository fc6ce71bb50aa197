"""The document of a network that was compiled without a search."""

from collections.abc import Mapping
from dataclasses import dataclass

from passsearch.results.candidate import StatedFailure
from passsearch.results.network import Reference
from passsearch.results.precision import NoPrecision, PrecisionDecision
from passsearch.results.record import Record, left_out
from passsearch.results.rivals import FailedRival, Rival


@dataclass(frozen=True)
class ChosenPipeline(Record):
    """The pipeline that was built.

    Attributes:
        name: Its name; empty for one without a name.
        passes: Its passes.
    """

    name: str
    passes: str


@dataclass(frozen=True)
class TriedPipeline(Record):
    """A pipeline that was tried.

    Attributes:
        name: Its name; empty for one without a name.
        pipeline: Its passes.
        ratio: Throughput over that of the first; ``None`` where it was not timed.
        failure: Why it does not build.
    """

    name: str
    pipeline: str
    ratio: float | None
    failure: StatedFailure | None


@dataclass(frozen=True)
class CompiledSize(Record):
    """A size that a network is compiled for.

    Attributes:
        name: The size.
        seconds: Time of a call.
        inputs: Shapes of the inputs.
        padded_from: Product of the sizes that grow from which on smaller inputs are padded to this size, because the
            function of open sizes takes longer; ``None`` where nothing is padded.
    """

    name: str
    seconds: float
    inputs: Mapping[str, tuple[int, ...]]
    padded_from: int | None = None


@dataclass(frozen=True)
class SizeBetween(Record):
    """A size between those that a network is compiled for.

    Attributes:
        inputs: Shapes of the inputs.
        open_s: Time of a call of the function of open sizes.
        bucket: The size that inputs can be padded to; ``None`` where they cannot.
        padded_s: Time of a padded call.
        deviation: Largest deviation of its outputs, as a share of the largest value.
    """

    inputs: Mapping[str, tuple[int, ...]]
    open_s: float
    bucket: str | None = None
    padded_s: float | None = None
    deviation: float | None = None


@dataclass(frozen=True, kw_only=True)
class CompiledSizes(Record):
    """What calls of several sizes take.

    Attributes:
        buckets: The sizes that are compiled by themselves.
        between: Sizes between, at which calls were checked and timed.
        open: True if there is a function of open sizes.
        open_reason: Why there is none.
        padding: How inputs are padded to the next larger size; ``None`` where they are not.
        padding_reason: Why they are not.
    """

    buckets: tuple[CompiledSize, ...]
    between: tuple[SizeBetween, ...]
    open: bool
    open_reason: str
    padding: Mapping[str, object] | None
    padding_reason: str


@dataclass(frozen=True, kw_only=True)
class Compilation(Record):
    """A network that was compiled without a search, as ``compile --json`` prints it.

    Attributes:
        schema: Version of the form.
        compiled_at: Time of the compilation, in ISO 8601 and UTC.
        folder: The folder with the script, the network and the build.
        model: Source of the network.
        toolchain: Name of the toolchain.
        target: TVM's target.
        pipeline: The pipeline that was built.
        classes: Names of the architecture classes.
        tried: The pipelines that were tried.
        reference: What outputs were compared with.
        seconds: Wall time of ``import``, ``build``, ``precision`` (the decision on it) and ``rivals`` (the comparison
            with other engines).
        rivals: The engines beside it, by name.
        rivals_reason: Why there are none.
        others_percent: Percentage of the cores' time that other processes and the host took during the comparison.
        python: The interpreter that runs the deployment; empty where this machine cannot run it.
        sizes: What calls of several sizes take, where the network is compiled for several.
        precision: What was decided on the precision of weights, or why nothing was; missing where it was not asked for.
        deviation: Largest deviation of outputs on ordinary inputs, as a share of the largest value; missing where
            nothing ran, and in documents from before it was recorded.
    """

    schema: str
    compiled_at: str
    folder: str
    model: str
    toolchain: str
    target: str
    pipeline: ChosenPipeline
    classes: tuple[str, ...]
    tried: tuple[TriedPipeline, ...]
    reference: Reference
    seconds: Mapping[str, float]
    rivals: Mapping[str, FailedRival | Rival]
    rivals_reason: str
    others_percent: float = 0.0
    python: str = ""
    sizes: CompiledSizes | None = left_out()
    precision: NoPrecision | PrecisionDecision | None = left_out()
    deviation: float | None = left_out()

    @property
    def narrow(self) -> PrecisionDecision | None:
        """The decision by which the pipeline has fewer bits; ``None`` where all is in float32."""
        decision = self.precision
        if isinstance(decision, PrecisionDecision) and decision.pipeline == self.pipeline.passes:
            return decision
        return None

    @property
    def measured_rivals(self) -> dict[str, Rival]:
        """The engines that were measured."""
        return {name: rival for name, rival in self.rivals.items() if isinstance(rival, Rival)}
