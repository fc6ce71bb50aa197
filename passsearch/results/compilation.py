"""The document of a network that was compiled without a search."""

from collections.abc import Mapping
from dataclasses import dataclass

from passsearch.results.candidate import StatedFailure
from passsearch.results.network import Reference
from passsearch.results.record import Record
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
        seconds: Wall time of ``import``, ``build`` and ``rivals``, the comparison with other engines.
        rivals: The engines beside it, by name.
        rivals_reason: Why there are none.
        others_percent: Percentage of the cores' time that other processes and the host took during the comparison.
        python: The interpreter that runs the deployment; empty where this machine cannot run it.
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

    @property
    def measured_rivals(self) -> dict[str, Rival]:
        """The engines that were measured."""
        return {name: rival for name, rival in self.rivals.items() if isinstance(rival, Rival)}
