"""Measures the coverage of the interval of a winner's ratio: ``python benchmarks/interval_coverage.py``.

Draws samples of confirmations whose true ratio is known, by compile, process and round. The project's rule is
``passsearch.search.confirm`` itself. It is compared with bootstraps that resample the rounds' log-ratios at all three
levels; their statistic is the median of the compiles' medians of their processes' medians. The interval moves with the
ratio, so a single true ratio, 1, suffices. ``benchmarks/results/interval_coverage.json`` has the result, ``--table``
prints the Markdown of ``docs/measurement.md``.
"""

import argparse
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy import stats

from passsearch.core import BuildOptions, Candidate, Failure, Interval
from passsearch.evaluate import FreshCompile, MeasurementPlans, ProcessSamples, TimedSamples
from passsearch.measure import LEVEL, Ratio, is_improvement
from passsearch.search import confirm

RESULTS = Path(__file__).parent / "results" / "interval_coverage.json"
PLANS = MeasurementPlans()
COMPILES, PROCESSES, ROUNDS = 3, PLANS.processes, PLANS.final_rounds.rounds
"""Number of compiles, of processes per compile, and of rounds per process."""
SEED = 20
RESAMPLES = 1000
GAIN = 0.03
"""A true gain: the share of confirmations that claim an improvement is counted for it and for no gain."""

Logs: TypeAlias = NDArray[np.float64]
"""Log-times or log-ratios by compile, process and round; or by some of these."""


@dataclass(frozen=True)
class Noise:
    """Disturbances by which samples of two equal artifacts differ, as shares of the undisturbed time.

    Attributes:
        compile: Standard deviation between the candidate's compiles; zero if all of them make one binary.
        process: Standard deviation between processes, for baseline and candidate alike.
        sample: Mean slowdown of a sample, the fastest run of a visit, by its place on the stack.
        bursts: Share of samples that other work slows.
        burst: Slowdown of these samples.
    """

    compile: float
    process: float
    sample: float
    bursts: float
    burst: float = 0.27

    def draw(self, rng: Generator) -> Logs:
        """Return the log-times of baseline and candidate in one confirmation."""
        shape = (2, COMPILES, PROCESSES, ROUNDS)
        logs: Logs = rng.exponential(self.sample, shape) + math.log1p(self.burst) * (rng.random(shape) < self.bursts)
        logs += rng.normal(0.0, self.process, (*shape[:3], 1))
        logs[1] += rng.normal(0.0, self.compile, (COMPILES, 1, 1))
        return logs


SCENARIOS = {
    "one binary": Noise(0.0, 0.003, 0.02, 0.1),
    "one binary, calm": Noise(0.0, 0.002, 0.005, 0.0),
    "compiles differ by 0.3 %, calm": Noise(0.003, 0.002, 0.005, 0.0),
    "compiles differ by 1 %": Noise(0.01, 0.003, 0.02, 0.1),
    "compiles differ by 3 %": Noise(0.03, 0.003, 0.02, 0.1),
    "compiles differ by 3 %, calm": Noise(0.03, 0.002, 0.005, 0.0),
}


class DrawnEvaluator:
    """Answers the requests of one confirmation with random samples; stands in for ``evaluate.Evaluator``."""

    plans = PLANS

    def __init__(self, logs: Logs, *, one_binary: bool) -> None:
        """Prepare the samples.

        Args:
            logs: Log-times of baseline and candidate.
            one_binary: True if every compile makes the same binary.
        """
        self._compiles: Iterator[tuple[Logs, Logs]] = zip(*np.exp(logs), strict=True)
        self._one_binary = one_binary

    def compile_fresh(self, key: str, _: Candidate, *, timing_key: str, kinds: Sequence[str]) -> FreshCompile:
        """Return a compile that makes the same binary again, or another one every time."""
        digest = key.rpartition("-")[2] if self._one_binary else f"{key} {timing_key}"
        return FreshCompile(Path("/nonexistent") / key, digest, apply_s=1.0, build_s=20.0, wall_s=0.0)

    def time_fresh(self, *_: object, **__: object) -> TimedSamples:
        """Return the processes of the next compile; the twin has the baseline's samples."""
        baselines, candidates = next(self._compiles)
        pairs = zip(map(tuple, baselines), map(tuple, candidates), strict=True)
        return TimedSamples(
            tuple(ProcessSamples(baseline, baseline, (row,), {}) for baseline, row in pairs), wall_s=0.0
        )

    def measure_consumption(self, *_: object, **__: object) -> None:
        """Return nothing, as for a device without a meter."""


def rule(logs: Logs, *, one_binary: bool) -> Interval:
    """Return the log-ratio's interval by the project's rule."""
    evaluator: Any = DrawnEvaluator(logs, one_binary=one_binary)
    confirmation = confirm(
        evaluator,
        Candidate(),
        baseline=Candidate(build=BuildOptions(opt_level=3)),
        twin=Path(),
        repetitions=COMPILES,
        objective="throughput",
        progress=lambda _: None,
    )
    assert not isinstance(confirmation, Failure)
    assert confirmation.throughput is not None
    interval = confirmation.throughput.interval
    return Interval(math.log(interval.low), math.log(interval.high))


def resample(logs: Logs, rng: Generator) -> Logs:
    """Return the compiles' medians in ``RESAMPLES`` resamples of compiles, their processes, and their rounds."""
    compiles, processes, rounds = logs.shape
    compile_index = rng.integers(compiles, size=(RESAMPLES, compiles, 1, 1))
    process_index = rng.integers(processes, size=(RESAMPLES, compiles, processes, 1))
    round_index = rng.integers(rounds, size=(RESAMPLES, compiles, processes, rounds))
    return _median(_median(logs[compile_index, process_index, round_index]))


def percentile(logs: Logs, rng: Generator) -> Interval:
    """Return the interval between two percentiles of the resampled statistic."""
    return _quantiles(_median(resample(logs, rng)), low=(1 - LEVEL) / 2, high=(1 + LEVEL) / 2)


def percentile_of_processes(logs: Logs, rng: Generator) -> Interval:
    """Return ``percentile`` with the processes as the highest level."""
    return percentile(logs.reshape(-1, 1, logs.shape[-1]), rng)


def accelerated(logs: Logs, rng: Generator) -> Interval:
    """Return the BCa interval, with the acceleration from the jackknife over compiles.

    Source: Efron and Tibshirani, An Introduction to the Bootstrap, 1993, 14.3.
    """
    statistics, compiles = _median(resample(logs, rng)), _median(_median(logs))
    estimate = float(_median(compiles))
    below = float(np.mean(statistics < estimate) + np.mean(statistics == estimate) / 2)
    bias = float(stats.norm.ppf(min(max(below, 1 / RESAMPLES), 1 - 1 / RESAMPLES)))
    jackknife = np.array([float(_median(np.delete(compiles, place))) for place in range(len(compiles))])
    deviations = jackknife.mean() - jackknife
    acceleration = float((deviations**3).sum() / (6 * max((deviations**2).sum(), 1e-300) ** 1.5))
    ends = [bias + float(stats.norm.ppf(share)) for share in ((1 - LEVEL) / 2, (1 + LEVEL) / 2)]
    low, high = (float(stats.norm.cdf(bias + end / (1 - acceleration * end))) for end in ends)
    return _quantiles(statistics, low=low, high=high)


def studentised(logs: Logs, rng: Generator) -> Interval:
    """Return the bootstrap-t interval, with the standard error of the compiles' medians.

    Source: Efron and Tibshirani, An Introduction to the Bootstrap, 1993, 12.5.
    """
    resamples, compiles = resample(logs, rng), _median(_median(logs))
    estimate, error = float(_median(compiles)), float(stats.sem(compiles))
    errors = np.maximum(resamples.std(axis=-1, ddof=1) / math.sqrt(len(compiles)), 1e-12)
    low, high = np.quantile((_median(resamples) - estimate) / errors, ((1 - LEVEL) / 2, (1 + LEVEL) / 2))
    return Interval(estimate - float(high) * error, estimate - float(low) * error)


BOOTSTRAPS: Mapping[str, Callable[[Logs, Generator], Interval]] = {
    "bootstrap": percentile,
    "bootstrap, BCa": accelerated,
    "bootstrap-t": studentised,
    "bootstrap without compiles": percentile_of_processes,
}
RULE = "this project's rule"


def _median(values: Logs) -> Logs:
    # ``numpy.median`` takes four times as long on short rows.
    ranked, half = np.sort(values, axis=-1), values.shape[-1] // 2
    return ranked[..., half] if values.shape[-1] % 2 else (ranked[..., half - 1] + ranked[..., half]) / 2


def _quantiles(statistics: Logs, *, low: float, high: float) -> Interval:
    return Interval(*map(float, np.quantile(statistics, (low, high))))


def draw_intervals(
    noise: Noise, repetitions: int, *, seed: int = SEED, bootstraps: bool = True
) -> dict[str, list[Interval]]:
    """Return the intervals of the log-ratio in several confirmations, by method.

    Args:
        noise: Disturbances of the samples.
        repetitions: Number of confirmations.
        seed: Seed of the samples and the resamples.
        bootstraps: False to leave out the bootstraps, which take most of the time.
    """
    rng = np.random.default_rng(seed)
    methods = BOOTSTRAPS if bootstraps else {}
    intervals: dict[str, list[Interval]] = {name: [] for name in (RULE, *methods)}
    for _ in range(repetitions):
        times = noise.draw(rng)
        intervals[RULE].append(rule(times, one_binary=noise.compile == 0.0))
        logs = times[0] - times[1]
        for name, bootstrap in methods.items():
            intervals[name].append(bootstrap(logs, rng))
    return intervals


def count_covered(intervals: Sequence[Interval]) -> int:
    """Return the number of intervals that contain the true log-ratio, 0."""
    return sum(interval.low <= 0.0 <= interval.high for interval in intervals)


def count_claims(intervals: Sequence[Interval], gain: float) -> int:
    """Return the number of claimed improvements if the candidate were faster by a gain; the noise floor is left out."""
    shifted = [Interval(math.exp(each.low) * (1 + gain), math.exp(each.high) * (1 + gain)) for each in intervals]
    return sum(is_improvement(Ratio(1 + gain, interval), floor=0.0) for interval in shifted)


def summary(intervals: Sequence[Interval]) -> dict[str, Any]:
    """Return counts and widths; a width is one of log-ratios."""
    widths = [interval.high - interval.low for interval in intervals]
    return {
        "covered": count_covered(intervals),
        "width_mean": round(float(np.mean(widths)), 6),
        "width_median": round(float(np.median(widths)), 6),
        "claimed_without_gain": count_claims(intervals, 0.0),
        "claimed_with_gain": count_claims(intervals, GAIN),
    }


def table(document: Mapping[str, Any]) -> str:
    """Return the Markdown of ``docs/measurement.md``."""
    claims = f"claims at no gain, at {document['gain']:.0%}"
    return "\n".join(
        [
            *_table(document, "holds the truth, mean width", cell=_coverage_cell),
            "",
            *_table(document, claims, cell=_claims_cell),
        ]
    )


def _table(document: Mapping[str, Any], title: str, *, cell: Callable[[Mapping[str, Any], int], str]) -> list[str]:
    methods = (RULE, *BOOTSTRAPS)
    lines = [f"| {title} | " + " | ".join(methods) + " |", "|---" * (1 + len(methods)) + "|"]
    for name, scenario in document["scenarios"].items():
        cells = [cell(scenario["methods"][method], document["repetitions"]) for method in methods]
        lines.append("| " + " | ".join([name, *cells]) + " |")
    return lines


def _coverage_cell(method: Mapping[str, Any], repetitions: int) -> str:
    return f"{100 * method['covered'] / repetitions:.1f} %, {100 * method['width_mean']:.1f} %"


def _claims_cell(method: Mapping[str, Any], repetitions: int) -> str:
    without, with_gain = (method[key] / repetitions for key in ("claimed_without_gain", "claimed_with_gain"))
    return f"{100 * without:.1f} %, {100 * with_gain:.0f} %"


def simulate(repetitions: int) -> dict[str, Any]:
    """Return coverage, widths and claims of every method in every scenario."""
    scenarios = {}
    for name, noise in SCENARIOS.items():
        methods = {method: summary(rows) for method, rows in draw_intervals(noise, repetitions).items()}
        scenarios[name] = {"noise": asdict(noise), "methods": methods}
    return {
        "repetitions": repetitions,
        "resamples": RESAMPLES,
        "seed": SEED,
        "level": LEVEL,
        "gain": GAIN,
        "compiles": COMPILES,
        "processes": PROCESSES,
        "rounds": ROUNDS,
        "scenarios": scenarios,
    }


def main() -> None:
    """Simulate and write the JSON, or print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repetitions", type=int, default=4000)
    parser.add_argument("--table", action="store_true", help="print the Markdown from the committed JSON")
    arguments = parser.parse_args()
    if not arguments.table:
        RESULTS.write_text(json.dumps(simulate(arguments.repetitions), indent=1) + "\n")
    print(table(json.loads(RESULTS.read_text())))


if __name__ == "__main__":
    main()
