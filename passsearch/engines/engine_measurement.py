"""One process of one engine in a comparison: loads the network, takes turns with others, keeps what was measured."""

import logging
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from passsearch.core import UNLIMITED, TimeLimit, allowed_deviation, safe_file_name, usable_processors
from passsearch.dialects.comparison import largest_deviation, relative_deviation
from passsearch.dialects.reference import MOVEMENTS, neighbouring_inputs
from passsearch.engines.client import OPEN_DEADLINE_S, EngineFailure, EngineProcess
from passsearch.engines.contract import Array, KernelCall
from passsearch.engines.disturbance import Turn
from passsearch.engines.records import EnginePlan, EngineRecord
from passsearch.measure import CpuTimes, Meter

_log = logging.getLogger(__name__)


class EngineMeasurement:
    """One process of one engine. A failure goes to the engine's record, and the engine takes no further part."""

    def __init__(
        self,
        record: EngineRecord,
        home: Path,
        *,
        log: Path,
        plan: EnginePlan,
        meter: Meter | None = None,
        time_limit: TimeLimit = UNLIMITED,
    ) -> None:
        self.record, self._plan, self._home, self._meter = record, plan, home, meter
        self._log, self._time_limit = log, time_limit
        self.outputs = home / safe_file_name(record.spec.name)
        self._process = self._start()
        self._last: tuple[float, float] | None = None
        self._seconds: dict[int, list[float]] = {}
        self._rates: dict[int, dict[int, float]] = {count: {} for count in plan.requests}
        self._consumed: dict[int, tuple[float, float]] = {}
        self._is_over = False

    def _start(self) -> EngineProcess:
        threads = self._plan.threads
        return EngineProcess(self.record.spec, threads=threads, log=self._log, time_limit=self._time_limit)

    def __enter__(self) -> "EngineMeasurement":
        return self

    def __exit__(self, *_: object) -> None:
        self._process.close()

    @property
    def is_slow(self) -> bool:
        """True if every inference so far, here and in earlier processes, took longer than ``EnginePlan.slow_s``."""
        seconds = (value for values in self._seconds.values() for value in values)
        return self.record.is_slow(self._plan) and min(seconds, default=math.inf) > self._plan.slow_s

    def begin(self, expected: Sequence[Array] | None, *, change: float = 0.0) -> None:
        """Load the network, run it once and compare its outputs with the expected ones, if there are any.

        Args:
            expected: The reference's outputs.
            change: Change of these when the inputs move by one rounding.
        """
        record = self.record
        _log.info("loading %s", record.spec.name)
        self.outputs.mkdir(exist_ok=True)
        record.artifact_bytes = record.spec.artifact_bytes
        try:
            record.opened.append(self._process.open(self._home / "inputs.npz"))
            answer = self._process.ask("outputs", folder=str(self.outputs))
        except EngineFailure as error:
            record.fail(error)
            return
        record.first_s.append(answer["first_s"])
        if answer["memory_bytes"] is not None:
            record.memory_bytes.append(answer["memory_bytes"])
        if expected is not None:
            self._judge(expected, change=change)

    def change(self, inputs: Mapping[str, Array]) -> float:
        """Return by how much the outputs change when the inputs of ``begin`` move by one rounding; 0 if none moves.

        Raises:
            EngineFailure: The engine fails.
        """
        first, moved = self.read_outputs(), self._home / "moved.npz"
        changes = [0.0]
        for seed in range(MOVEMENTS):
            neighbours = neighbouring_inputs(inputs, seed=seed)
            if all(neighbours[name] is inputs[name] for name in inputs):
                break
            np.savez(moved, **neighbours)  # type: ignore[arg-type]
            self._process.ask("outputs", folder=str(self.outputs), inputs=str(moved))
            changes.append(largest_deviation(self.read_outputs(), first))
        # An infinite change, as that of an index, would admit everything.
        return max(filter(math.isfinite, changes))

    def classify(self, samples: Path) -> None:
        """Count the samples that the engine classifies right."""
        if self.record.failure:
            return
        try:
            answer = self._process.ask("classify", file=str(samples))
        except EngineFailure as error:
            self.record.accuracy = {"unavailable": str(error)}  # the engine's speed does not depend on it
            return
        self.record.accuracy = {"value": answer["correct"] / answer["count"], **answer}

    def list_kernels(self) -> None:
        """Ask the engine's profiler for the kernels of one inference; after the rounds, as it may slow the engine."""
        if self.record.failure or self._is_over:
            return
        try:
            answer = self._process.ask("kernels", deadline_s=OPEN_DEADLINE_S, runs=self._plan.kernel_runs)
        except EngineFailure as error:
            self.record.no_kernels = str(error)
            return
        self.record.no_kernels = answer.get("unavailable", "")
        self.record.kernels = [KernelCall(*call) for call in answer.get("kernels", ())]

    def read_outputs(self) -> list[Array]:
        """Return the outputs of the first inference."""
        return [np.load(self.outputs / f"{place}.npy") for place in range(len(list(self.outputs.glob("*.npy"))))]

    def _judge(self, expected: Sequence[Array], *, change: float) -> None:
        outputs = self.read_outputs()
        if len(outputs) != len(expected):
            self.record.failure = f"{len(outputs)} outputs instead of {len(expected)}"
            return
        pairs = zip(outputs, expected, strict=True)
        deviation = max(relative_deviation(_as_precise(output, right), right) for output, right in pairs)
        self.record.deviations.append(deviation)
        # The allowance of a search: where rounding moves the reference itself, it explains more.
        limit = allowed_deviation(max(self._plan.limit, self.record.spec.limit or self._plan.limit), change)
        if not deviation <= limit:
            self.record.failure = f"outputs deviate by {deviation:.2g} of the largest, {limit:.2g} is allowed"

    def take_turn(self, number: int) -> list[Turn]:
        """Time a few inferences in the round of this number, then several at a time; empty if the engine fails."""
        if self._is_over:
            return []
        plan, is_slow = self._plan, self.is_slow
        request = {"longest_s": plan.visit_s, "most": 1 if is_slow else plan.most, "warm_up": not is_slow}
        try:
            answer, turn = self._timed("infer", **request)
            self._seconds[number] = answer["seconds"]
            if turn.energy_j is not None:
                count, (begin_s, end_s) = len(answer["seconds"]) + (not is_slow), answer["clock_s"]
                self._consumed[number] = turn.energy_j / count, turn.energy_j / (end_s - begin_s)
            return [turn, *self._run_together(number)]
        except EngineFailure as error:
            self.record.fail(error)
            return []

    def _run_together(self, number: int) -> Iterator[Turn]:
        """Run inferences at the same time, as many as the plan says; a slow engine does not."""
        reasons = self.record.no_rates
        for count in self._plan.requests:
            if count in reasons or self.is_slow:
                continue
            try:
                answer, turn = self._timed("together", requests=count, longest_s=self._plan.visit_s)
            except EngineFailure as error:
                reasons[count] = str(error)  # single inferences have their result
                self._revive()
                continue
            if "unavailable" in answer:
                reasons[count] = answer["unavailable"]
                continue
            self._rates[count][number] = answer["per_s"]
            yield turn

    def _revive(self) -> None:
        """Load the network in another process if the last one has ended; its first times are not recorded.

        If that fails too, the engine takes no further part in this process's rounds.
        """
        if self._process.is_alive:
            return
        self._process.close()
        self._process, self._last = self._start(), None
        try:
            self._process.open(self._home / "inputs.npz")
            self._process.ask("outputs", folder=str(self.outputs))  # binds the inputs
        except EngineFailure as error:
            _log.info("%s does not load again: %s", self.record.spec.name, error)
            self.record.not_revived = str(error)
            self._is_over = True

    def _timed(self, verb: str, **request: Any) -> tuple[dict[str, Any], Turn]:
        """Return the answer to a request that runs inferences, and the times of the cores meanwhile."""
        time.sleep(self._plan.pause_s)
        usable = usable_processors()
        cores = usable if self.record.spec.own_threads else usable[: self._plan.threads]
        before, energy_before_j = CpuTimes.read(cores), self._energy_j()
        answer = self._process.ask(verb, **request)
        after, energy_after_j = CpuTimes.read(cores), self._energy_j()
        self._note_idle_share(answer)
        used_s = answer["cpu_s"][1] - answer["cpu_s"][0]
        foreign_s = max(0.0, after.busy - before.busy - used_s)
        is_read = energy_before_j is not None and energy_after_j is not None
        energy_j = energy_after_j - energy_before_j if is_read else None  # type: ignore[operator]
        return answer, Turn(after.total - before.total, foreign_s, after.stolen - before.stolen, energy_j)

    def _energy_j(self) -> float | None:
        return self._meter.read().energy_j if self._meter else None

    def _note_idle_share(self, answer: Mapping[str, Any]) -> None:
        """Record how much CPU time the process took since its last answer."""
        (begin_s, end_s), (used_s, used_at_end_s) = answer["clock_s"], answer["cpu_s"]
        if self._last is not None:
            share = (used_s - self._last[1]) / (begin_s - self._last[0])
            self.record.idle_share = max(self.record.idle_share, round(share, 3))
        self._last = end_s, used_at_end_s

    def keep(self, rounds: Sequence[int]) -> None:
        """Move the seconds of the rounds that count to the record; those of a slow engine all count."""
        counted = [number for number in rounds if number in self._seconds]
        # An engine that took no part in later rounds may have none that counts.
        kept = list(self._seconds) if self.is_slow or not counted else counted
        self.record.visits.append([self._seconds[number] for number in kept])
        for count, rates in self._rates.items():
            if rates:
                # An engine that was slow at first may have none in the rounds that count.
                own = [rates[number] for number in kept if number in rates] or list(rates.values())
                self.record.rates.setdefault(count, []).append(own)
        if consumed := [self._consumed[number] for number in kept if number in self._consumed]:
            self.record.energy_j.append([energy_j for energy_j, _ in consumed])
            self.record.power_w.append([power_w for _, power_w in consumed])


def _as_precise(output: Array, right: Array) -> Array:
    # A reference in float64 stands for the same network; outputs of another shape or kind are still refused.
    is_rounded = output.dtype == np.float32 and right.dtype == np.float64
    return output.astype(np.float64) if is_rounded else output
