"""The referee of foreign kernels: one is checked in the place of a network's own, timed there, and admitted or refused.

Every check is a request to a process of its own: a kernel that crashes is refused like one that is wrong.
"""

import logging
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from time import monotonic
from typing import Any

from passsearch.core import Candidate, Failure, PassSpec, Pipeline, timestamp
from passsearch.dialects.foreign_kernel import KernelParameter
from passsearch.errors import UserError
from passsearch.evaluate import Built, WorkerEvaluator
from passsearch.measure import MIN_GAIN, Ratio, process_ratio
from passsearch.results import Check, Device, KernelTrial, TrialTimes, TriedKernel
from passsearch.search.document import compiler_of, model_of
from passsearch.search.stated_ratio import stated
from passsearch.store import SCHEMA
from passsearch.studies.comparison import time_contenders
from passsearch.studies.comparison_records import BASELINE, ComparisonOptions, ComparisonSamples, Contender, Side

REPLACE = "ReplaceKernel"
FASTER, SLOWER, EQUAL = "faster", "slower", "no certain difference"
THREADS = (1, 2, 3, 4, 5, 7)
SIDES = ("behind", "before")

_NUMBERS = re.compile(r"[\d.,]+(e[+-]\d+)?")

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class KernelQuestion:
    """What is asked of the referee.

    Attributes:
        candidate: The network as it is.
        kernel: Name of the kernel.
        file: The foreign kernel; ``None`` to be told how it has to begin.
        name: Name of the user's file, of which ``file`` is a copy.
        sha256: Digest of the file.
        is_timed: False to check it only.
    """

    candidate: Candidate
    kernel: str
    file: Path | None = None
    name: str = ""
    sha256: str = ""
    is_timed: bool = True


@dataclass(frozen=True)
class Trial:
    """The outcome of a trial.

    Attributes:
        document: The document.
        candidate: The network with the foreign kernel.
    """

    document: KernelTrial
    candidate: Candidate


def try_foreign_kernel(
    evaluator: WorkerEvaluator, question: KernelQuestion, *, progress: Callable[[str, int, int], None]
) -> Trial:
    """Check a foreign kernel in its place, and time it there if it is right.

    Raises:
        UserError: The network as it is fails, or has no such kernel that could be replaced.
        EnvironmentFault: The machine fails.
    """
    begin = monotonic()
    state = _require(evaluator.reach(question.candidate.pipeline))
    described = _require(evaluator.ask_referee({"action": "describe", "kernel": question.kernel}, state=state))
    step = PassSpec.of(REPLACE, kernel=described["name"], file=str(question.file), sha256=question.sha256[:16])
    foreign = replace(
        question.candidate, pipeline=Pipeline((*question.candidate.pipeline.passes, step)), name=question.name
    )
    checks: list[Check] = []
    if question.file is not None:
        referee = _Referee(evaluator, question, described, state=state, progress=progress)
        for check in referee.checks(foreign):
            _log.info("%s: %s, %s", check.name, "ok" if check.ok else "refused", check.detail)
            checks.append(check)
    times, verdict = None, ""
    if checks and all(check.ok for check in checks) and question.is_timed:
        progress("timing the kernel in its place", 0, 0)
        present = _files(evaluator, question.candidate)
        try:
            times, verdict = _timed(evaluator, present, foreign, described["shown"])
        except UserError as error:  # a wrong answer, or a crash, which no check has shown
            checks.append(Check("timing", False, str(error)))
    refusal = next((check for check in checks if not check.ok), None)
    document = KernelTrial(
        schema=SCHEMA,
        measured_at=timestamp(),
        model=model_of(evaluator.session, evaluator.network),
        pipeline=str(question.candidate.pipeline),
        target=evaluator.session.target,
        toolchain=compiler_of(evaluator.session),
        device=Device.from_json(evaluator.session.sensors.device),
        tried=TriedKernel(described["shown"], question.name, question.sha256, described["prototype"]),
        admitted=bool(checks) and refusal is None,
        reason=f"{refusal.name}: {refusal.detail}" if refusal else "",
        checks=tuple(checks),
        verdict=verdict,
        times=times,
        folder="",
        not_exported="",
        seconds=round(monotonic() - begin, 1),
    )
    return Trial(document, foreign)


def _require(outcome: Any) -> Any:
    """Return what is no failure.

    Raises:
        UserError, EnvironmentFault: With the reason.
    """
    if isinstance(outcome, Failure):
        raise outcome.as_error(f"The kernel's place was not found: {outcome.reason}.")
    return outcome


def _sound(outcome: Any) -> Any:
    """Return an outcome that is no accident of the machine.

    Raises:
        EnvironmentFault: It is one.
    """
    if isinstance(outcome, Failure) and outcome.kind == "infra":
        raise outcome.as_error(f"The kernel was not judged: {outcome.reason}.")
    return outcome


class _Referee:
    """Asks compiler processes for the checks of one foreign kernel."""

    def __init__(
        self,
        evaluator: WorkerEvaluator,
        question: KernelQuestion,
        described: Mapping[str, Any],
        *,
        state: str,
        progress: Callable[[str, int, int], None],
    ) -> None:
        self._evaluator, self._question, self._described = evaluator, question, described
        self._state, self._progress = state, progress
        self._folder = str(evaluator.folder / "trial")
        self._names = [each["name"] for each in described["parameters"]]
        self._is_out_of_time = False

    def checks(self, foreign: Candidate) -> Iterator[Check]:
        """Yield the checks in order; a kernel that cannot be built has no further ones."""
        self._progress("building the kernel", 0, 0)
        built = self._build(foreign)
        yield built
        if not built.ok:
            return
        for name, check in (
            ("output", self._plain("writes", "every value is written in every run")),
            ("usual inputs", self._plain("usual", f"as the present kernel, within its own rounding{self._narrow()}")),
            ("nasty inputs", self._plain("nasty", "zeros, NaN, infinities and magnitudes as the present kernel")),
            ("memory", self._memory),
            ("state", self._plain("state", "no answer, and no time, depends on earlier calls or on addresses")),
            ("threads", self._threads),
        ):
            self._progress(f"checking: {name}", 0, 0)
            problem, right = check()
            yield Check(name, not problem, problem or right)
            if self._is_out_of_time:
                return
        self._progress("checking the network", 0, 0)
        whole = _sound(self._evaluator.build_candidate(foreign))
        problem = f"{whole.kind}: {whole.reason}" if isinstance(whole, Failure) else ""
        yield Check("network", not problem, problem or "its outputs are those of its source")

    def _build(self, foreign: Candidate) -> Check:
        state = _sound(self._evaluator.reach(foreign.pipeline))
        if isinstance(state, Failure):
            return Check("signature", False, state.reason)
        request = {"folder": self._folder, "kernel": self._described["name"]}
        present = _require(self._evaluator.ask_referee({"action": "build present", **request}, state=self._state))
        if not present["wide"]:
            _log.info("the present kernel cannot be built with 64 bits: %s", present["reason"])
        built = _sound(self._evaluator.ask_referee({"action": "build foreign", **request}, state=state))
        if isinstance(built, Failure):
            return Check("build", False, built.reason)
        return Check("signature", True, "the parameters are those of the present kernel")

    def _ask(self, action: str, **request: Any) -> list[str] | Failure:
        answer = _sound(self._evaluator.ask_referee({"action": action, "folder": self._folder, **request}))
        if not isinstance(answer, Failure):
            return list(answer["problems"])
        self._is_out_of_time |= answer.kind == "timeout"
        return answer

    def _narrow(self) -> str:
        """Return in words which inputs had few values."""
        own = [KernelParameter.from_json(each) for each in self._described["parameters"]]
        names = [f"`{each.name}`" for each in own if not each.is_output and each.has_narrow_values]
        return f"; {', '.join(names)} may be indices, so they were 0, 1 or the network's own" if names else ""

    def _plain(self, action: str, right: str) -> Callable[[], tuple[str, str]]:
        return lambda: (_problem(self._ask(action)), right)

    def _memory(self) -> tuple[str, str]:
        for side in SIDES:
            answer = self._ask("memory", side=side)
            if isinstance(answer, Failure) and answer.kind == "crash":
                return self._touched(side, answer), ""
            if problem := _problem(answer):
                return problem, ""
        return "", "nothing outside its buffers is read or written, and no input is written"

    def _touched(self, side: str, crash: Failure) -> str:
        """Return in words which buffer a kernel leaves, by guarding one after the other."""
        for place, name in enumerate(self._names if not self._is_out_of_time else ()):
            guarded: dict[str, Any] = {"side": side, "places": [place], "writable": True}
            if isinstance(self._ask("memory", **guarded), Failure):
                writes = isinstance(self._ask("memory", **guarded, may_read=True), Failure)
                where = "behind the end" if side == "behind" else "before the begin"
                return f"it {'writes' if writes else 'reads'} {where} of `{name}` ({crash.reason})"
        if not isinstance(self._ask("memory", side=side, writable=True), Failure):
            return f"it writes to an input ({crash.reason})"
        return f"it leaves its buffers ({crash.reason})"

    def _threads(self) -> tuple[str, str]:
        first = ""
        for number in THREADS:
            answer = self._ask("threads", threads=number)
            if isinstance(answer, Failure):
                return f"with {number} threads: {_problem(answer)}", ""
            if len(answer) > 1:
                return f"with {number} threads its outputs change from run to run", ""
            first = first or answer[0]
            if answer[0] != first:
                return f"{number} threads give other outputs than {THREADS[0]}", ""
        return "", f"all bits are the same with {', '.join(map(str, THREADS))} threads"


def _problem(answer: list[str] | Failure) -> str:
    """Return problems in words, those that differ in numbers or inputs only as one; empty if there are none."""
    if isinstance(answer, Failure):
        return f"{answer.kind}: {answer.reason}"
    groups: dict[str, list[str]] = {}
    for text in answer:
        kind = text.partition(": ")[2] or text
        groups.setdefault(_NUMBERS.sub("", kind), []).append(text)
    words = [own[0] + (f", and {len(own) - 1} more" if len(own) > 1 else "") for own in groups.values()]
    return "; ".join(words)


def _timed(evaluator: WorkerEvaluator, present: Built, foreign: Candidate, kernel: str) -> tuple[TrialTimes, str]:
    """Return the times of both kernels in their place, and the verdict."""
    built = [present, _files(evaluator, foreign)]
    side = Side(evaluator, [foreign])
    samples = time_contenders(
        [side],
        [Contender(side, foreign, built[1], 1)],
        reference=built[0],
        options=ComparisonOptions(reads_consumption=False),
    )
    places = evaluator.places_by_process(built, processes=len(samples.processes))
    if isinstance(places, Failure):
        raise places.as_error(f"The kernels were not timed in their place: {places.kind}: {places.reason}.")
    seconds = [(one.get(kernel, 0.0), other.get(kernel, 0.0)) for one, other in places]
    if not all(one and other for one, other in seconds):
        raise UserError(f"The network does not call `{kernel}` on the inputs that are timed.")
    ratio, network = process_ratio([([one], [other]) for one, other in seconds]), samples.ratio(1)
    times = TrialTimes(
        processes=len(seconds),
        present_s=min(one for one, _ in seconds),
        foreign_s=min(other for _, other in seconds),
        kernel=stated(ratio),
        network=stated(network),
    )
    return times, _verdict(ratio, samples)


def _files(evaluator: WorkerEvaluator, candidate: Candidate) -> Built:
    built = evaluator.build_candidate(candidate)
    return _require(built if isinstance(built, Failure) else evaluator.restore(built))  # type: ignore[no-any-return]


def _verdict(kernel: Ratio, samples: ComparisonSamples) -> str:
    """Return whether the kernel is certainly faster in its place and its network not slower, or the reverse."""
    if samples.is_faster(BASELINE, reference=1) or kernel.interval.high < 1 / (1 + MIN_GAIN):
        return SLOWER
    return FASTER if kernel.interval.low > 1 + MIN_GAIN or samples.is_faster(1) else EQUAL
