"""A compiled network beside the other engines that the user has, in the same rounds."""

import logging
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from statistics import mean
from typing import Any

from passsearch.api.engine_artifacts import artifact_engine
from passsearch.core import Candidate
from passsearch.engines import EngineFailure, EnginePlan, EngineSpec, EngineTiming, engine_spec, rows_by_engine
from passsearch.errors import EnvironmentFault, UserError
from passsearch.evaluate import Built, Session, WorkerEvaluator, device_lock
from passsearch.results import FailedRival, MeanLatency, Rival, StatedRatio

RIVALS = ("onnxruntime", "openvino", "torch")
"""Engines that users have on processors."""

OWN = "passsearch"
"""Name of the compiled network among the engines."""

PROCESSES, ROUNDS = 3, 6
"""Processes of each engine and rounds in each: enough for an interval of some percent on a quiet machine."""

_NONE = "no other engine is installed; see: passsearch toolchain list"
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Rivals:
    """The engines that a compiled network is compared with.

    Attributes:
        specs: The engines.
        reason: Reason why there are none; empty if there are some.
    """

    specs: Sequence[EngineSpec]
    reason: str = ""

    @classmethod
    def find(cls, session: Session, names: Sequence[str] | None) -> "Rivals":
        """Return the engines with these names; ``None`` for those that are installed.

        Raises:
            UserError: An engine that was named is unknown, or cannot run beside this network.
            EnvironmentFault: An engine that was named is not installed.
        """
        obstacle = _obstacle(session)
        if obstacle and names:
            raise UserError(f"There is no comparison with {', '.join(names)}: {obstacle}; leave `rivals` out.")
        specs = [] if obstacle else _specs(session.model.path, names)
        return cls(specs, obstacle or ("" if specs else _NONE))

    def measure(
        self, evaluator: WorkerEvaluator, candidate: Candidate, built: Built
    ) -> tuple[dict[str, Rival | FailedRival], float]:
        """Return for each engine the ratio of throughputs, or why there is none; and what others took of the cores.

        Args:
            evaluator: The network and its compiler.
            candidate: The pipeline that was compiled.
            built: The artifact.

        Returns:
            The rivals by name, and the share of the cores' time that other processes and the host took, in percent.
        """
        if not self.specs:
            return {}, 0.0
        opened, specs = evaluator.session, self.specs
        own = artifact_engine(evaluator, OWN, candidate, folder=built.folder)
        plan = EnginePlan(opened.threads, PROCESSES, ROUNDS, limit=evaluator.builder.verification.limit(candidate))
        timing = EngineTiming(
            [own, *specs],
            references=specs,
            types=evaluator.network.inputs,
            plan=plan,
            folder=evaluator.folder / "rivals",
            device_lock=device_lock(opened.gpu),
            inputs=evaluator.network.check,
        )
        try:
            for _ in range(PROCESSES):
                timing.run_turn()
        except EngineFailure as error:
            reason = f"no engine takes the network; the last one: {error}"
            return {spec.name: FailedRival(reason) for spec in specs}, 0.0
        records = {record.spec.name: record for record in timing.comparison.records}
        rows = {spec.name: rows_by_engine(records, baseline=spec.name, plan=plan) for spec in specs}
        rivals = {name: _row(by_engine[OWN], by_engine[name]) for name, by_engine in rows.items()}
        rounds = [each for process in timing.comparison.disturbances for each in process]
        return rivals, 100 * mean([each.foreign + each.steal for each in rounds] or [0.0])


def _obstacle(session: Session) -> str:
    if session.cannot_run_reason:
        return session.cannot_run_reason
    if session.model.format != "onnx":
        return f"other engines run the ONNX file of a network, and this is `{session.model.format}`"
    if session.model.cases:
        return "the network has several cases"
    return "" if session.device == "cpu" else "it is measured on processors only"


def _specs(network: Path, names: Sequence[str] | None) -> list[EngineSpec]:
    specs = []
    for name in RIVALS if names is None else names:
        try:
            specs.append(engine_spec(name, network, python=_own_python(name)))
        except EnvironmentFault as error:  # noqa: PERF203 -- three engines
            if names is not None:
                raise
            _log.debug("no rival: %s", error)
    return specs


def _row(own: Mapping[str, Any], rival: Mapping[str, Any]) -> Rival | FailedRival:
    """Return the ratio of throughputs to a rival, and both latencies."""
    failure = own.get("failure") or rival.get("failure")
    if failure:
        return FailedRival(failure)
    return Rival(
        ratio=StatedRatio.from_json(own["ratio"]["by fastest"]),
        ratio_of_medians=StatedRatio.from_json(own["ratio"]["by medians"]),
        latency_s=MeanLatency.from_json(own["latency_s"]),
        rival_latency_s=MeanLatency.from_json(rival["latency_s"]),
    )


def _own_python(name: str) -> Path | None:
    """Return the user's interpreter where it has an engine; ``None`` for the engine's installed environment."""
    return Path(sys.executable) if find_spec(name) is not None else None
