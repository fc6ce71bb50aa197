"""Confirm a winner on samples that had no part in choosing it: fresh compiles, fresh processes, every time."""

import math
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from zlib import crc32

from passsearch.core import Candidate, Failure
from passsearch.measure import Ratio, clustered_ratio, log_ratios, noise_floor
from passsearch.search.evaluation import SEARCH_PLAN, Evaluator


@dataclass(frozen=True)
class Confirmation:
    """What fresh compiles in fresh processes said.

    Attributes:
        throughput: Candidate's over the baseline's.
        compile_time: How many times less time the candidate takes to compile.
        twin: The baseline against another compile of itself: what the machine calls equal.
        repetitions: Independent repetitions behind each interval.
        compile_s: Candidate's compile times, one per repetition.
        baseline_compile_s: The baseline's.
        apply_s: The pipeline's part of ``compile_s``.
        latency_s: Candidate's samples, all repetitions in a row.
        baseline_latency_s: The baseline's.
    """

    throughput: Ratio
    compile_time: Ratio
    twin: Ratio
    repetitions: int
    compile_s: tuple[float, ...]
    baseline_compile_s: tuple[float, ...]
    apply_s: tuple[float, ...]
    latency_s: tuple[float, ...]
    baseline_latency_s: tuple[float, ...]

    @property
    def noise_floor(self) -> float:
        """Share by which the baseline may differ from itself."""
        return noise_floor(self.twin)


@dataclass(frozen=True)
class _Repetition:
    """One fresh compile of both, timed in several processes: samples by process, then artifact."""

    processes: tuple[tuple[tuple[float, ...], ...], ...]
    compile_s: tuple[float, float]
    apply_s: float

    def log_ratio(self, place: int) -> float:
        """Median over the processes of the median over the rounds."""
        return median(float(median(log_ratios(each[0], each[place]))) for each in self.processes)

    def samples(self, place: int) -> tuple[float, ...]:
        """All of one artifact's samples."""
        return tuple(value for each in self.processes for value in each[place])


def confirm(
    evaluator: Evaluator,
    candidate: Candidate,
    *,
    baseline: Candidate,
    twin: Path,
    repetitions: int,
    progress: Callable[[str], None],
) -> Confirmation | Failure:
    """Compile baseline and candidate afresh, each in its own process, and time them in another; repeat.

    Args:
        evaluator: Of the run.
        candidate: The winner.
        baseline: What it is compared with.
        twin: Folder of an earlier build of the baseline, timed beside every fresh one.
        repetitions: At least 2, or there is no interval.
        progress: Told what is under way.
    """
    results: list[_Repetition] = []
    for turn in range(repetitions):
        progress(f"confirming: fresh compile and process {turn + 1} of {repetitions}")
        outcome = _repeat(evaluator, candidate, baseline=baseline, twin=twin, turn=turn)
        if isinstance(outcome, Failure):
            return outcome
        results.append(outcome)
    return _summary(results)


def _repeat(
    evaluator: Evaluator, candidate: Candidate, *, baseline: Candidate, twin: Path, turn: int
) -> _Repetition | Failure:
    identity = f"{candidate.pipeline}|{candidate.build.to_json()}"
    slug = f"{crc32(identity.encode()):08x}"
    pair = [(f"fresh-{turn}-{slug}-baseline", baseline), (f"fresh-{turn}-{slug}-best", candidate)]
    compiled = {}
    for key, each in pair if turn % 2 == 0 else reversed(pair):
        answer = evaluator.fresh(key, each, timed=f"{turn}-{slug}")
        if isinstance(answer, Failure):
            return answer
        compiled[key] = answer
    first, second = (compiled[key] for key, _ in pair)
    folders = [first["folder"], str(twin), second["folder"]]
    timed = evaluator.time_fresh(f"{turn}-{slug}", folders, replace(SEARCH_PLAN, give_up=False, seed=1000 + turn))
    for folder in (first["folder"], second["folder"]):
        shutil.rmtree(folder, ignore_errors=True)
    if isinstance(timed, Failure):
        return timed
    totals = (first["apply_s"] + first["seconds"], second["apply_s"] + second["seconds"])
    processes = tuple(tuple(tuple(each) for each in process) for process in timed["processes"])
    return _Repetition(processes, totals, second["apply_s"])


def _summary(results: list[_Repetition]) -> Confirmation:
    baseline_s = tuple(each.compile_s[0] for each in results)
    candidate_s = tuple(each.compile_s[1] for each in results)
    return Confirmation(
        throughput=clustered_ratio([each.log_ratio(2) for each in results]),
        compile_time=clustered_ratio([math.log(a / b) for a, b in zip(baseline_s, candidate_s, strict=True)]),
        twin=clustered_ratio([each.log_ratio(1) for each in results]),
        repetitions=len(results),
        compile_s=candidate_s,
        baseline_compile_s=baseline_s,
        apply_s=tuple(each.apply_s for each in results),
        latency_s=tuple(value for each in results for value in each.samples(2)),
        baseline_latency_s=tuple(value for each in results for value in each.samples(0)),
    )
