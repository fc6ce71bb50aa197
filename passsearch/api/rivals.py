"""A compiled network beside the other engines that the user has, in the same rounds."""

import logging
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from passsearch.api.engine_artifacts import artifact_engine
from passsearch.core import Candidate, CheckInputs
from passsearch.engines import EngineFailure, EnginePlan, EngineSpec, EngineTiming, engine_spec, rows_by_engine
from passsearch.errors import EnvironmentFault, UserError
from passsearch.evaluate import Built, WorkerEvaluator, device_lock

RIVALS = {"onnxruntime": "ONNX Runtime", "openvino": "OpenVINO", "torch": "PyTorch"}
"""Engines that users have on processors, with their names."""

OWN = "passsearch"
"""Name of the compiled network among the engines."""

PROCESSES, ROUNDS = 3, 6
"""Processes of each engine and rounds in each: enough for an interval of some percent on a quiet machine."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Rivals:
    """The engines that a compiled network is compared with.

    Attributes:
        evaluator: The network and its compiler.
        candidate: The pipeline that was compiled.
        built: The artifact.
        names: Engines by name; ``None`` for those that are installed.
    """

    evaluator: WorkerEvaluator
    candidate: Candidate
    built: Built
    names: Sequence[str] | None

    def measure(self) -> dict[str, Any]:
        """Return ``rivals``, a row for each engine with the ratio of throughputs, or the reason why there are none.

        Raises:
            UserError: An engine that was named is unknown.
            EnvironmentFault: An engine that was named is not installed.
        """
        obstacle = self._obstacle()
        if obstacle:
            if self.names:
                raise UserError(f"There is no comparison with {', '.join(self.names)}: {obstacle}; leave `rivals` out.")
            return {"rivals": {}, "rivals_reason": obstacle}
        specs = self._specs()
        if not specs:
            return {"rivals": {}, "rivals_reason": "no other engine is installed; see: passsearch toolchain list"}
        return {"rivals": self._time(specs), "rivals_reason": ""}

    def _obstacle(self) -> str:
        opened = self.evaluator.session
        if opened.cannot_run_reason:
            return opened.cannot_run_reason
        if opened.model.format != "onnx":
            return f"other engines run the ONNX file of a network, and this is `{opened.model.format}`"
        if opened.model.cases:
            return "the network has several cases"
        return "" if opened.device == "cpu" else "it is measured on processors only"

    def _specs(self) -> list[EngineSpec]:
        path, specs = self.evaluator.session.model.path, []
        for name in self.names if self.names is not None else RIVALS:
            try:
                specs.append(engine_spec(name, path, python=_own_python(name)))
            except EnvironmentFault as error:  # noqa: PERF203 -- three engines
                if self.names is not None:
                    raise
                _log.debug("no rival: %s", error)
        return specs

    def _time(self, specs: Sequence[EngineSpec]) -> dict[str, Any]:
        evaluator, opened = self.evaluator, self.evaluator.session
        own = artifact_engine(evaluator, OWN, self.candidate, folder=self.built.folder)
        plan = EnginePlan(opened.threads, PROCESSES, ROUNDS, limit=evaluator.builder.verification.limit(self.candidate))
        types = evaluator.network.inputs
        timing = EngineTiming(
            [own, *specs],
            references=[specs[0]],
            types=types,
            plan=plan,
            folder=evaluator.folder / "rivals",
            device_lock=device_lock(opened.gpu),
            inputs=CheckInputs(types, ranges=evaluator.network.ranges),
        )
        try:
            for _ in range(PROCESSES):
                timing.run_turn()
        except EngineFailure as error:
            return {specs[0].name: {"failure": str(error)}}
        records = {record.spec.name: record for record in timing.comparison.records}
        rows = {spec.name: rows_by_engine(records, baseline=spec.name, plan=plan) for spec in specs}
        return {name: _row(by_engine[OWN], by_engine[name]) for name, by_engine in rows.items()}


def _row(own: Mapping[str, Any], rival: Mapping[str, Any]) -> dict[str, Any]:
    """Return the ratio of throughputs to a rival, and both latencies."""
    failure = own.get("failure") or rival.get("failure")
    if failure:
        return {"failure": failure}
    ratio, latencies = own["ratio"], {"latency_s": own["latency_s"], "rival_latency_s": rival["latency_s"]}
    return {"ratio": ratio["by fastest"], "ratio_of_medians": ratio["by medians"], **latencies}


def _own_python(name: str) -> Path | None:
    """Return the user's interpreter where it has an engine; ``None`` for the engine's installed environment."""
    return Path(sys.executable) if find_spec(name) is not None else None
