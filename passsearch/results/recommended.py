"""The document of a recommendation without a search."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from passsearch.results.compilation import ChosenPipeline
from passsearch.results.network import NetworkIdentity
from passsearch.results.parts import StatedRatio
from passsearch.results.record import Allowed, Record

Share = Annotated[float, Allowed(least=0)]


@dataclass(frozen=True)
class SearchBound(Record):
    """What a search could still add to the recommended pipeline.

    Attributes:
        most: Largest gain in throughput, as a share; of so many new networks as ``level`` says, none gains more.
        mean: Mean gain of the searches.
        level: Probability that the bound holds.
        networks: Number of networks that were searched.
        method: How the bound was made, in words.
    """

    most: Share
    mean: float
    level: Share
    networks: int
    method: str


@dataclass(frozen=True, kw_only=True)
class NetworkRecommendation(Record):
    """The pipeline that is recommended for a network without a search, as ``recommend --json`` prints it.

    Attributes:
        schema: Version of the form.
        model: The network.
        target: TVM's target.
        processor: Kind of processor in the corpus whose measurements were taken; empty without one.
        classes: Names of the network's architecture classes.
        pipeline: The pipeline; of an abstention the one that ``compile`` builds.
        reason: Why this pipeline.
        abstained: Why the corpus says nothing; empty where it does.
        alike: Names of the networks of the corpus that the network is like.
        over_default: Expected throughput over TVM's default; the interval holds that of a new network.
        over_others: The same over each other sequence that suits the network.
        over_onnxruntime: The same over ONNX Runtime.
        bound: What a search could still add; ``None`` where too few networks were searched.
        seconds: Seconds of ``import`` and ``recommend``.
    """

    schema: str
    model: NetworkIdentity
    target: str
    processor: str
    classes: tuple[str, ...]
    pipeline: ChosenPipeline
    reason: str
    abstained: str
    alike: tuple[str, ...]
    over_default: StatedRatio | None
    over_others: Mapping[str, StatedRatio]
    over_onnxruntime: StatedRatio | None
    bound: SearchBound | None
    seconds: Mapping[str, float]
