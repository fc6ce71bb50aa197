"""One candidate, from pipeline to samples. Whatever the log knows is not done again."""

import math
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from passsearch.core import BuildOptions, Candidate, Failure, ModuleSummary, strict_limit
from passsearch.errors import UserError
from passsearch.evaluate.apply import Applier, Subject
from passsearch.evaluate.timing import Timing
from passsearch.evaluate.verify import Agreement, deviation_text, judge, wrong
from passsearch.measure import Cf22Plan, RoundPlan, WindowPlan, race_critical
from passsearch.store import NETWORK, Fact, Log

DEPLOYMENT_SEED = 4
FINAL_PLAN = RoundPlan()
"""For decisions: all rounds for everyone."""

SEARCH_PLAN = replace(FINAL_PLAN, rounds=8, race_s=10.0, critical=race_critical(8, artifacts=2))
"""For one candidate of a search, which leaves as soon as it is certainly slower than the baseline. Of a slow network a
search sees more by fewer rounds of each: what it finds is decided by others."""

SEARCH_WINDOWS, FINAL_WINDOWS = WindowPlan(windows=1), WindowPlan()
"""For one candidate of a search on power or energy, and for decisions."""

PROCESSES, MOST_PROCESSES = 3, 9
"""Timing processes of a shortlist and, at least and at most, of each repetition that confirms."""


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


class Evaluator(Applier):
    """Builds, verifies and times what was applied, through disposable processes."""

    def __init__(self, subject: Subject, *, log: Log, artifacts: Path, memory: Log | None = None) -> None:
        """Import the network, or recall that it was; the arguments are ``Applier``'s."""
        super().__init__(subject, log=log, artifacts=artifacts, memory=memory)
        self._reference = artifacts / "reference.npz"
        self._timing = Timing(self._workers, meter=subject.meter, device=subject.device, inputs=self.inputs)

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
            fact = self._record("build", key, fact=self._build(state, candidate.build, folder=folder))
        if "failure" in fact:
            return Failure.from_json(fact["failure"])
        sizes = {name: fact[name] for name in ("bytes", "plan_bytes", "peak_rss")}
        digests = (fact["digest"], fact["kernels"] or fact["digest"])
        built = Built(state, candidate.build, key, folder, *digests, fact["seconds"], **sizes)
        agreement = judge(fact, self.limit(candidate), unread=self.subject.idle)
        if isinstance(agreement, Failure):
            self.discard(built)
            return agreement
        return replace(built, agreement=agreement)

    def judge_by(self, other: "Evaluator") -> None:
        """Hold all outputs against another toolchain's reference, which is made by now.

        Raises:
            UserError: The other one's network does not take the same inputs.
        """
        if self.inputs != other.inputs:
            mine, others = (", ".join(map(str, each.inputs.items())) for each in (self, other))
            raise UserError(f"The toolchains import the network with other inputs ({mine}; {others}).")
        shutil.copyfile(other._reference, self._reference)

    def samples(self, baseline: Built, candidate: Built) -> Fact | Failure:
        """Samples of both, interleaved in one process; ``of`` names the binary they are of.

        What calls the same kernels in the same order is not timed again. Where nothing runs there are none.
        """
        if self.subject.idle:
            return {"samples": [[], []], "conditions": {}, "of": candidate.digest}
        key = f"{baseline.kernels}|{candidate.kernels}"
        fact = self._known("samples", key)
        if fact is None:
            fact = self._time(key, [baseline, candidate], plan=SEARCH_PLAN)
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
            fact = self._record("fresh", key, fact=self._compile_fresh(key, candidate))
        return Failure.from_json(fact["failure"]) if "failure" in fact else fact

    def time_fresh(
        self,
        key: str,
        folders: list[str],
        *,
        plan: RoundPlan | Cf22Plan,
        processes: int | None = None,
        least_s: float = 0.0,
        turn: int = 0,
    ) -> Fact | Failure:
        """Samples of artifacts from new processes, by process.

        Args:
            key: Names them in the log.
            folders: Artifacts, the baseline first.
            plan: How each process samples them.
            processes: How many; those of a shortlist if not given.
            least_s: Time to fill with further ones, up to ``MOST_PROCESSES`` in all.
            turn: Of the first process; it decides the order of loading.
        """
        if self.subject.idle:
            return {"processes": [], "conditions": [], "wall_s": 0.0}
        fact = self._known("timed", key)
        if fact is None:
            number = processes or PROCESSES
            timed = self._timing.in_several(
                folders, plan, processes=number, most=MOST_PROCESSES, least_s=least_s, turn=turn
            )
            fact = self._record("timed", key, fact=timed)
        return Failure.from_json(fact["failure"]) if "failure" in fact else fact

    def consumption(self, key: str, folders: list[str], *, plan: WindowPlan) -> Fact | Failure | None:
        """What each artifact consumes (``measure.consumption``), from a new process.

        ``None`` without a meter, or where nothing is known and the files are gone.
        """
        if self.subject.meter is None or self.subject.idle:
            return None
        fact = self._known("consumed", key)
        if fact is None:
            if not all(Path(folder).exists() for folder in folders):
                return None
            fact = self._record("consumed", key, fact=self._timing.consumption(folders, plan))
        return Failure.from_json(fact["failure"]) if "failure" in fact else fact

    def deployment(self, candidate: Candidate, folder: Path) -> dict[str, Any] | None:
        """What a deployment of one candidate needs; the imported network goes to ``folder`` as ``network.json``.

        Answers the state after every pass and the digest of the outputs on the inputs of ``DEPLOYMENT_SEED``.
        """
        built = self.built(self.states(candidate.pipeline)[-1], candidate)
        restored = built if isinstance(built, Failure) else self.restore(built)
        if isinstance(restored, Failure):
            return None
        expected = self._expected(restored)
        if expected is None or not self.save(self.graph.root, folder / NETWORK):
            return None
        factories = {step.name: self.subject.factories[step.name] for step in candidate.pipeline.passes}
        return {
            "states": self.hashes(candidate.pipeline),
            "expected": expected,
            "seed": DEPLOYMENT_SEED,
            "inputs": self.inputs,
            "factories": factories,
            "tolerance": self.limit(candidate),
        }

    def _expected(self, built: Built) -> list[Any] | None:
        """Digests of its outputs on the inputs of ``DEPLOYMENT_SEED``; none where nothing runs."""
        if self.subject.idle:
            return []
        expect: dict[str, Any] = {"verb": "expect", "folder": str(built.folder), "device": self.subject.device}
        expect |= {"inputs": self.inputs, "seed": DEPLOYMENT_SEED}
        answer = self._workers.ask(self._workers.timer, "measure", request=expect)
        return None if "failure" in answer else answer["expected"]

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
        fact = self._build(built.state, built.options, folder=built.folder)
        return Failure.from_json(fact["failure"]) if "failure" in fact else built

    def _build(self, state: str, options: BuildOptions, *, folder: Path) -> Fact:
        """Build into a folder that gets its name once all of it is there and its outputs are known."""
        if not (self.subject.idle or self._reference.exists()) and (state, options) != (
            self.graph.root,
            BuildOptions(),
        ):
            reference = self._build(self.graph.root, BuildOptions(), folder=self._artifacts / "reference")
            if "failure" in reference:
                return reference
        unfinished = folder.with_name(folder.name + ".partial")
        shutil.rmtree(unfinished, ignore_errors=True)
        answer = self._compiler.ask("build", "build", state=state, options=options.to_json(), folder=str(unfinished))
        verified = answer if "failure" in answer or self.subject.idle else self._verify(unfinished)
        if "failure" in verified:
            shutil.rmtree(unfinished, ignore_errors=True)
            return verified
        shutil.rmtree(folder, ignore_errors=True)
        unfinished.rename(folder)
        return {**answer, **{name: verified.get(name) for name in ("peak_rss", "deviation", "case", "leads")}}

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
        answer = self._workers.ask(self._workers.timer, "measure", request=request)
        if "failure" not in answer and not math.isfinite(answer["deviation"]):
            return {"failure": wrong(answer["mismatch"] or deviation_text(answer)).to_json()}
        return answer

    def _time(self, key: str, contenders: list[Built], *, plan: RoundPlan) -> Fact:
        for contender in contenders:
            restored = self.restore(contender)
            if isinstance(restored, Failure):
                return {"failure": restored.to_json()}
        timed = self._timing.in_one([str(each.folder) for each in contenders], plan)
        return self._record("samples", key, fact={**timed, "of": contenders[-1].digest})

    def _compile_fresh(self, key: str, candidate: Candidate) -> Fact:
        folder = self._artifacts / key
        shutil.rmtree(folder, ignore_errors=True)
        steps = [self._compiler.step(step) for step in candidate.pipeline.passes]
        passes = [{**step["pass"], "factory": step["factory"], "phases": step["phases"]} for step in steps]
        request = {"verb": "compile", "source": self.subject.source, "passes": passes}
        request |= {"options": candidate.build.to_json(), "folder": str(folder)}
        answer = self._workers.ask_new("build", request)
        if "failure" in answer:
            return answer
        if answer["state"] != self.reach(candidate.pipeline):
            reason = "a fresh process reached another IR by the same pipeline"
            return {"failure": Failure("unstable", "apply", "", reason).to_json()}
        return {**answer, "folder": str(folder)}


def _options_key(options: BuildOptions) -> str:
    parts = [f"O{options.opt_level}", *(f"+{name}" for name in options.required)]
    parts += [f"-{name}" for name in options.disabled] + [f"{key}={value}" for key, value in options.config]
    return ",".join(parts)
