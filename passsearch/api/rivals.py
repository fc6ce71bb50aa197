"""A compiled network beside the other engines that the user has, in the same rounds."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from statistics import mean
from time import monotonic

from passsearch.api.engine_artifacts import artifact_engine
from passsearch.core import UNLIMITED, Candidate, TimeLimit
from passsearch.engines import (
    LEAST_ROUNDS,
    EngineFailure,
    EnginePlan,
    EngineRecord,
    EngineSpec,
    EngineTiming,
    engine_spec,
    installed_engines,
    mean_latency,
    throughput_ratio,
)
from passsearch.errors import PassSearchError, UserError
from passsearch.evaluate import Built, Session, WorkerEvaluator
from passsearch.frontends import ZOO, ModelFile, fixed_onnx
from passsearch.report import engine_name
from passsearch.results import FailedRival, MeanLatency, Rival, RivalComparison, StatedRatio
from passsearch.toolchain import cache_folder

RIVALS = ("onnxruntime", "openvino", "torch")
"""Engines that users have on processors."""

OF_PYTORCH = ("torch", "inductor")
"""Engines that run a network of PyTorch as it is."""

NO_RIVALS = "none"
"""The name that stands for no engine."""

OWN = "passsearch"
"""Name of the compiled network among the engines."""

# The ratio differs from process to process, and hardly less after six rounds than after four: in eight processes of a
# ResNet-18 beside ONNX Runtime, on a busy machine, its logarithm by medians had a standard deviation of 0.037 after
# four rounds and of 0.041 after six. An interval of four processes is a third narrower than one of three.
PROCESSES, ROUNDS = 4, 4
"""Processes of each engine and rounds in each: enough for an interval of some percent on a quiet machine."""

RACE_S = 6.0
"""``EnginePlan.race_s``: four rounds of a network of half a second would take 15 s in each process."""

START_S, CHECKS = 2.0, 8
"""Time to start the process of an engine, roughly, and the inferences of a process that check outputs."""

_FILES_OF_PYTORCH = ("exported", "torchscript")
_NO_ONNX = "it runs ONNX files, and this network is none"

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Rivals:
    """The engines that a compiled network is compared with.

    Attributes:
        specs: The engines.
        reason: Reason why there are none; empty if there are some.
        unfit: Reasons why installed engines cannot run this network, by name.
        model: The network; ``None`` where there are no engines.
    """

    specs: Sequence[EngineSpec]
    reason: str = ""
    unfit: Mapping[str, FailedRival] = field(default_factory=dict)
    model: ModelFile | None = None

    @classmethod
    def find(cls, session: Session, names: Sequence[str] | None) -> "Rivals":
        """Return the engines with these names; ``None`` for those that are installed.

        Raises:
            UserError: An engine that was named is unknown, or cannot run this network.
            EnvironmentFault: An engine that was named is not installed.
        """
        if names is not None and set(names) <= {NO_RIVALS}:
            return cls([], "none was asked for")
        obstacle = _obstacle(session)
        if obstacle and names:
            raise UserError(f"There is no comparison with {', '.join(names)}: {obstacle}; leave `rivals` out.")
        specs = [] if obstacle else _specs(session.model, names)
        is_onnx = session.model.format == "onnx"
        unfit = [] if is_onnx else [each.name for each in specs if each.name not in OF_PYTORCH]
        if unfit and names:
            raise UserError(f"There is no comparison with {', '.join(unfit)}: {_NO_ONNX}; leave it out of `rivals`.")
        fit = [each for each in specs if each.name not in unfit]
        reason = obstacle or ("" if specs else _not_installed(session.model))
        return cls(fit, reason, dict.fromkeys(unfit, FailedRival(_NO_ONNX)), session.model)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the engines."""
        return tuple(each.name for each in self.specs)

    @property
    def processes(self) -> int:
        """Number of processes of each engine, if the time suffices."""
        return PROCESSES if self.specs else 0

    def process_s(self, latency_s: float) -> float:
        """Return about how long one process of each engine takes, for a network of this latency."""
        count, plan = 1 + len(self.specs), EnginePlan()
        visit_s = plan.pause_s + latency_s + min(plan.visit_s, plan.most * latency_s)
        rounds_s = min(ROUNDS * count * visit_s, max(RACE_S, LEAST_ROUNDS * count * visit_s))
        # The engine whose outputs are expected has one process more.
        return (count + 1) * START_S + (CHECKS + count) * latency_s + rounds_s

    @property
    def export_s(self) -> float:
        """Seconds that an export takes, roughly, for an engine that runs no ONNX file."""
        if self.model is None or self.model.otherwise is None or not {*self.names} & {*OF_PYTORCH}:
            return 0.0
        return self.model.export_s

    def compare(
        self, evaluator: WorkerEvaluator, candidate: Candidate, built: Built, *, time_limit: TimeLimit = UNLIMITED
    ) -> RivalComparison:
        """Return for each engine the ratio of throughputs, or why there is none.

        Args:
            evaluator: The network and its compiler.
            candidate: The pipeline that was compiled.
            built: The artifact, with its files.
            time_limit: No process begins for which it leaves no time.

        Returns:
            The comparison; that of the complete processes, where an interruption or an error ends a later one.
        """
        begin_s, process_s = monotonic(), self.process_s(built.run_s or 0.0)
        compared = RivalComparison(self.unfit, self.reason)
        if not self.specs:
            return compared
        if time_limit.left_s() < process_s + self.export_s:
            return replace(compared, reason=_no_time(self.names))
        specs, engines = self._open_files()
        if not specs:
            return replace(compared, engines=engines)
        if time_limit.left_s() < process_s:
            return replace(compared, engines=engines, reason=_no_time(self.names))
        start = partial(self._engine_timing, evaluator, candidate, built, specs=specs, time_limit=time_limit)
        compared = _compare(start, specs, process_s=process_s, time_limit=time_limit)
        reason, seconds = "" if compared.processes else _no_time(self.names), round(monotonic() - begin_s, 3)
        return replace(compared, engines={**engines, **compared.engines}, reason=reason, seconds=seconds)

    def _open_files(self) -> tuple[list[EngineSpec], dict[str, FailedRival]]:
        """Return the engines with the files that they run, and why others have none."""
        specs, failed = [], {**self.unfit}
        for spec in self.specs:
            try:
                specs.append(_with_own_file(spec, self.model, folder=cache_folder() / "models"))
            except PassSearchError as error:  # noqa: PERF203 -- three engines
                failed[spec.name] = FailedRival(str(error))
        return specs, failed

    @staticmethod
    def _engine_timing(
        evaluator: WorkerEvaluator,
        candidate: Candidate,
        built: Built,
        *,
        specs: Sequence[EngineSpec],
        time_limit: TimeLimit,
    ) -> EngineTiming:
        limit, opened = evaluator.builder.verification.limit(candidate), evaluator.session
        # Rivals compute it in another right way, too.
        limit = max(limit, built.agreement.usual_limit)
        return EngineTiming(
            [artifact_engine(evaluator, OWN, candidate, folder=built.folder), *specs],
            references=specs,
            types=evaluator.network.inputs,
            plan=EnginePlan(opened.threads, PROCESSES, ROUNDS, slow_processes=PROCESSES, limit=limit, race_s=RACE_S),
            folder=evaluator.folder / "rivals",
            inputs=evaluator.network.check,
            time_limit=time_limit,
        )


def _no_time(names: Sequence[str]) -> str:
    return f"no time was left to measure {' and '.join(map(engine_name, names))} beside it"


def _obstacle(session: Session) -> str:
    """Return why no engine can run beside this network; empty if one can."""
    if session.cannot_run_reason:
        return session.cannot_run_reason
    if session.model.format not in ("onnx", *_FILES_OF_PYTORCH):
        return f"other engines run ONNX files and networks of PyTorch, and this is `{session.model.format}`"
    if session.model.cases:
        return "the network has several cases"
    return "" if session.device == "cpu" else "it is measured on processors only"


def _specs(model: ModelFile, names: Sequence[str] | None) -> list[EngineSpec]:
    if names is None:
        return installed_engines(_usual(model), model.path)
    return [engine_spec(name, model.path) for name in dict.fromkeys(names)]


def _not_installed(model: ModelFile) -> str:
    """Return that no engine which runs the network is installed."""
    names = [name for name in _usual(model) if model.format == "onnx" or name in OF_PYTORCH]
    verb = "is" if len(names) == 1 else "are"
    return f"{' and '.join(map(engine_name, names))} {verb} not installed; see: passsearch toolchain install {names[0]}"


def _usual(model: ModelFile) -> Sequence[str]:
    """Return the engines that users have for a network.

    PyTorch runs no ONNX file: it has passsearch's conversion, which stands for PyTorch with built-in networks only.
    """
    is_users_onnx = model.format == "onnx" and model.otherwise is None and not model.source.startswith(ZOO)
    return [name for name in RIVALS if not (is_users_onnx and name in OF_PYTORCH)]


def _with_own_file(spec: EngineSpec, model: ModelFile | None, *, folder: Path) -> EngineSpec:
    """Return an engine with the file that it runs.

    PyTorch has a file of its own for a network that is PyTorch's. All others have the ONNX file with fixed sizes, since
    the network is compiled for these: engines are slower where sizes are open.

    Args:
        spec: The engine.
        model: The network.
        folder: Folder for files that are made.
    """
    if model is None:
        return spec
    file = model
    if spec.name in OF_PYTORCH and model.otherwise is not None:
        file = model.otherwise()
    if file.format != "onnx":
        return replace(spec, model=file.path, modules=("torch",))
    return replace(spec, model=fixed_onnx(file, folder=folder).file.path)


def _compare(
    start: Callable[[], EngineTiming], specs: Sequence[EngineSpec], *, process_s: float, time_limit: TimeLimit
) -> RivalComparison:
    """Return the comparison with engines that have their files; see ``Rivals.compare``."""
    compared, timing = RivalComparison(), start()
    for process in range(1, PROCESSES + 1):
        begin_s = monotonic()
        try:
            rows = _run_process(timing, specs)
            if process == 1 and RivalComparison(rows).has_accident and time_limit.left_s() >= process_s:
                _log.info("a signal ended the process of an engine; all start once more")
                timing = start()
                rows = _run_process(timing, specs)
        except (KeyboardInterrupt, PassSearchError, OSError) as error:
            if not compared.processes:
                raise
            _log.warning("the comparison ends after %d processes: %s", compared.processes, error or "interrupted")
            break
        if time_limit.is_over and any(isinstance(row, FailedRival) for row in rows.values()):
            break
        latest = RivalComparison(rows, processes=process, others_percent=_others_percent(timing))
        if latest.has_accident and len(latest.measured) < len(compared.measured):
            _log.warning("the comparison ends after %d processes: a signal ended the next", compared.processes)
            break
        compared, process_s = latest, max(process_s, monotonic() - begin_s)
        if not compared.measured or time_limit.left_s() < process_s:
            break
    return compared


def _run_process(timing: EngineTiming, specs: Sequence[EngineSpec]) -> dict[str, Rival | FailedRival]:
    """Run one process of each engine, and return what all processes so far say."""
    try:
        timing.run_process()
    except EngineFailure as error:
        text = str(error) if error.is_accident else f"no engine takes the network; the last one: {error}"
        return dict.fromkeys((spec.name for spec in specs), _failed(text, is_accident=error.is_accident))
    records = {record.spec.name: record for record in timing.comparison.records}
    return {spec.name: _row(records[OWN], records[spec.name]) for spec in specs}


def _row(own: EngineRecord, rival: EngineRecord) -> Rival | FailedRival:
    """Return the ratio of throughputs to a rival, and both latencies."""
    if own.failure:
        return _failed(f"the compiled network: {own.failure}", is_accident=own.is_accident)
    if rival.failure:
        return _failed(rival.failure, is_accident=rival.is_accident)
    ratio = throughput_ratio(rival, own)
    return Rival(
        ratio=StatedRatio.from_json(ratio["by fastest"]),
        ratio_of_medians=StatedRatio.from_json(ratio["by medians"]),
        latency_s=MeanLatency.from_json(mean_latency(own)),
        rival_latency_s=MeanLatency.from_json(mean_latency(rival)),
        version=_version(rival),
    )


def _failed(text: str, *, is_accident: bool) -> FailedRival:
    return FailedRival(f"{text}; the same command measures it again" if is_accident else text, is_accident)


def _version(rival: EngineRecord) -> str:
    """Return the version of an engine, without the commit that OpenVINO adds."""
    return next((str(version).partition("-")[0] for version in rival.opened[0]["versions"].values()), "")


def _others_percent(timing: EngineTiming) -> float:
    """Return the share of the cores' time that other processes and the host took, in percent."""
    rounds = [each for process in timing.comparison.disturbances for each in process]
    return 100 * mean([each.foreign + each.steal for each in rounds] or [0.0])
