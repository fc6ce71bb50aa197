"""Confirm a winner on samples that had no part in choosing it: fresh compiles, fresh processes, every time."""

import math
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean, median
from typing import Any
from zlib import crc32

from passsearch.core import Candidate, Failure
from passsearch.errors import UserError
from passsearch.evaluate.evaluator import FINAL_PLAN, FINAL_WINDOWS, SEARCH_WINDOWS, Evaluator
from passsearch.measure import (
    CONSUMED,
    Ratio,
    consumed_log_ratio,
    has_consumption,
    improved,
    log_ratio,
    mean_ratio,
    noise_floor,
    process_ratio,
)


@dataclass(frozen=True)
class Confirmation:
    """What fresh compiles in fresh processes said.

    Attributes:
        throughput: Candidate's over the baseline's; like ``twin`` ``None`` where nothing runs.
        compile_time: How many times less time the candidate takes to compile.
        twin: The baseline against another compile of itself: what the machine calls equal.
        repetitions: Fresh compiles of either.
        processes: New processes that timed them.
        reproducible: Whether every compile of a candidate gave the same binary, byte for byte.
        same_binary: Whether candidate and baseline are one binary: then neither can be faster.
        compile_s: Candidate's compile times, one per repetition.
        baseline_compile_s: The baseline's.
        apply_s: The pipeline's part of ``compile_s``.
        latency_s: Candidate's samples, all repetitions in a row.
        baseline_latency_s: The baseline's.
        conditions: By process, as it noted them.
        seconds: Wall time of all compiles and all timing, starts of processes included.
        consumed: By repetition, what baseline, twin and candidate consumed; empty where the device has no meter.
    """

    throughput: Ratio | None
    compile_time: Ratio
    twin: Ratio | None
    repetitions: int
    processes: int
    reproducible: bool
    same_binary: bool
    compile_s: tuple[float, ...]
    baseline_compile_s: tuple[float, ...]
    apply_s: tuple[float, ...]
    latency_s: tuple[float, ...]
    baseline_latency_s: tuple[float, ...]
    conditions: list[dict[str, Any]]
    seconds: float
    consumed: Sequence[Sequence[Mapping[str, Any]]] = ()

    def ratio(self, objective: str) -> Ratio | None:
        """How many times better the candidate is; ``None`` for what is not measured again."""
        if objective in CONSUMED:
            return self._consumption(objective, 2)
        return {"compile_time": self.compile_time, "memory": None}.get(objective, self.throughput)

    def floor(self, objective: str) -> float:
        """Share by which the baseline may differ from itself in an objective; compile times have no twin.

        Infinite for what was not read.
        """
        if objective == "compile_time":
            return 0.0
        twin = self._consumption(objective, 1) if objective in CONSUMED else self.twin
        return noise_floor(twin) if twin else math.inf

    def _consumption(self, objective: str, place: int) -> Ratio | None:
        """One process of a repetition tells what artifacts consume, so a repetition is one value."""
        if not self.consumed or not all(has_consumption(each, objective) for turn in self.consumed for each in turn):
            return None
        return mean_ratio([consumed_log_ratio(turn[0], turn[place], objective=objective) for turn in self.consumed])

    def keeps(self, objective: str, least: float) -> bool:
        """Whether a gain in something else leaves this share of the throughput; one binary cannot lose any."""
        if objective in ("throughput", "latency") or self.same_binary:
            return True
        return least <= 0 if self.throughput is None else self.throughput.interval.low >= least

    def improves(self, objective: str, *, keep_throughput: float) -> bool:
        """The rule of every verdict. One binary is never better than itself, but may compile faster."""
        ratio = self.ratio(objective)
        if ratio is None or (self.same_binary and objective != "compile_time"):
            return False
        return self.keeps(objective, keep_throughput) and improved(ratio, floor=self.floor(objective))

    @property
    def summary(self) -> dict[str, Any]:
        """The conditions of all processes in one: the first's, with means of what was read in each."""
        if not self.conditions:
            return {}
        read = ("steal_percent", "foreign_percent", "rounds_dropped")
        means = {name: round(fmean(each[name] for each in self.conditions), 2) for name in read}
        return {**self.conditions[0], **means}

    @property
    def noise_floor(self) -> float:
        """Share by which the baseline may differ from itself; infinite where nothing runs."""
        return noise_floor(self.twin) if self.twin else math.inf


@dataclass(frozen=True)
class _Repetition:
    """One fresh compile of both, timed in several processes.

    Attributes:
        processes: By process, the samples of baseline, twin and candidate, each in its better load.
        compile_s: Of baseline and candidate.
        apply_s: The candidate's pipeline's part.
        digests: Of the two binaries.
        conditions: By process, as it noted them.
        seconds: All that it took.
        consumed: By baseline, twin and candidate; empty without a meter.
    """

    processes: list[list[Sequence[float]]]
    compile_s: tuple[float, float]
    apply_s: float
    digests: tuple[str, str]
    conditions: list[dict[str, Any]]
    seconds: float
    consumed: Sequence[Mapping[str, Any]]


def require_repetitions(repetitions: int) -> None:
    """Refuse a number of repetitions that has no interval.

    Raises:
        UserError: Fewer than 2.
    """
    if repetitions < 2:
        raise UserError(f"Confirming takes 2 repetitions or more (`tune` also takes 0 for none); got {repetitions}.")


def confirm(
    evaluator: Evaluator,
    candidate: Candidate,
    *,
    baseline: Candidate,
    twin: Path,
    repetitions: int,
    objective: str,
    progress: Callable[[str], None],
) -> Confirmation | Failure:
    """Compile baseline and candidate afresh, each in its own process, and time them in another; repeat.

    Args:
        evaluator: Of the run.
        candidate: The winner.
        baseline: What it is compared with.
        twin: Folder of an earlier build of the baseline, timed beside every fresh one.
        repetitions: At least 2, or there is no interval.
        objective: Of the run; power and energy are read in every repetition if it is one of them, else once.
        progress: Told what is under way.
    """
    results: list[_Repetition] = []
    for turn in range(repetitions):
        progress(f"confirming: fresh compile {turn + 1} of {repetitions}")
        outcome = _repeat(evaluator, candidate, baseline=baseline, twin=twin, turn=turn, objective=objective)
        if isinstance(outcome, Failure):
            return outcome
        results.append(outcome)
    return _summary(results)


def _repeat(
    evaluator: Evaluator, candidate: Candidate, *, baseline: Candidate, twin: Path, turn: int, objective: str
) -> _Repetition | Failure:
    weighed = objective in CONSUMED
    identity = f"{candidate.pipeline}|{candidate.build.to_json()}"
    slug = f"{crc32(identity.encode()):08x}"
    pair = [(f"fresh-{turn}-{slug}-baseline", baseline), (f"fresh-{turn}-{slug}-best", candidate)]
    kinds = ("timed", "consumed") if weighed else ("timed",)
    compiled = {}
    for key, each in pair if turn % 2 == 0 else reversed(pair):
        answer = evaluator.fresh(key, each, timed=f"{turn}-{slug}", kinds=kinds)
        if isinstance(answer, Failure):
            return answer
        compiled[key] = answer
    first, second = (compiled[key] for key, _ in pair)
    folders = [first["folder"], str(twin), second["folder"]]
    # The interval narrows with the number of processes, and where compiling is slow they cost little beside it.
    compiled_s = first["wall_s"] + second["wall_s"]
    plan = replace(FINAL_PLAN, seed=1000 + turn)
    timed = evaluator.time_fresh(f"{turn}-{slug}", folders, plan=plan, least_s=compiled_s)
    windows = replace(FINAL_WINDOWS if weighed else SEARCH_WINDOWS, seed=turn)
    consumed = evaluator.consumption(f"{turn}-{slug}", folders, plan=windows) if weighed or turn == 0 else None
    for folder in (first["folder"], second["folder"]):
        shutil.rmtree(folder, ignore_errors=True)
    if isinstance(timed, Failure):
        return timed
    if isinstance(consumed, Failure) and weighed:
        return consumed
    totals = (first["apply_s"] + first["seconds"], second["apply_s"] + second["seconds"])
    digests = (first["digest"], second["digest"])
    seconds, read = sum(each["wall_s"] for each in (first, second, timed)), ()
    if consumed and not isinstance(consumed, Failure):
        seconds, read = seconds + consumed["wall_s"], consumed["consumed"]
    return _Repetition(timed["processes"], totals, second["apply_s"], digests, timed["conditions"], seconds, read)


def _summary(results: list[_Repetition]) -> Confirmation:
    baseline_s = tuple(each.compile_s[0] for each in results)
    candidate_s = tuple(each.compile_s[1] for each in results)
    digests = {each.digests for each in results}
    reproducible = len(digests) == 1
    processes = [process for each in results for process in each.processes]
    return Confirmation(
        throughput=_ratio(results, 2, reproducible=reproducible),
        compile_time=mean_ratio([math.log(a / b) for a, b in zip(baseline_s, candidate_s, strict=True)]),
        twin=_ratio(results, 1, reproducible=reproducible),
        repetitions=len(results),
        processes=len(processes),
        reproducible=reproducible,
        same_binary=len({digest for pair in digests for digest in pair}) == 1,
        compile_s=candidate_s,
        baseline_compile_s=baseline_s,
        apply_s=tuple(each.apply_s for each in results),
        latency_s=tuple(value for process in processes for value in process[2]),
        baseline_latency_s=tuple(value for process in processes for value in process[0]),
        conditions=[each for result in results for each in result.conditions],
        seconds=sum(each.seconds for each in results),
        consumed=[each.consumed for each in results if each.consumed],
    )


def _ratio(results: list[_Repetition], place: int, *, reproducible: bool) -> Ratio | None:
    """Over all processes where every compile made the same binary; else over the compiles, where the variance lives.

    Source: Kalibera and Jones, Rigorous benchmarking in reasonable time, ISMM 2013: repeat at the highest level that
    varies. Compiles that give the same file, byte for byte, do not vary.
    """
    if not all(each.processes for each in results):
        return None
    if reproducible:
        return process_ratio([process for each in results for process in each.processes], place)
    medians = [[log_ratio(process[0], process[place]) for process in each.processes] for each in results]
    return mean_ratio([median(each) for each in medians])
