"""The readings of an ablation: samples of its binaries and compile times of its pipelines."""

import logging
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import log
from zlib import crc32

from passsearch.core import Candidate, Failure, TimeLimit
from passsearch.evaluate import Evaluator
from passsearch.measure import Ratio, mean_ratio
from passsearch.studies.comparison_records import ComparisonSamples

_log = logging.getLogger(__name__)


@dataclass
class CompileRounds:
    """Compile times of candidates: each round compiles all of them, every one in a process of its own.

    Attributes:
        evaluator: Compiles.
        candidates: The candidates.
        most: Largest number of rounds.
        time_limit: The time limit.
        seconds: Seconds by candidate, in each round; a candidate that failed is missing.
    """

    evaluator: Evaluator
    candidates: Sequence[Candidate]
    most: int
    time_limit: TimeLimit
    seconds: list[dict[str, float]] = field(default_factory=list)

    def add(self) -> None:
        """Compile all candidates once more, up to ``most`` times; a round that the time cuts off does not count."""
        turn = len(self.seconds)
        if turn >= self.most:
            return
        # A machine that gets slower meanwhile favours what is compiled first, so the first changes every time.
        first = turn % len(self.candidates)
        seconds: dict[str, float] = {}
        for candidate in [*self.candidates[first:], *self.candidates[:first]]:
            # What was compiled is in the log, so the next start goes on with the rest of the round.
            if self.time_limit.is_over:
                return
            value = self._compile(candidate, turn)
            if value is not None:
                seconds[compile_key(candidate)] = value
        self.seconds.append(seconds)

    def _compile(self, candidate: Candidate, turn: int) -> float | None:
        key = f"ablation-{turn}-{crc32(compile_key(candidate).encode()):08x}"
        result = self.evaluator.compile_fresh(key, candidate, timing_key="", kinds=())
        if isinstance(result, Failure):
            _log.info("compiling %s again failed: %s", candidate.name, result.reason)
            return None
        shutil.rmtree(result.folder, ignore_errors=True)
        return result.compile_s

    def of(self, candidate: Candidate) -> list[float]:
        """Return the seconds that a candidate took, by round."""
        return [each[compile_key(candidate)] for each in self.seconds if compile_key(candidate) in each]

    def ratio(self, candidate: Candidate, reference: Candidate, *, level: float) -> Ratio | None:
        """Return how many times faster a candidate compiles than another one; ``None`` without a common round."""
        first, second = compile_key(reference), compile_key(candidate)
        rounds = [each for each in self.seconds if first in each and second in each]
        return mean_ratio([log(each[first] / each[second]) for each in rounds], level=level) if rounds else None


def compile_key(candidate: Candidate) -> str:
    """Return the name of a candidate among those that are compiled: its passes and build options."""
    return f"{candidate.pipeline}|{candidate.build.to_json()}"


@dataclass(frozen=True)
class Readings:
    """Everything that an ablation measured.

    Attributes:
        samples: Samples of the artifacts that were timed; ``None`` if nothing was.
        indices: Index of each built step among these, by name; steps with one binary share theirs.
        compiles: Compile times.
        is_complete: False if the time limit cut the measurement off.
        looks: Number of times that the samples may have been looked at to end the measurement; 1 for the end only.
    """

    samples: ComparisonSamples | None
    indices: Mapping[str, int]
    compiles: CompileRounds
    is_complete: bool
    looks: int = 1
