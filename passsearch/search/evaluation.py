"""One candidate, from pipeline to samples. Whatever the log knows is not done again."""

import math
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from passsearch.core import BuildOptions, Candidate, Failure, ModuleSummary, PassSpec, Pipeline, strict_limit
from passsearch.dialects.contract import SCALES
from passsearch.errors import UserError, WorkerDied
from passsearch.measure import Cf22Plan, Meter, RoundPlan, WindowPlan, Worker, race_critical
from passsearch.search.gate import Agreement, deviation_text, judge, wrong
from passsearch.search.states import Edge, StateGraph
from passsearch.search.timing import Timing
from passsearch.search.workers import Workers
from passsearch.store import NETWORK, Fact, Log

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
    """A state built with options, judged for one candidate; equal digests are one binary."""

    state: str
    options: BuildOptions
    key: str
    folder: Path
    digest: str
    seconds: float
    bytes: int
    plan_bytes: int | None
    peak_rss: int | None
    agreement: Agreement = field(default_factory=Agreement)


class Evaluator:
    """Applies, builds, verifies and times candidates through disposable processes."""

    def __init__(self, subject: Subject, *, log: Log, artifacts: Path) -> None:
        self.subject = subject
        self._log = log
        self._artifacts = artifacts
        self._deadly: dict[PassSpec, list[Edge]] = {}
        self._workers = Workers(subject.start, threads=subject.threads, deadline_s=subject.deadline_s)
        self.seconds = self._workers.seconds
        self.seconds |= log.latest.get("spent", {})
        loaded = log.recall("load", "") or self._record("load", "", self._load())
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
        """End its processes."""
        self._workers.close()

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

    def apply_seconds(self, pipeline: Pipeline) -> float:
        """Time to apply exactly this pipeline, whatever cheaper way to the same state is known."""
        return sum(edge.seconds for edge in self.path(pipeline))

    def save(self, state: str, path: Path) -> bool:
        """Write a state's IR with its constants; whether that went well."""
        request = {"verb": "save", "state": state, "path": str(path)}
        return "failure" not in self._workers.ask(partial(self._compiler_with, state), "build", request)

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
        built = Built(state, candidate.build, key, folder, fact["digest"], fact["seconds"], **sizes)
        agreement = judge(fact, self.limit(candidate))
        if isinstance(agreement, Failure):
            self.discard(built)
            return agreement
        return replace(built, agreement=agreement)

    def samples(self, baseline: Built, candidate: Built) -> Fact | Failure:
        """Samples of both, interleaved in one process; a binary known by another name is not timed again."""
        fact = self._known("samples", candidate.digest)
        if fact is None:
            fact = self._time(candidate.digest, [baseline, candidate], SEARCH_PLAN)
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
        states = self.states(candidate.pipeline)
        built = self.built(states[-1], candidate)
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
            "states": states,
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

    def _edge(self, state: str, step: PassSpec) -> Edge:
        edge = self.graph.edge(state, step) or self._given_up(step)
        if edge is None:
            key = f"{state}|{step}"
            fact = self._known("edge", key)
            if fact is None:
                fact = self._record("edge", key, self._apply(state, step))
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

    def _apply(self, state: str, step: PassSpec) -> Fact:
        request = {"verb": "apply", "state": state, **self._step(step)}
        answer = self._workers.ask(partial(self._compiler_with, state), "apply", request, step=step.name)
        return {"seconds": 0.0, **answer}

    def _step(self, step: PassSpec) -> dict[str, Any]:
        data: dict[str, Any] = {"name": step.name, "arguments": step.bound}
        return {"pass": data, "factory": self.subject.factories[step.name]}

    def _build(self, state: str, options: BuildOptions, folder: Path) -> Fact:
        """Build into a folder that gets its name once all of it is there and its outputs are known."""
        if not self._reference.exists() and (state, options) != (self.graph.root, BuildOptions()):
            reference = self._build(self.graph.root, BuildOptions(), self._artifacts / "reference")
            if "failure" in reference:
                return reference
        unfinished = folder.with_name(folder.name + ".partial")
        shutil.rmtree(unfinished, ignore_errors=True)
        request = {"verb": "build", "state": state, "options": options.to_json(), "folder": str(unfinished)}
        answer = self._workers.ask(partial(self._compiler_with, state), "build", request)
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
        return self._record("samples", key, self._timing.in_one([str(each.folder) for each in contenders], plan))

    def _compile_fresh(self, key: str, candidate: Candidate) -> Fact:
        folder = self._artifacts / key
        shutil.rmtree(folder, ignore_errors=True)
        steps = [self._step(step) for step in candidate.pipeline.passes]
        passes = [{**step["pass"], "factory": step["factory"]} for step in steps]
        request = {"verb": "compile", "source": self.subject.source, "passes": passes}
        request |= {"options": candidate.build.to_json(), "folder": str(folder)}
        answer = self._workers.ask_new("build", request)
        if "failure" in answer:
            return answer
        if answer["states"][-1] != self.reach(candidate.pipeline):
            reason = "a fresh process reached another IR by the same pipeline"
            return {"failure": Failure("unstable", "apply", "", reason).to_json()}
        return {**answer, "folder": str(folder)}

    def _compiler_with(self, state: str) -> Worker:
        """The compiling worker, holding ``state``: after a crash what is needed is applied again, no more."""
        worker = self._workers.compiler()
        if not worker.ask({"verb": "hold", "state": state}, deadline_s=self.subject.deadline_s)["held"]:
            self._replay(worker, state)
        return worker

    def _replay(self, worker: Worker, state: str) -> None:
        answer = worker.ask(self._load_request(summary=False), deadline_s=self.subject.deadline_s)
        for step in self.graph.cheapest(state)[0].passes:
            if "state" in answer:
                request = {"verb": "apply", "state": answer["state"], **self._step(step)}
                answer = worker.ask(request, deadline_s=self.subject.deadline_s)
        if answer.get("state") != state:
            raise WorkerDied(f"state {state} could not be reached again", kind="unstable")

    def _load(self) -> Fact:
        """Import the network; what cannot be imported is the caller's to mend and leaves nothing behind."""
        path, request = self.subject.source["path"], self._load_request(summary=True)
        with ExitStack() as undo:
            undo.callback(self.close)
            try:
                answer = self._workers.compiler().ask(request, deadline_s=self.subject.deadline_s)
            except WorkerDied as error:
                raise UserError(f"The compiler died importing `{path}`: {error}.") from error
            if "error" in answer:
                raise UserError(f"Cannot import `{path}`: {answer['error']['reason']}.")
            undo.pop_all()
        return answer

    def _load_request(self, *, summary: bool) -> dict[str, Any]:
        return {"verb": "load", "source": self.subject.source, "summary": summary}

    def _known(self, kind: str, key: str) -> Fact | None:
        """What the log has, unless it was given up under a shorter deadline than today's."""
        fact = self._log.recall(kind, key)
        if fact is None or fact.get("failure", {}).get("kind") != "timeout":
            return fact
        return fact if fact.get("deadline_s", 0.0) >= self.subject.deadline_s else None

    def _record(self, kind: str, key: str, fact: Fact) -> Fact:
        spent = {stage: round(seconds, 3) for stage, seconds in self.seconds.items()}
        return self._log.record(kind, key, {**fact, "spent": spent, "deadline_s": self.subject.deadline_s})


def _options_key(options: BuildOptions) -> str:
    parts = [f"O{options.opt_level}", *(f"+{name}" for name in options.required)]
    parts += [f"-{name}" for name in options.disabled] + [f"{key}={value}" for key, value in options.config]
    return ",".join(parts)
