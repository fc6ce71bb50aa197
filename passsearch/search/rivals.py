"""The winner of a search beside the other engines that the user has: who measures it, and what a run keeps of it."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from passsearch.core import Candidate, Failure, TimeLimit
from passsearch.errors import PassSearchError
from passsearch.evaluate import OVERTIME, Built, WorkerEvaluator
from passsearch.results import RivalComparison
from passsearch.search.records import Scored
from passsearch.store import Log

FACT = "rivals"
"""Kind of the fact in the log of a run."""

MOST_SHARE = 0.2
"""Largest share of a time limit that is kept for other engines."""

ONE_PROCESS = 1.5
"""Time of one process that may be late, as a multiple of its estimate."""

UNFINISHED = RivalComparison(reason="it did not finish; the same command continues")
"""What a result says while the comparison runs, in case it is killed."""


class Beside(Protocol):
    """Measures a network beside other engines; a run plans by it how long that takes."""

    @property
    def names(self) -> Sequence[str]:
        """Names of the engines."""

    @property
    def processes(self) -> int:
        """Number of processes of each engine, if the time suffices; 0 where there are no engines."""

    @property
    def export_s(self) -> float:
        """Seconds that files for the engines take, roughly, before the first process."""

    def process_s(self, latency_s: float) -> float:
        """Return about how long one process of each engine takes, for a network of this latency."""

    def compare(
        self, evaluator: WorkerEvaluator, candidate: Candidate, built: Built, *, time_limit: TimeLimit
    ) -> RivalComparison:
        """Time a network beside the engines.

        Args:
            evaluator: The network and its compiler.
            candidate: The pipeline that was compiled.
            built: The artifact, with its files.
            time_limit: No process begins for which it leaves no time.
        """


def planned_s(beside: Beside, latency_s: float, *, limit_s: float) -> float:
    """Return the seconds of a time limit that are kept for other engines: as many processes as a share of it allows."""
    process_s, export_s = beside.process_s(latency_s), beside.export_s
    processes = int(min(beside.processes, (MOST_SHARE * limit_s - export_s) / process_s))
    return export_s + processes * process_s if processes > 0 else 0.0


def compare_winner(
    beside: Beside, evaluator: WorkerEvaluator, winner: Scored, *, log: Log, time_limit: TimeLimit
) -> RivalComparison:
    """Return the winner beside other engines, as an earlier start of the run measured it, or measured now.

    What an earlier start had no time to complete is measured again if more processes fit now.

    Args:
        beside: Measures it.
        evaluator: The network and its compiler.
        winner: The winner.
        log: The log of the run.
        time_limit: The run's time limit.
    """
    if not beside.processes:
        return beside.compare(evaluator, winner.candidate, winner.built, time_limit=time_limit)
    key = f"{winner.built.digest}|{','.join(beside.names)}"
    fact = log.recall(FACT, key)
    earlier = None if fact is None else RivalComparison.from_json(fact)
    if earlier and earlier.processes >= beside.processes and not earlier.has_accident:
        return earlier
    left_s, process_s = time_limit.left_s(), beside.process_s(min(winner.latency_s, default=0.0))
    needed_s = beside.export_s + process_s
    if left_s < needed_s:
        left_s = min(ONE_PROCESS * needed_s, time_limit.left_s(overtime=OVERTIME))
    processes = 0 if earlier is None else min(earlier.processes + 1, beside.processes)
    lasted_s = 0.0 if earlier is None else earlier.seconds / max(1, earlier.processes)
    if earlier and left_s < max(beside.export_s + processes * process_s, processes * lasted_s):
        return earlier
    if left_s < needed_s:
        # Before the files are restored, which may be a compile.
        return beside.compare(evaluator, winner.candidate, winner.built, time_limit=TimeLimit(0.0))
    # A clock of its own, because that of a continued run stands still while it has read facts only.
    left = TimeLimit(left_s)
    compared = _compare(beside, evaluator, winner, time_limit=left)
    if earlier and _worth(earlier) >= _worth(compared):
        return earlier
    # What an accident left without any ratio is measured again, however little time there is.
    if compared.measured or (compared.processes and not compared.has_accident):
        log.record(FACT, key, fact=compared.to_json())
    return compared


def _worth(compared: RivalComparison) -> tuple[int, int]:
    return len(compared.measured), compared.processes


def _compare(beside: Beside, evaluator: WorkerEvaluator, winner: Scored, *, time_limit: TimeLimit) -> RivalComparison:
    """Return the comparison, or the error or interruption that ended it; the result is written all the same."""
    try:
        built = evaluator.restore(winner.built)
        if isinstance(built, Failure):
            return RivalComparison(reason=f"{built.kind} in {built.stage}: {built.reason}")
        return beside.compare(evaluator, winner.candidate, built, time_limit=time_limit)
    except KeyboardInterrupt:
        return RivalComparison(reason="it was interrupted; the same command continues")
    except (PassSearchError, OSError) as error:
        return RivalComparison(reason=str(error))


def with_rivals(seconds: Mapping[str, float], compared: RivalComparison, *, total_s: float) -> dict[str, float]:
    """Return the seconds of a run by stage, with those of the comparison with other engines."""
    rest = {name: value for name, value in seconds.items() if name not in ("search", "total")}
    rest |= {"rivals": compared.seconds} if compared.seconds else {}
    return {**rest, "search": round(total_s - sum(rest.values()), 3), "total": round(total_s, 3)}
