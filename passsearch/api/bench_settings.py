"""What ``bench`` measures: its settings, and the network at one batch size with the engines that take it."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from passsearch.api.engine_request import EngineRequest
from passsearch.core import CheckInputs, Json
from passsearch.engines import EnginePlan, EngineSpec
from passsearch.evaluate import WorkerLimits, device_of
from passsearch.frontends import OnnxNetwork
from passsearch.measure import Sensors, probe


@dataclass
class BenchEntry:
    """The network at one batch size, with the engines that take it."""

    network: OnnxNetwork
    batch: int
    limit: float
    inputs: CheckInputs
    specs: list[EngineSpec] = field(default_factory=list)
    references: list[EngineSpec] = field(default_factory=list)
    failures: dict[str, dict[str, Any]] = field(default_factory=dict)
    imports: dict[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class BenchSettings:
    """The arguments of ``bench`` that decide how engines are made."""

    requests: Sequence[EngineRequest]
    plan: EnginePlan
    target: str | None
    tolerance: float | None
    reference: str
    limits: WorkerLimits
    catalogs: Sequence[Path]
    trust: bool
    python: Path | None
    own_threads: bool
    labels: Path | None
    samples: Path | None

    @property
    def device(self) -> str:
        """Kind of the device that all engines run on."""
        return device_of(self.target or "").partition(":")[0]

    @cached_property
    def sensors(self) -> Sensors:
        """Sensors of that device."""
        return probe(self.device)

    @property
    def gpu(self) -> str | None:
        """UUID of the GPU that is measured."""
        uuid = self.sensors.device.get("uuid")
        return None if uuid is None else str(uuid)
