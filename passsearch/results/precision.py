"""What a search decided on the precision of every layer's weights."""

from dataclasses import dataclass

from passsearch.results.candidate import StatedFailure
from passsearch.results.parts import Positive
from passsearch.results.record import Record


@dataclass(frozen=True, kw_only=True)
class StoredWeights(Record):
    """How weights are stored.

    Attributes:
        storage: Type of the numbers.
        group: Numbers that share a scale; 0 for one scale for each column, or none.
        activations: Type of the numbers that weights are multiplied with.
    """

    storage: str
    group: int = 0
    activations: str = "float32"

    @property
    def text(self) -> str:
        """The storage in words."""
        groups = f" in groups of {self.group}" if self.group else ""
        activations = f" with {self.activations} activations" if self.activations != "float32" else ""
        return self.storage + groups + activations


@dataclass(frozen=True, kw_only=True)
class LayerStorage(StoredWeights):
    """What one storage of a layer's weights would save and cost.

    Attributes:
        saved_s: Predicted seconds that it saves in an inference; below 0 if it is slower.
        error: Deviation of the outputs with this layer alone so; ``None`` where it was not measured, because it saves
            nothing or no time was left.
    """

    saved_s: float
    error: float | None = None


@dataclass(frozen=True, kw_only=True)
class LayerPrecision(StoredWeights):
    """The precision of one layer: of one call of a kernel with weights.

    Attributes:
        kernel: Name of the kernel.
        call: Number of the call among those of the kernel, from 0.
        weights: Shapes of the weights.
        float32_s: Seconds of the call with weights in float32.
        saved_s: Predicted seconds that the decision saves.
        error: Deviation of the outputs with this layer alone so; ``None`` in float32.
        error_share: Share of the squared predicted error.
        reason: Why the weights stay float32; empty where they do not.
        others: What other storages would save and cost.
    """

    kernel: str
    call: int
    weights: str
    float32_s: float
    saved_s: float
    error: float | None = None
    error_share: float
    reason: str = ""
    others: tuple[LayerStorage, ...] = ()


@dataclass(frozen=True, kw_only=True)
class UniformPrecision(StoredWeights):
    """One storage for all layers that it makes narrower.

    Attributes:
        predicted_s: Predicted seconds of the kernels of an inference.
        error: Deviation of the outputs; ``None`` where it was not measured.
        loss: The error in the unit of the budget.
    """

    predicted_s: Positive
    error: float | None = None
    loss: float | None = None


@dataclass(frozen=True, kw_only=True)
class PrecisionPoint(Record):
    """The fastest choice of precisions at one budget.

    Attributes:
        error: Predicted deviation.
        predicted_s: Predicted seconds of the kernels of an inference.
    """

    error: float
    predicted_s: Positive


@dataclass(frozen=True)
class NoPrecision(Record):
    """Why no precision was decided.

    Attributes:
        failure: The failure because of which nothing was decided.
    """

    failure: StatedFailure


@dataclass(frozen=True, kw_only=True)
class PrecisionDecision(Record):
    """The precisions of all layers under an error budget.

    Attributes:
        budget: Largest error that outputs may have, in the unit.
        unit: ``share`` (of the largest output), ``top1`` (rows with another class than the reference's) or ``accuracy``
            (rows by which fewer are classified right).
        bound: Bound on the root of the layers' summed squared errors, from the budget; ``None`` in earlier versions.
        compared_with: What outputs are compared with.
        samples: Number of samples of the user; 0 for random inputs, whose errors are worth less.
        pipeline: The pipeline with the decided precisions; ``None`` where all weights stay float32.
        begin_s: Predicted seconds of the kernels of an inference, all weights in float32.
        predicted_s: The same with the decided precisions.
        bound_s: Seconds that no choice within ``bound`` is predicted to be below.
        predicted_error: Error that the layers' own errors predict, corrected by ``factor``.
        error: Measured deviation with the decided precisions, the largest of those that are judged, as a share of the
            largest output.
        predicted_loss: Share of rows whose class such an error can change; ``None`` for a share of outputs.
        loss: Measured error in the unit; ``None`` for a share of outputs, where it is ``error``.
        rows: Number of rows whose class was compared.
        nearest: Where nothing is within the budget, the smallest error with any layer in fewer bits, in the unit; else
            ``None``.
        factor: Measured error by the root of the sum of the layers' squared errors.
        rounds: Number of choices whose error was measured.
        gain: Measured throughput as a multiple of that of float32; ``None`` where nothing was built.
        refusal: Why the decided precisions have no gain; empty where they have one.
        layers: All layers with weights.
        uniform: One storage for all layers, for comparison.
        points: The fastest choices at other budgets.
        seconds: Seconds that the decision took.
        precision: What may have fewer bits: ``weights``, or ``mixed`` for activations too.
    """

    budget: float
    unit: str = "share"
    bound: float | None = None
    compared_with: str
    samples: int
    pipeline: str | None = None
    begin_s: Positive
    predicted_s: Positive
    bound_s: float
    predicted_error: float
    error: float
    predicted_loss: float | None = None
    loss: float | None = None
    rows: int = 0
    nearest: float | None = None
    factor: float = 1.0
    rounds: int = 0
    gain: float | None = None
    refusal: str = ""
    layers: tuple[LayerPrecision, ...] = ()
    uniform: tuple[UniformPrecision, ...] = ()
    points: tuple[PrecisionPoint, ...] = ()
    seconds: float = 0.0
    precision: str = "weights"

    @property
    def predicted_gain(self) -> float:
        """Predicted throughput as a multiple of that of float32."""
        return self.begin_s / self.predicted_s


@dataclass(frozen=True, kw_only=True)
class LayerWorth(StoredWeights):
    """What the precision of one layer is worth: the winner with this layer alone in float32 again.

    Attributes:
        kernel: Name of the kernel.
        call: Number of the call among those of the kernel, from 0.
        weights: Shapes of the weights.
        saved_s: Predicted seconds by which an inference is then slower.
        predicted_error: Predicted deviation of the outputs then.
        error: Measured deviation then; ``None`` where it was not measured.
    """

    kernel: str
    call: int
    weights: str
    saved_s: float
    predicted_error: float
    error: float | None = None


@dataclass(frozen=True, kw_only=True)
class PrecisionWorth(Record):
    """What the precision of each layer in fewer bits is worth.

    Attributes:
        predicted_s: Predicted seconds of the kernels of an inference of the winner.
        predicted_error: Predicted deviation of its outputs, as a share of the largest.
        error: Measured deviation on four inputs at most, as in ``layers``, while the decision's error is of all inputs;
            ``None`` where it was not measured.
        failure: Why errors were not measured.
        layers: The layers.
    """

    predicted_s: Positive
    predicted_error: float
    error: float | None = None
    failure: str = ""
    layers: tuple[LayerWorth, ...]
