"""One candidate, from pipeline to samples. Whatever the log knows is not done again."""

import math
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from passsearch.core import BuildOptions, Candidate, Failure, ModuleSummary, PassSpec, Pipeline, strict_limit
from passsearch.dialects.contract import SCALES
from passsearch.errors import UserError, WorkerDied
from passsearch.measure import Cf22Plan, Meter, RoundPlan, WindowPlan, Worker, race_critical
from passsearch.search.compiler import Compiler
from passsearch.search.gate import Agreement, deviation_text, judge, wrong
from passsearch.search.states import Edge, StateGraph
from passsearch.search.timing import Timing
from passsearch.search.workers import Workers
from passsearch.store import NETWORK, STATES, Fact, Log

OUTPUT_CASES: tuple[int | str, ...] = (1, 2, 3, *SCALES)
"""Seeds of random inputs, and edge inputs."""

DEPLOYMENT_SEED = 4
DEADLY = 2
"""Times a pass may kill or hang its process before it is left alone; each costs a restart or a whole deadline."""
FINAL_PLAN = RoundPlan()
"""For decisions: all rounds for everyone."""

SEARCH_PLAN = replace(FINAL_PLAN, rounds=8, critical=race_critical(8, artifacts=2))
"""For one candidate of a search, which leaves as soon as it is certainly slower than the baseline."""

SEARCH_WINDOWS, FINAL_WINDOWS = WindowPlan(windows=1), WindowPlan()
"""For one candidate of a search on power or energy, and for decisions."""

REMEMBERED = frozenset({"load", "edge", "steady", "census", "hash", "build", "samples"})
"""Kinds of facts that hold for later runs too. What confirms a winner is never among them."""

PROCESSES = 3
"""Timing processes of a shortlist, and of each repetition that confirms."""


@dataclass(frozen=True)
class Subject:
    """What is compiled, by what, for what; the same for all candidates of a run.

    Attributes:
        source: Model file as the worker's ``load`` takes it.
        factories: ``module:function`` of every pass of the catalog, by name.
        start: Starts a worker of the toolchain with so many kernel threads.
        device: Where kernels run.
        threads: Kernel threads while timing.
        approximates: Whether a candidate has a pass that may change numerics.
        tolerance: Largest deviation of outputs from the reference, as a share of the largest output, of candidates that
            approximate; ``None`` judges them as strictly as all others.
        deadline_s: How long one request may take.
        output_cases: Inputs on which outputs are compared with the reference.
        meter: Of the device; ``None`` where it has none.
    """

    source: Mapping[str, Any]
    factories: Mapping[str, str]
    start: Callable[[int], Worker]
    device: str
    threads: int
    approximates: Callable[[Candidate], bool]
    tolerance: float | None
    deadline_s: float
    output_cases: tuple[int | str, ...] = OUTPUT_CASES
    meter: Meter | None = None


@dataclass(frozen=True)
class Built:
    """A state built with options, judged for one candidate.

    Equal ``digest`` is one binary. Equal ``kernels`` is the same code called in the same order, on parameters that may
    have other values, which takes the same time.
    """

    state: str
    options: BuildOptions
    key: str
    folder: Path
    digest: str
    kernels: str
    seconds: float
    bytes: int
    plan_bytes: int | None
    peak_rss: int | None
    agreement: Agreement = field(default_factory=Agreement)


class Evaluator:
    """Applies, builds, verifies and times candidates through disposable processes."""

    def __init__(self, subject: Subject, *, log: Log, artifacts: Path, memory: Log | None = None) -> None:
        """Import the network, or recall that it was.

        Args:
            subject: What is compiled by what.
            log: Of this run.
            artifacts: Folder for what is built.
            memory: What earlier runs found out about the same network, compiler and device.
        """
        self.subject = subject
        self._log, self._memory = log, memory
        self._artifacts = artifacts
        self._deadly: dict[PassSpec, list[Edge]] = {}
        self._workers = Workers(subject.start, threads=subject.threads, deadline_s=subject.deadline_s)
        self.seconds = self._workers.seconds
        self.seconds |= log.latest.get("spent", {})
        self._compiler = self._compiling(self._workers)
        loaded = self._known("load", "") or self._record("load", "", self._load())
        self.inputs: Mapping[str, Any] = loaded["inputs"]
        self.summary: Mapping[str, Any] = loaded["summary"]
        self.graph = StateGraph(loaded["state"])
        self._reference = artifacts / "reference.npz"
        self._timing = Timing(self._workers, meter=subject.meter, device=subject.device, inputs=self.inputs)

    @property
    def batch(self) -> int:
        """First dimension of the first input."""
        shape: list[Any] = next((shape for shape, _ in self.inputs.values()), [])
        return int(shape[0] or 1) if shape else 1

    def close(self) -> None:
        """End its processes and drop the states they shared."""
        self._workers.close()
        shutil.rmtree(self._artifacts / STATES, ignore_errors=True)

    @contextmanager
    def compilers(self, number: int) -> Iterator[list[Compiler]]:
        """So many compilers that work side by side and share their states; the first is the one that builds."""
        others = [Workers(self.subject.start, threads=1, deadline_s=self.subject.deadline_s) for _ in range(number - 1)]
        with ExitStack() as stack:
            for each in others:
                stack.callback(each.close)
            yield [self._compiler, *map(self._compiling, others)]
        for each in others:
            self.seconds["apply"] += each.seconds["apply"]

    def _compiling(self, workers: Workers) -> Compiler:
        return Compiler(
            workers,
            lambda: self.graph,
            source=self.subject.source,
            factories=self.subject.factories,
            deadline_s=self.subject.deadline_s,
        )

    def path(self, pipeline: Pipeline) -> list[Edge]:
        """What every pass of a pipeline did, step by step over the graph, up to the first that failed."""
        edges: list[Edge] = []
        state = self.graph.root
        for step in pipeline.passes:
            edges.append(self._edge(state, step))
            if isinstance(edges[-1].target, Failure):
                break
            state = edges[-1].target
        return edges

    def reach(self, pipeline: Pipeline) -> str | Failure:
        """The state a pipeline leads to."""
        edges = self.path(pipeline)
        return edges[-1].target if edges else self.graph.root

    def states(self, pipeline: Pipeline) -> list[str]:
        """The root and the state after every pass, up to the first that failed."""
        targets = [edge.target for edge in self.path(pipeline)]
        return [self.graph.root, *(target for target in targets if isinstance(target, str))]

    def hashes(self, pipeline: Pipeline) -> list[str]:
        """The compiler's own hash of the root and of the state after every pass, up to the first that failed."""
        told = []
        for state in self.states(pipeline):
            fact = self._known("hash", state)
            if fact is None:
                fact = self._record("hash", state, self._compiler.ask("apply", "hash", state))
            if "failure" in fact:
                break
            told.append(fact["hash"])
        return told

    def expand(self, state: str, steps: Sequence[PassSpec]) -> None:
        """Apply every one of these passes to a state."""
        for step in steps:
            self._edge(state, step)

    @property
    def explored(self) -> bool:
        """Whether this run has had its time for exploring: one that goes on does not explore further."""
        return self._log.recall("explored", "") is not None

    @explored.setter
    def explored(self, _: bool) -> None:
        self._record("explored", "", {})

    def census(self, state: str) -> Mapping[str, int]:
        """What a state consists of, counted; empty if it cannot be told."""
        fact = self._known("census", state)
        if fact is None:
            fact = self._record("census", state, self._compiler.ask("apply", "census", state))
        counts: Mapping[str, int] = fact.get("counts", {})
        return counts

    def apply_seconds(self, pipeline: Pipeline) -> float:
        """Time to apply exactly this pipeline, whatever cheaper way to the same state is known."""
        return sum(edge.seconds for edge in self.path(pipeline))

    def save(self, state: str, path: Path) -> bool:
        """Write a state's IR with its constants; whether that went well."""
        return "failure" not in self._compiler.ask("build", "save", state, path=str(path))

    def limit(self, candidate: Candidate) -> float:
        """Largest deviation of its outputs from the reference's, as a share of the largest output."""
        if self.subject.tolerance is not None and self.subject.approximates(candidate):
            return self.subject.tolerance
        return self._strict_limit

    @cached_property
    def _strict_limit(self) -> float:
        return strict_limit(ModuleSummary.from_json(self.summary).computed_types)

    def built(self, state: str, candidate: Candidate) -> Built | Failure:
        """Build a state as a candidate asks, judge its outputs by the candidate's limit, keep the artifact.

        The outputs of the imported network built without optimisation are the reference, and come first. How far others
        deviate is a fact of the build; whether that is too far is asked anew for every candidate.
        """
        key = f"{state}|{_options_key(candidate.build)}"
        folder = self._artifacts / key.replace("|", "-").replace("+", "x")
        fact = self._known("build", key)
        if fact is None:
            fact = self._record("build", key, self._build(state, candidate.build, folder))
        if "failure" in fact:
            return Failure.from_json(fact["failure"])
        sizes = {name: fact[name] for name in ("bytes", "plan_bytes", "peak_rss")}
        digests = (fact["digest"], fact["kernels"] or fact["digest"])
        built = Built(state, candidate.build, key, folder, *digests, fact["seconds"], **sizes)
        agreement = judge(fact, self.limit(candidate))
        if isinstance(agreement, Failure):
            self.discard(built)
            return agreement
        return replace(built, agreement=agreement)

    def samples(self, baseline: Built, candidate: Built) -> Fact | Failure:
        """Samples of both, interleaved in one process; ``of`` names the binary they are of.

        What calls the same kernels in the same order is not timed again.
        """
        key = f"{baseline.kernels}|{candidate.kernels}"
        fact = self._known("samples", key)
        if fact is None:
            fact = self._time(key, [baseline, candidate], SEARCH_PLAN)
        return Failure.from_json(fact["failure"]) if "failure" in fact else fact

    def fresh(self, key: str, candidate: Candidate, *, timed: str, kinds: Sequence[str]) -> Fact | Failure:
        """Compile a candidate in a process of its own, as a deployment does, and check the state it reaches.

        Args:
            key: Names this compile in the log and its folder.
            candidate: What to compile.
            timed: Key of the timing it is compiled for.
            kinds: What is measured under that key; once all of it is known the files are not needed.
        """
        fact = self._known("fresh", key)
        lost = fact is not None and "failure" not in fact and not Path(fact["folder"]).exists()
        if fact is None or (lost and any(self._known(kind, timed) is None for kind in kinds)):
            fact = self._record("fresh", key, self._compile_fresh(key, candidate))
        return Failure.from_json(fact["failure"]) if "failure" in fact else fact

    def time_fresh(
        self, key: str, folders: list[str], plan: RoundPlan | Cf22Plan, *, processes: int | None = None
    ) -> Fact | Failure:
        """Samples of artifacts from new processes, by process."""
        fact = self._known("timed", key)
        if fact is None:
            fact = self._record("timed", key, self._timing.in_several(folders, plan, processes or PROCESSES))
        return Failure.from_json(fact["failure"]) if "failure" in fact else fact

    def consumption(self, key: str, folders: list[str], plan: WindowPlan) -> Fact | Failure | None:
        """What each artifact consumes (``measure.consumption``), from a new process.

        ``None`` without a meter, or where nothing is known and the files are gone.
        """
        if self.subject.meter is None:
            return None
        fact = self._known("consumed", key)
        if fact is None:
            if not all(Path(folder).exists() for folder in folders):
                return None
            fact = self._record("consumed", key, self._timing.consumption(folders, plan))
        return Failure.from_json(fact["failure"]) if "failure" in fact else fact

    def deployment(self, candidate: Candidate, folder: Path) -> dict[str, Any] | None:
        """What a deployment of one candidate needs; the imported network goes to ``folder`` as ``network.json``.

        Answers the state after every pass and the digest of the outputs on the inputs of ``DEPLOYMENT_SEED``.
        """
        built = self.built(self.states(candidate.pipeline)[-1], candidate)
        restored = built if isinstance(built, Failure) else self.restore(built)
        if isinstance(restored, Failure):
            return None
        expect: dict[str, Any] = {"verb": "expect", "folder": str(restored.folder), "device": self.subject.device}
        expect |= {"inputs": self.inputs, "seed": DEPLOYMENT_SEED}
        answer = self._workers.ask(self._workers.timer, "measure", expect)
        if "failure" in answer or not self.save(self.graph.root, folder / NETWORK):
            return None
        factories = {step.name: self.subject.factories[step.name] for step in candidate.pipeline.passes}
        return {
            "states": self.hashes(candidate.pipeline),
            "expected": answer["expected"],
            "seed": DEPLOYMENT_SEED,
            "inputs": self.inputs,
            "factories": factories,
            "tolerance": self.limit(candidate),
        }

    def discard(self, built: Built) -> None:
        """Delete an artifact; it is built again if it is ever needed."""
        if built.folder.exists():
            doomed = built.folder.with_name(built.folder.name + ".partial")
            shutil.rmtree(doomed, ignore_errors=True)
            built.folder.rename(doomed)
            shutil.rmtree(doomed, ignore_errors=True)

    def restore(self, built: Built) -> Built | Failure:
        """Make sure the artifact's files are there: a run that goes on may have lost or discarded them."""
        if built.folder.exists():
            return built
        fact = self._build(built.state, built.options, built.folder)
        return Failure.from_json(fact["failure"]) if "failure" in fact else built

    def known(self, state: str, step: PassSpec) -> Edge | None:
        """What one pass does to one state, if that was ever tried or is not to be tried again."""
        edge = self.graph.edge(state, step) or self._given_up(step)
        if edge is not None:
            return edge
        fact = self._known("edge", f"{state}|{step}")
        if self.forbidden(step):
            return self.graph.edge(state, step)
        return None if fact is None else self._learn(state, step, fact)

    def learn(self, state: str, step: PassSpec, fact: Fact) -> Edge:
        """Take in what one pass did to one state, as ``Compiler.apply`` answers it."""
        return self._learn(state, step, self._record("edge", f"{state}|{step}", fact))

    def forbid(self, step: PassSpec, reason: str) -> None:
        """From now on a pass leads nowhere: what it does is not the same every time."""
        failure = Failure("unstable", "apply", step.name, reason)
        self._record("steady", str(step), {"failure": failure.to_json()})
        self.graph.forbid(step, failure)

    def forbidden(self, step: PassSpec) -> bool:
        """Whether a pass was found unsteady, by this run or by an earlier one."""
        fact = self._known("steady", str(step))
        if fact is not None:
            self.graph.forbid(step, Failure.from_json(fact["failure"]))
        return fact is not None

    def _edge(self, state: str, step: PassSpec) -> Edge:
        return self.known(state, step) or self.learn(state, step, self._compiler.apply(state, step))

    def _learn(self, state: str, step: PassSpec, fact: Fact) -> Edge:
        target = Failure.from_json(fact["failure"]) if "failure" in fact else fact["state"]
        edge = Edge(target, fact["seconds"])
        self.graph.add(state, step, edge)
        if isinstance(target, Failure) and target.kind in ("crash", "timeout", "oom"):
            self._deadly.setdefault(step, []).append(edge)
        return edge

    def _given_up(self, step: PassSpec) -> Edge | None:
        """The last failure of a pass that has killed or hung its process ``DEADLY`` times: it is not asked again."""
        edges = self._deadly.get(step, [])
        return edges[-1] if len(edges) >= DEADLY else None

    def _build(self, state: str, options: BuildOptions, folder: Path) -> Fact:
        """Build into a folder that gets its name once all of it is there and its outputs are known."""
        if not self._reference.exists() and (state, options) != (self.graph.root, BuildOptions()):
            reference = self._build(self.graph.root, BuildOptions(), self._artifacts / "reference")
            if "failure" in reference:
                return reference
        unfinished = folder.with_name(folder.name + ".partial")
        shutil.rmtree(unfinished, ignore_errors=True)
        told = {"options": options.to_json(), "folder": str(unfinished)}
        answer = self._compiler.ask("build", "build", state, **told)
        verified = answer if "failure" in answer else self._verify(unfinished)
        if "failure" in verified:
            shutil.rmtree(unfinished, ignore_errors=True)
            return verified
        shutil.rmtree(folder, ignore_errors=True)
        unfinished.rename(folder)
        return {**answer, **{name: verified[name] for name in ("peak_rss", "deviation", "case", "leads")}}

    def _verify(self, folder: Path) -> Fact:
        """Compare outputs with the reference, or make it; what no limit admits is a failure of the build."""
        reference = str(self._reference) if self._reference.exists() else None
        request = {
            "verb": "verify",
            "folder": str(folder),
            "device": self.subject.device,
            "inputs": self.inputs,
            "cases": self.subject.output_cases,
            "outputs": str(self._reference),
            "reference": reference,
        }
        answer = self._workers.ask(self._workers.timer, "measure", request)
        if "failure" not in answer and not math.isfinite(answer["deviation"]):
            return {"failure": wrong(answer["mismatch"] or deviation_text(answer)).to_json()}
        return answer

    def _time(self, key: str, contenders: list[Built], plan: RoundPlan) -> Fact:
        for contender in contenders:
            restored = self.restore(contender)
            if isinstance(restored, Failure):
                return {"failure": restored.to_json()}
        timed = self._timing.in_one([str(each.folder) for each in contenders], plan)
        return self._record("samples", key, {**timed, "of": contenders[-1].digest})

    def _compile_fresh(self, key: str, candidate: Candidate) -> Fact:
        folder = self._artifacts / key
        shutil.rmtree(folder, ignore_errors=True)
        steps = [self._compiler.step(step) for step in candidate.pipeline.passes]
        passes = [{**step["pass"], "factory": step["factory"]} for step in steps]
        request = {"verb": "compile", "source": self.subject.source, "passes": passes}
        request |= {"options": candidate.build.to_json(), "folder": str(folder)}
        answer = self._workers.ask_new("build", request)
        if "failure" in answer:
            return answer
        if answer["state"] != self.reach(candidate.pipeline):
            reason = "a fresh process reached another IR by the same pipeline"
            return {"failure": Failure("unstable", "apply", "", reason).to_json()}
        return {**answer, "folder": str(folder)}

    def _load(self) -> Fact:
        """Import the network; what cannot be imported is the caller's to mend and leaves nothing behind."""
        path = self.subject.source["path"]
        with ExitStack() as undo:
            undo.callback(self.close)
            try:
                answer = self._compiler.load(summary=True)
            except WorkerDied as error:
                raise UserError(f"The compiler died importing `{path}`: {error}.") from error
            if "error" in answer:
                raise UserError(f"Cannot import `{path}`: {answer['error']['reason']}.")
            undo.pop_all()
        return answer

    def _known(self, kind: str, key: str) -> Fact | None:
        """What the log has, unless it was given up under a shorter deadline than today's."""
        fact = self._log.recall(kind, key)
        if fact is None and self._memory is not None and kind in REMEMBERED:
            fact = self._memory.recall(kind, key)
            fact = fact and self._log.record(kind, key, {**fact, "spent": self._spent})
        if fact is None or fact.get("failure", {}).get("kind") != "timeout":
            return fact
        return fact if fact.get("deadline_s", 0.0) >= self.subject.deadline_s else None

    def _record(self, kind: str, key: str, fact: Fact) -> Fact:
        fact = {**fact, "deadline_s": self.subject.deadline_s}
        if self._memory is not None and kind in REMEMBERED:
            self._memory.record(kind, key, fact)
        return self._log.record(kind, key, {**fact, "spent": self._spent})

    @property
    def _spent(self) -> dict[str, float]:
        return {stage: round(seconds, 3) for stage, seconds in self.seconds.items()}


def _options_key(options: BuildOptions) -> str:
    parts = [f"O{options.opt_level}", *(f"+{name}" for name in options.required)]
    parts += [f"-{name}" for name in options.disabled] + [f"{key}={value}" for key, value in options.config]
    return ",".join(parts)
