"""The evaluator of real networks, composed of the applier, the builder and the timing of compiler processes."""

import logging
import math
import shutil
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from passsearch.core import Candidate, Failure, PassSpec, Pipeline, TimeLimit
from passsearch.dialects.contract import Kernel
from passsearch.errors import UserError
from passsearch.evaluate.apply import Applier
from passsearch.evaluate.build import REFERENCE, Builder
from passsearch.evaluate.compiler import Compiler
from passsearch.evaluate.deployment import deployment_record
from passsearch.evaluate.disk_limit import DiskLimit
from passsearch.evaluate.facts import FactStore, read_fact
from passsearch.evaluate.gain_memory import GainMemory
from passsearch.evaluate.kernel_profiles import NetworkProfiler
from passsearch.evaluate.kernel_store import KernelStore, NetworkKernels, Region
from passsearch.evaluate.model_import import import_network, loadable_model
from passsearch.evaluate.pool import WorkerPool
from passsearch.evaluate.records import Built, FreshCompile
from passsearch.evaluate.rounded import RoundedWeights
from passsearch.evaluate.session import Session
from passsearch.evaluate.signature import origin_of
from passsearch.evaluate.source_reference import source_reference
from passsearch.evaluate.state_graph import StateGraph
from passsearch.evaluate.timed_records import (
    CandidateSamples,
    Consumed,
    NetworkProfile,
    PlaceTimes,
    TimedSamples,
    TimingRequest,
)
from passsearch.evaluate.timing import Timing
from passsearch.evaluate.verification import TIMED_ONLY
from passsearch.measure import WindowPlan
from passsearch.store import STATES, Fact, Log, in_use, seconds_without_baseline
from passsearch.toolchain import cache_folder, run_limit_bytes

LEAST_RACE_S, RACE_SHARE = 0.5, 0.05
"""Shortest race of a candidate, in seconds, and the share of a run's time limit that it may take if that is longer."""

CHECK_S = 120.0
"""Longest time of one check of a foreign kernel, in seconds."""

_log = logging.getLogger(__name__)


class WorkerEvaluator:
    """Evaluates candidates by compiler processes. Implements the protocol ``Evaluator``.

    Attributes:
        session: The session.
        folder: Folder for artifacts, states and the workers' log.
        network: The imported network.
        applier: Applies passes; also the ``Explorer`` of this network.
        builder: Builds and verifies artifacts.
        gains: Gains that earlier runs have read.
        rounding: Compares outputs with rounded weights.
        seconds: Wall time by stage, earlier starts of the run included.
    """

    def __init__(
        self, session: Session, *, log: Log, folder: Path, cache: Log | None = None, kernel_cache: Log | None = None
    ) -> None:
        """Import the network, or read the record of an earlier import.

        Args:
            session: The session.
            log: The log of this run.
            folder: Folder for artifacts, states and the workers' log; it is made if need be.
            cache: Facts of earlier runs on the same network, compiler and device.
            kernel_cache: Times of kernels from runs on any network with this compiler on this device.

        Raises:
            UserError: The network cannot be imported.
            EnvironmentFault: The compiler does not start.
        """
        folder = folder.absolute()  # workers have another working folder
        folder.mkdir(parents=True, exist_ok=True)
        # What an earlier start left after a kill; another user may have written it, and states become machine code.
        shutil.rmtree(folder / STATES, ignore_errors=True)
        model = loadable_model(session, cache_folder() / "models")
        imported = model.to_request()
        self._held = ExitStack()
        used = (session.model.path, model.path, *model.case_paths.values(), *filter(None, [model.parameters]))
        self._held.enter_context(in_use(cache_folder(), used))
        self.session, self.plans = session, session.plans
        # Not the run's own clock: a continued run makes again what its result needs, however late that clock is.
        time_limit = TimeLimit(session.limits.timeout_s - seconds_without_baseline(log), lambda: log.start_clock_s)
        self.folder, self._pool = folder, WorkerPool(session, folder, time_limit=time_limit)
        # Updated in place, because the pool goes on counting in the same dictionary.
        self.seconds = self._pool.seconds
        self.seconds |= log.latest.get("spent", {})
        self._needed: Collection[Built] | None = None
        self._disk = disk = DiskLimit(folder, log, most_bytes=run_limit_bytes())
        self._facts = FactStore(session, log, cache=cache, seconds=self.seconds, disk=disk)
        is_new = not log.kinds
        with ExitStack() as undo:
            undo.callback(self.close)  # after Ctrl-C too: the caller gets no object that it could close
            # On a busy machine a compiler takes many seconds to start, so both start at once.
            if session.limits.timeout_s < math.inf and not session.cannot_run_reason:
                self._pool.start_timer()
            self.network = import_network(self._facts, self._pool, session=session, source=imported)
            undo.pop_all()
        self.graph, self.batch = StateGraph(self.network.root), self.network.batch
        self.applier = Applier(Compiler(self._pool, self.graph, session=session, source=imported), self._facts)
        parts: Any = {"network": self.network, "pool": self._pool}
        run: Any = {"origin": origin_of(session, self._facts.run_number(is_new=is_new)), "facts": self._facts}
        self.builder = Builder(
            session,
            **parts,
            **run,
            applier=self.applier,
            folder=folder,
            disk=disk,
            ask_source=lambda: source_reference(session, network=self.network, file=folder / REFERENCE, **run),
        )
        self.gains = GainMemory(self._facts, self.applier, self.builder, is_new=is_new)
        self._timing = Timing(session, **parts, verification=self.builder.verification)
        shared = FactStore(session, log, cache=kernel_cache, seconds=self.seconds)
        self._kernels = KernelStore(session, pool=self._pool, applier=self.applier, facts=self._facts, shared=shared)
        self.rounding = RoundedWeights(
            session,
            pool=self._pool,
            applier=self.applier,
            facts=self._facts,
            verification=self.builder.verification,
            folder=folder,
        )
        self._held.callback(self._kernels.stop_time_ahead)

    def __enter__(self) -> "WorkerEvaluator":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the processes and delete the states they shared."""
        try:
            self._held.close()
        finally:
            self._pool.close()
        shutil.rmtree(self.folder / STATES, ignore_errors=True)

    @property
    def recalled_times(self) -> int:
        """Number of schedules of kernels that an earlier run has timed."""
        return len(self._kernels.recalled)

    @property
    def is_shared(self) -> bool:
        """True if new facts reach later runs; false while another run writes the fact cache."""
        return self._facts.is_shared

    def reach(self, pipeline: Pipeline) -> str | Failure:
        """Return the state a pipeline leads to."""
        return self.applier.reach(pipeline)

    def apply_seconds(self, pipeline: Pipeline) -> float | Failure:
        """Return the time that this run takes to apply exactly this pipeline, or why it cannot be applied."""
        return self.applier.apply_seconds(pipeline)

    def op_counts(self, state: str) -> Mapping[str, int]:
        """Return the counts of operators, fused groups and constants of a state; empty if they are unavailable."""
        return self.applier.op_counts(state)

    def build(self, state: str, candidate: Candidate, *, longest_s: float = math.inf) -> Built | Failure:
        """Build a state with a candidate's options and judge its outputs; see ``Evaluator.build``."""
        return self.builder.build(state, candidate, longest_s=longest_s)

    def build_candidate(self, candidate: Candidate) -> Built | Failure:
        """Build the state that a candidate's pipeline leads to; of an earlier build the files may be gone."""
        state = self.reach(candidate.pipeline)
        return state if isinstance(state, Failure) else self.build(state, candidate)

    def restore(self, built: Built) -> Built | Failure:
        """Make sure that the files of an artifact exist."""
        return self.builder.restore(built)

    def discard(self, built: Built) -> None:
        """Delete the files of an artifact; ``restore`` makes them again."""
        self.builder.discard(built)

    def make_room(self, needed: Collection[Built]) -> None:
        """Delete the files of all other artifacts if the run holds much of the disk; see ``Evaluator.make_room``."""
        self._needed = needed
        self._drop_others()

    def _drop_others(self) -> None:
        if self._needed is not None and self._disk.is_short():
            _log.info("dropping artifacts: with the log they hold %.1f MB", self._disk.held_bytes / 1e6)
            self.builder.files.keep_only(self._needed)

    def keep_only(self, kept: Collection[Built]) -> None:
        """Delete the files of all artifacts but these."""
        self.builder.files.keep_only(kept)

    def sample(self, reference: Built, candidate: Built) -> CandidateSamples | Failure:
        """Time a candidate of a search against a reference, interleaved in one process.

        An artifact that calls the same kernels in the same order as an earlier one is not timed again.
        """
        if self.session.cannot_run_reason:
            return CandidateSamples((), (), {})
        # Kernels and not binaries: values of parameters do not change the time. Pairs of binaries with the same kernels
        # read 1.005 [0.996, 1.014] of each other on average (docs/evidence/search.md).
        key = f"{reference.kernels}|{candidate.kernels}{self.session.plans_key('search_rounds')}"
        fact = self._facts.recall("samples", key)
        # A reference against itself is the baseline, whose failure ends the run: memory must not cause that.
        if fact is None or ("failure" in fact and reference.kernels == candidate.kernels):
            fact = self._sample(key, reference, candidate)
        return read_fact(fact, CandidateSamples.from_fact)

    def _sample(self, key: str, reference: Built, candidate: Built) -> Fact:
        for built in (reference, candidate):
            restored = self.restore(built)
            # The build has succeeded before, so the failure is the machine's and may not come again.
            if isinstance(restored, Failure):
                return {"failure": replace(restored, kind="infra").to_json()}
        _log.info("timing state %s", candidate.state)
        # The reference against itself needs no second artifact.
        same = reference.kernels == candidate.kernels
        folders = [str(built.folder) for built in (reference, candidate)][same:]
        # A share of a short time limit: on a busy machine a race lasts twice as long.
        plan, share_s = self.plans.search_rounds, RACE_SHARE * self.session.limits.timeout_s
        plan = replace(plan, race_s=min(plan.race_s, max(LEAST_RACE_S, share_s)))
        # The baseline is waited for: without it there is no result.
        deadline_s = math.inf if same else self._pool.left_s()
        answer = self._timing.in_one(folders, plan, deadline_s=deadline_s)
        if same and "failure" not in answer:
            answer = {**answer, "samples": 2 * answer["samples"]}
        # The key names kernels, so `of` says which of the binaries with these kernels was the one that ran.
        return self._facts.record("samples", key, fact={**answer, "of": candidate.digest})

    def time_fresh(self, request: TimingRequest) -> TimedSamples | Failure:
        """Time artifacts against each other in new processes."""
        if self.session.cannot_run_reason:
            return TimedSamples((), 0.0)
        fact = self._facts.recall_or_record("timed", request.key, lambda: self._time(request))
        return read_fact(fact, lambda answer: TimedSamples.from_fact(answer, request.artifacts))

    def _time(self, request: TimingRequest) -> Fact:
        return self._restore_all(request.restored) or self._timing.in_several(request)

    def _restore_all(self, artifacts: Iterable[Built]) -> Fact | None:
        """Restore artifacts whose files were deleted; return the first failure as a fact."""
        for built in artifacts:
            restored = self.restore(built)
            # The build has succeeded before, so the failure is the machine's.
            if isinstance(restored, Failure):
                return {"failure": replace(restored, kind="infra").to_json()}
        return None

    def kernels(self, state: str) -> NetworkKernels | Failure:
        """Return the kernels of a state; see ``KernelProfiler.kernels``."""
        return self._kernels.kernels(state)

    def regions(self, state: str, function: str) -> tuple[Region, ...] | Failure:
        """Return the regions of a state; see ``KernelProfiler.regions``."""
        return self._kernels.regions(state, function)

    def variants(
        self, network: NetworkKernels, kernel: Kernel, steps: Sequence[PassSpec]
    ) -> Mapping[PassSpec, float] | Failure:
        """Time a kernel alone under several schedules; see ``KernelProfiler.variants``."""
        if reason := self.session.cannot_run_reason:
            return Failure("infra", "measure", "", reason)
        return self._kernels.variants(network, kernel, steps)

    def is_timed(self, network: NetworkKernels, kernel: Kernel, step: PassSpec) -> bool:
        """Return whether a schedule of a kernel is timed; see ``KernelProfiler.is_timed``."""
        return self._kernels.is_timed(network, kernel, step)

    def time_ahead(self, network: NetworkKernels, kernels: Sequence[Kernel], steps: Sequence[PassSpec]) -> bool:
        """Time schedules of several kernels; see ``KernelProfiler.time_ahead``."""
        return not self.session.cannot_run_reason and self._kernels.time_ahead(network, kernels, steps)

    def stop_time_ahead(self) -> None:
        """End the processes that ``time_ahead`` has started."""
        self._kernels.stop_time_ahead()

    def in_places(
        self, candidates: Sequence[Candidate], *, deadline_s: float = math.inf, is_judged: bool = True
    ) -> tuple[PlaceTimes, ...]:
        """Time all kernels of candidates where their network calls them; see ``KernelProfiler.in_places``."""
        # A GPU runs kernels later than their calls, so no call has a time of its own.
        if self.session.cannot_run_reason or self.session.device_kind != "cpu":
            return ()
        self._drop_others()
        asked = candidates if is_judged else [replace(candidate, name=TIMED_ONLY) for candidate in candidates]
        built = [self.build_candidate(candidate) for candidate in asked]
        artifacts = [each for each in built if isinstance(each, Built)]
        if len(artifacts) < len(built):
            return ()
        key = "|".join(artifact.digest for artifact in artifacts)
        folders = [str(artifact.folder) for artifact in artifacts]

        def measure() -> Fact:
            return self._restore_all(artifacts) or self._timing.in_places(
                folders, self.plans.places, deadline_s=deadline_s
            )

        times = read_fact(self._facts.recall_or_record("places", key, measure), PlaceTimes.from_fact)
        return () if isinstance(times, Failure) else times

    def places_by_process(
        self, artifacts: Sequence[Built], *, processes: int
    ) -> list[list[Mapping[str, float]]] | Failure:
        """Return by process and artifact the seconds of every kernel, timed where the network calls it."""
        failed = self._restore_all(artifacts)
        plan = replace(self.plans.places, processes=processes)
        answers = [failed] if failed else self._timing.each_in_places([str(each.folder) for each in artifacts], plan)
        if "failure" in answers[-1]:
            return Failure.from_json(answers[-1]["failure"])
        return [[each["kernels"] if each else {} for each in answer["places"]] for answer in answers]

    def ask_referee(self, request: Mapping[str, Any], *, state: str = "") -> dict[str, Any] | Failure:
        """Describe or build a kernel of a state, or check a foreign one in a process that may crash."""
        message = {"access": self.session.dialect.kernel_access, **request}
        if state:
            answer = self.applier.compiler.ask("build", "referee", state=state, **message)
        else:
            message["verb"] = "referee"
            answer = self._pool.ask(self._pool.timer, "measure", request=message, deadline_s=CHECK_S, once=True)
        return read_fact(answer, dict)

    def profile(self, candidates: Sequence[Candidate], *, energy: bool) -> tuple[NetworkProfile, ...] | Failure:
        """Return the times of all calls of candidates' kernels; see ``NetworkProfiler``.

        Args:
            candidates: The candidates.
            energy: True to read the energy of every kernel, which runs alone for that.
        """
        artifacts: list[Built] = []
        for candidate in candidates:
            built = self._build_files(candidate)
            if isinstance(built, Failure):
                return built
            artifacts.append(built)
        parts = self._facts, self.builder.files, self._timing
        return NetworkProfiler(self.session, self.network, *parts).profile(artifacts, energy=energy)

    def _build_files(self, candidate: Candidate) -> Built | Failure:
        """Return the artifact of a candidate, with its files."""
        built = self.build_candidate(candidate)
        return built if isinstance(built, Failure) else self.restore(built)

    def measure_consumption(self, key: str, folders: Sequence[str], *, plan: WindowPlan) -> Consumed | Failure | None:
        """Measure power, energy, temperature and utilisation; see ``Evaluator.measure_consumption``."""
        # Windows run all cases equally often, so what they read is not the mean by weights.
        if self.session.sensors.meter is None or self.session.cannot_run_reason or self.network.cases:
            return None
        fact = self._facts.recall("consumed", key)
        if fact is None:
            # Folders do not say how to build them again. The caller can restore the artifacts and ask once more.
            if not all(self.builder.files.has(Path(folder)) for folder in folders):
                return None
            fact = self._facts.record("consumed", key, fact=self._timing.consumption(folders, plan))
        return read_fact(fact, Consumed.from_fact)

    def compile_fresh(
        self, key: str, candidate: Candidate, *, timing_key: str, kinds: Sequence[str]
    ) -> FreshCompile | Failure:
        """Compile a candidate in a process of its own; see ``Evaluator.compile_fresh``."""
        return self.builder.compile_fresh(key, candidate, timing_key=timing_key, kinds=kinds)

    def judge_against(self, other: "WorkerEvaluator") -> None:
        """Compare all outputs with another toolchain's reference, which must be built already.

        Raises:
            UserError: The two toolchains import the network with different inputs.
        """
        if self.network.inputs != other.network.inputs:
            mine, others = (
                ", ".join(f"('{name}', {kind})" for name, kind in evaluator.network.inputs.items())
                for evaluator in (self, other)
            )
            raise UserError(f"The toolchains import the network with other inputs ({mine}; {others}).")
        # The graphs of two dialects may show other tables.
        self.network = self.network.with_check(other.network.check)
        self.builder.take_reference(other.builder.reference, self.network)
        self._timing = Timing(
            self.session, network=self.network, pool=self._pool, verification=self.builder.verification
        )

    def deployment(self, candidate: Candidate, folder: Path) -> dict[str, Any] | Failure:
        """Return what a deployment of a candidate needs, and write the imported network to ``folder``."""
        built = self._build_files(candidate)
        if isinstance(built, Failure):
            return built
        parts: Any = {"network": self.network, "applier": self.applier, "builder": self.builder}
        return deployment_record(built, candidate, session=self.session, folder=folder, **parts)
