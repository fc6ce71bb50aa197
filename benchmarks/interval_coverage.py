"""Whether the interval of a winner's ratio holds, and whether a bootstrap's would.

``python benchmarks/interval_coverage.py`` draws samples of confirmations whose truth is known, by compile, process and
round. The project's rule is ``passsearch.search.confirm`` itself; against it stand bootstraps that draw the rounds'
log-ratios again at all three levels, of the median of the compiles' medians of their processes' medians. An interval
moves with the ratio, so one truth, a ratio of 1, will do for all. ``benchmarks/results/interval_coverage.json`` has
what came out, ``--table`` prints the Markdown of ``docs/measurement.md``.
"""

import argparse
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy import stats

from passsearch.core import BuildOptions, Candidate, Interval
from passsearch.evaluate import FINAL_PLAN, PROCESSES
from passsearch.measure import LEVEL, Ratio, is_improvement
from passsearch.search import confirm

RESULTS = Path(__file__).parent / "results" / "interval_coverage.json"
COMPILES, SEED = 3, 20
RESAMPLES = 1000
GAIN = 0.03
"""The true gain whose share of claims is counted beside that of none."""

Logs: TypeAlias = NDArray[np.float64]
"""Log-times or log-ratios by compile, process and round; or by some of these."""


@dataclass(frozen=True)
class Noise:
    """What makes samples of two equal artifacts differ, as shares of the undisturbed time.

    Attributes:
        compile: Standard deviation between the candidate's compiles; zero where all of them make one binary.
        process: Standard deviation between processes, of either.
        sample: Mean of what a sample, the fastest run of a visit, loses to its place on the stack.
        bursts: Share of samples that other work slows.
        burst: How much slower these are.
    """

    compile: float
    process: float
    sample: float
    bursts: float
    burst: float = 0.27

    def draw(self, rng: Generator) -> Logs:
        """Log-times of one confirmation, of baseline and candidate."""
        shape = (2, COMPILES, PROCESSES, FINAL_PLAN.rounds)
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
    """Answers a confirmation with drawn samples. Stands in for ``search.Evaluator``."""

    def __init__(self, logs: Logs, *, one_binary: bool) -> None:
        self._left = list(zip(*np.exp(logs), strict=True))
        self._one_binary = one_binary

    def fresh(self, key: str, _: Candidate, *, timed: str, kinds: Sequence[str]) -> dict[str, Any]:
        """A compile that makes the same binary again, or another one every time."""
        digest = key.rpartition("-")[2] if self._one_binary else f"{key} {timed}"
        return {"folder": f"/nowhere/{key}", "digest": digest, "apply_s": 1.0, "seconds": 20.0, "wall_s": 0.0}

    def time_fresh(self, *_: object, **__: object) -> dict[str, Any]:
        """The next compile's processes; the twin is the baseline."""
        processes = [[baseline, baseline, candidate] for baseline, candidate in zip(*self._left.pop(0), strict=True)]
        return {"processes": processes, "conditions": [{}] * len(processes), "wall_s": 0.0}

    def consumption(self, *_: object, **__: object) -> None:
        """There is no meter."""


def rule(logs: Logs, *, one_binary: bool) -> Interval:
    """The project's."""
    evaluator: Any = DrawnEvaluator(logs, one_binary=one_binary)
    told: dict[str, Any] = {"repetitions": COMPILES, "objective": "throughput", "progress": lambda _: None}
    baseline = Candidate(build=BuildOptions(opt_level=3))
    confirmed: Any = confirm(evaluator, Candidate(), baseline=baseline, twin=Path(), **told)
    interval = confirmed.throughput.interval
    return Interval(math.log(interval.low), math.log(interval.high))


def resampled(logs: Logs, rng: Generator) -> Logs:
    """The compiles' medians in ``RESAMPLES`` samples: compiles, processes of each and rounds of each drawn again."""
    compiles, processes, rounds = logs.shape
    chosen = rng.integers(compiles, size=(RESAMPLES, compiles, 1, 1))
    within = rng.integers(processes, size=(RESAMPLES, compiles, processes, 1))
    rows = logs[chosen, within, rng.integers(rounds, size=(RESAMPLES, compiles, processes, rounds))]
    return _middle(_middle(rows))


def percentile(logs: Logs, rng: Generator) -> Interval:
    """What the middle of the resampled statistics encloses."""
    return _between(_middle(resampled(logs, rng)), low=(1 - LEVEL) / 2, high=(1 + LEVEL) / 2)


def of_processes(logs: Logs, rng: Generator) -> Interval:
    """The same, where the processes are the highest level."""
    return percentile(logs.reshape(-1, 1, logs.shape[-1]), rng)


def accelerated(logs: Logs, rng: Generator) -> Interval:
    """BCa; the acceleration from leaving out one compile at a time.

    Source: Efron and Tibshirani, An Introduction to the Bootstrap, 1993, 14.3.
    """
    statistics, compiles = _middle(resampled(logs, rng)), _middle(_middle(logs))
    estimate = float(_middle(compiles))
    below = float(np.mean(statistics < estimate) + np.mean(statistics == estimate) / 2)
    shift = float(stats.norm.ppf(min(max(below, 1 / RESAMPLES), 1 - 1 / RESAMPLES)))
    left_out = np.array([float(_middle(np.delete(compiles, place))) for place in range(len(compiles))])
    away = left_out.mean() - left_out
    bend = float((away**3).sum() / (6 * max((away**2).sum(), 1e-300) ** 1.5))
    ends = [shift + float(stats.norm.ppf(share)) for share in ((1 - LEVEL) / 2, (1 + LEVEL) / 2)]
    low, high = (float(stats.norm.cdf(shift + end / (1 - bend * end))) for end in ends)
    return _between(statistics, low=low, high=high)


def studentised(logs: Logs, rng: Generator) -> Interval:
    """Bootstrap-t; the standard error is that of the compiles' medians.

    Source: Efron and Tibshirani, An Introduction to the Bootstrap, 1993, 12.5.
    """
    drawn, compiles = resampled(logs, rng), _middle(_middle(logs))
    estimate, error = float(_middle(compiles)), float(stats.sem(compiles))
    errors = np.maximum(drawn.std(axis=-1, ddof=1) / math.sqrt(len(compiles)), 1e-12)
    low, high = np.quantile((_middle(drawn) - estimate) / errors, ((1 - LEVEL) / 2, (1 + LEVEL) / 2))
    return Interval(estimate - float(high) * error, estimate - float(low) * error)


BOOTSTRAPS: Mapping[str, Callable[[Logs, Generator], Interval]] = {
    "bootstrap": percentile,
    "bootstrap, BCa": accelerated,
    "bootstrap-t": studentised,
    "bootstrap without compiles": of_processes,
}
RULE = "this project's rule"


def _middle(values: Logs) -> Logs:
    """The median over the last axis; ``numpy.median`` takes four times as long on short rows."""
    ranked, half = np.sort(values, axis=-1), values.shape[-1] // 2
    return ranked[..., half] if values.shape[-1] % 2 else (ranked[..., half - 1] + ranked[..., half]) / 2


def _between(statistics: Logs, *, low: float, high: float) -> Interval:
    return Interval(*map(float, np.quantile(statistics, (low, high))))


def intervals(
    noise: Noise, repetitions: int, *, seed: int = SEED, bootstraps: bool = True
) -> dict[str, list[Interval]]:
    """The log-ratio's intervals of so many confirmations, by method."""
    rng = np.random.default_rng(seed)
    chosen = BOOTSTRAPS if bootstraps else {}
    found: dict[str, list[Interval]] = {name: [] for name in (RULE, *chosen)}
    for _ in range(repetitions):
        drawn = noise.draw(rng)
        found[RULE].append(rule(drawn, one_binary=noise.compile == 0.0))
        logs = drawn[0] - drawn[1]
        for name, bootstrap in chosen.items():
            found[name].append(bootstrap(logs, rng))
    return found


def covered(found: Sequence[Interval]) -> int:
    """How many hold the truth."""
    return sum(each.low <= 0.0 <= each.high for each in found)


def claimed(found: Sequence[Interval], gain: float) -> int:
    """How many would be called an improvement if the candidate were faster by so much; the noise floor left out."""
    shifted = [Interval(*(math.exp(end) * (1 + gain) for end in (each.low, each.high))) for each in found]
    return sum(is_improvement(Ratio(1 + gain, each), floor=0.0) for each in shifted)


def summary(found: Sequence[Interval]) -> dict[str, Any]:
    """Counts and widths; a width is one of log-ratios."""
    widths = [each.high - each.low for each in found]
    return {
        "covered": covered(found),
        "width_mean": round(float(np.mean(widths)), 6),
        "width_median": round(float(np.median(widths)), 6),
        "claimed_without_gain": claimed(found, 0.0),
        "claimed_with_gain": claimed(found, GAIN),
    }


def table(document: Mapping[str, Any]) -> str:
    """The Markdown of ``docs/measurement.md``."""
    claims = f"claims at no gain, at {document['gain']:.0%}"
    return "\n".join(
        [*_rows(document, "holds the truth, mean width", cell=_held), "", *_rows(document, claims, cell=_won)]
    )


def _rows(document: Mapping[str, Any], title: str, *, cell: Callable[[Mapping[str, Any], int], str]) -> list[str]:
    methods = (RULE, *BOOTSTRAPS)
    lines = [f"| {title} | " + " | ".join(methods) + " |", "|---" * (1 + len(methods)) + "|"]
    for name, scenario in document["scenarios"].items():
        cells = [cell(scenario["methods"][method], document["repetitions"]) for method in methods]
        lines.append("| " + " | ".join([name, *cells]) + " |")
    return lines


def _held(method: Mapping[str, Any], repetitions: int) -> str:
    return f"{100 * method['covered'] / repetitions:.1f} %, {100 * method['width_mean']:.1f} %"


def _won(method: Mapping[str, Any], repetitions: int) -> str:
    without, found = (method[key] / repetitions for key in ("claimed_without_gain", "claimed_with_gain"))
    return f"{100 * without:.1f} %, {100 * found:.0f} %"


def main() -> None:
    """Simulate and write the JSON, or print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repetitions", type=int, default=4000)
    parser.add_argument("--table", action="store_true", help="print the Markdown from the committed JSON")
    arguments = parser.parse_args()
    if not arguments.table:
        shape = {"compiles": COMPILES, "processes": PROCESSES, "rounds": FINAL_PLAN.rounds}
        document: dict[str, Any] = {"repetitions": arguments.repetitions, "resamples": RESAMPLES, "seed": SEED}
        document |= {"level": LEVEL, "gain": GAIN, **shape, "scenarios": {}}
        for name, noise in SCENARIOS.items():
            methods = {method: summary(each) for method, each in intervals(noise, arguments.repetitions).items()}
            document["scenarios"][name] = {"noise": asdict(noise), "methods": methods}
        RESULTS.write_text(json.dumps(document, indent=1) + "\n")
    print(table(json.loads(RESULTS.read_text())))


if __name__ == "__main__":
    main()
