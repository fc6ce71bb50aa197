"""Measures the rule that ends a confirmation: ``python benchmarks/interval_coverage.py``.

Draws confirmations of a known gain at several levels of noise, and runs ``passsearch.search.confirm`` itself on them.
Counts how many intervals hold the true ratio although the rule decides by them when to stop, how many confirmations
claim an improvement, and how many compiles and timing processes they took. The noise of processes and of compiles has
the shapes that were recorded (``process_noise.py``, and the compiles of the committed results).
``benchmarks/results/interval_coverage.json`` has the result, ``--table`` prints the Markdown of
``docs/evidence/measurement.md``.
"""

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import numpy as np
from numpy.random import Generator
from process_noise import twin_noise

from passsearch.core import BuildOptions, Candidate, Failure
from passsearch.evaluate import Built, FreshCompile, MeasurementPlans, ProcessSamples, TimedSamples, TimingRequest
from passsearch.search import Confirmation, Pairing, confirm

ROOT = Path(__file__).parent / "results"
RESULTS = ROOT / "interval_coverage.json"
BASELINE = Candidate(build=BuildOptions(opt_level=3))
TWIN = Built("", BASELINE.build, "", Path(), "", "", 0.0, 0, 0, 0)
COMPILES, PROCESSES = 3, 3
"""Fewest compiles of a confirmation, and processes that time each of them."""
SEED = 20
SPEED, COMPILE = "throughput", "compile_time"
GAINS = {SPEED: (0.0, 0.01, 0.02, 0.03, 0.05, 0.1, 99.0), COMPILE: (0.0, 0.02, 0.05, 0.1, 0.5, 2.0)}
"""True gains by objective; 99 is a hundredfold speed."""
NOISE = {SPEED: (0.003, 0.006, 0.012), COMPILE: (0.01, 0.03, 0.06)}
"""Standard deviations of one artifact's log-time from process to process, and of one compile's."""
OTHER_NOISE = {SPEED: 0.006, COMPILE: 0.03}
"""The same where the other objective is of interest: in throughput and compile time, candidate and baseline are equal
then. Such compiles must not keep a decision on throughput from being made."""


@dataclass(frozen=True)
class Drawn:
    """An evaluator whose compiles and processes differ by recorded noise; stands in for ``evaluate.Evaluator``.

    Attributes:
        rng: The generator.
        objective: The objective, which the gain and the noise belong to.
        gain: The true gain.
        noise: Standard deviation of the objective's log-time.
        shape: Values with a standard deviation of 1 to draw noise from.
    """

    rng: Generator
    objective: str
    gain: float
    noise: float
    shape: Sequence[float]
    plans = MeasurementPlans()

    def compile_fresh(self, key: str, candidate: Candidate, *, timing_key: str, kinds: Sequence[str]) -> FreshCompile:
        """Return a compile that makes the same binary again."""
        name = "baseline" if candidate == BASELINE else "best"
        seconds = 20.0 * self._draw(COMPILE, faster=name == "best")
        return FreshCompile(Path(key), name, apply_s=0.0, build_s=seconds, wall_s=0.0)

    def time_fresh(self, request: TimingRequest) -> TimedSamples:
        """Return processes with one sample of each artifact."""
        processes = [
            ProcessSamples((self._draw(SPEED),), (self._draw(SPEED),), ((self._draw(SPEED, faster=True),),), {})
            for _ in range(PROCESSES)
        ]
        return TimedSamples(tuple(processes), wall_s=0.0)

    def measure_consumption(self, *_: object, **__: object) -> None:
        """Return nothing, as for a device without a meter."""

    def _draw(self, kind: str, *, faster: bool = False) -> float:
        """Return a time of one artifact; in the other objective than the one of interest it has no gain."""
        if kind != self.objective:
            return float(np.exp(self.rng.normal(0.0, OTHER_NOISE[kind])))
        noise = self.noise * self.shape[self.rng.integers(len(self.shape))]
        return float(np.exp(noise)) / (1 + self.gain * faster)


def confirm_once(evaluator: Any) -> Confirmation:
    """Return one confirmation."""
    confirmation = confirm(
        evaluator,
        Pairing(BASELINE, Candidate(), TWIN, evaluator.objective),
        repetitions=COMPILES,
        progress=lambda _: None,
    )
    assert not isinstance(confirmation, Failure)
    return confirmation


def simulate(objective: str, *, gain: float, noise: float, shape: Sequence[float], repetitions: int) -> dict[str, Any]:
    """Return counts over several confirmations of one gain at one level of noise."""
    rng = np.random.default_rng(SEED)
    found = [confirm_once(Drawn(rng, objective, gain, noise, shape)) for _ in range(repetitions)]
    ratios = [confirmation.ratio(objective) for confirmation in found]
    floors = [confirmation.floor(objective) for confirmation in found]
    return {
        "objective": objective,
        "noise": noise,
        "gain": gain,
        "confirmations": repetitions,
        "covered": sum(ratio is not None and ratio.interval.low <= 1 + gain <= ratio.interval.high for ratio in ratios),
        "claimed": sum(each.improves(objective, keep_throughput=0.0) for each in found),
        "compiles_mean": round(fmean(each.repetitions for each in found), 2),
        "processes_mean": round(fmean(each.processes for each in found), 1),
        "floor_median": round(float(np.median(floors)), 5),
    }


def compile_noise() -> list[float]:
    """Return the deviations of the committed results' compiles from their mean, scaled to a standard deviation of 1."""
    values: list[float] = []
    for file in sorted(ROOT.glob("rel*/*.json")):
        document = json.loads(file.read_text())
        for name in ("baseline", "best") if "verdict" in document else ():
            logs = np.log(document[name].get("compile_samples_s", []))
            values += [float(value) for value in logs - logs.mean()] if len(logs) > 1 else []
    return [value / stdev(values) for value in values]


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the Markdown of ``docs/evidence/measurement.md``."""
    lines = []
    for objective, unit in ((SPEED, "processes"), (COMPILE, "compiles")):
        titles = [
            f"{objective.replace('_', ' ')}: noise of one of the {unit}",
            "true gain",
            "holds the truth",
            "claimed",
        ]
        titles += ["compiles, mean"] if objective == SPEED else []
        titles += [f"{unit}, mean", "noise floor, median"]
        lines += ["| " + " | ".join(titles) + " |", "|---" * len(titles) + "|"]
        for row in rows:
            if row["objective"] == objective:
                share = {key: 100 * row[key] / row["confirmations"] for key in ("covered", "claimed")}
                gain = "100 times" if row["gain"] == 99 else f"{row['gain']:.0%}"
                compiles = f"| {row['compiles_mean']} " if objective == SPEED else ""
                lines.append(
                    f"| {100 * row['noise']:.1f} % | {gain} | {share['covered']:.1f} % | {share['claimed']:.1f} % "
                    f"{compiles}| {row[f'{unit}_mean']} | {100 * row['floor_median']:.2f} % |"
                )
        lines.append("")
    return "\n".join(lines)


def main() -> None:
    """Simulate and write the JSON, or print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repetitions", type=int, default=500)
    parser.add_argument("--table", action="store_true", help="print the Markdown from the committed JSON")
    arguments = parser.parse_args()
    if not arguments.table:
        shapes = {SPEED: twin_noise(), COMPILE: compile_noise()}
        rows = [
            simulate(objective, gain=gain, noise=noise, shape=shapes[objective], repetitions=arguments.repetitions)
            for objective in GAINS
            for noise in NOISE[objective]
            for gain in GAINS[objective]
        ]
        document = {"seed": SEED, "fewest_compiles": COMPILES, "processes_per_compile": PROCESSES}
        document |= {"noise_of_the_other_objective": OTHER_NOISE, "most_compiles": MeasurementPlans().most_repetitions}
        document |= {"rows": rows}
        RESULTS.write_text(json.dumps(document, indent=1) + "\n")
    print(table(json.loads(RESULTS.read_text())["rows"]))


if __name__ == "__main__":
    main()
