"""Times engines side by side: several times new processes of all, which take turns in rounds."""

import logging
import random
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, nullcontext
from pathlib import Path

import numpy as np
from filelock import FileLock

from passsearch.core import UNLIMITED, CheckInputs, TensorType, TimeLimit
from passsearch.dialects.case_inputs import SAMPLE, case_inputs
from passsearch.engines.client import EngineFailure, EngineSpec
from passsearch.engines.contract import Array
from passsearch.engines.disturbance import Disturbance
from passsearch.engines.engine_measurement import EngineMeasurement
from passsearch.engines.records import Comparison, EnginePlan, EngineRecord
from passsearch.measure import Meter
from passsearch.worker import ScratchFolder

LEAST_ROUNDS = 2
"""Rounds of a process that no ``EnginePlan.race_s`` ends."""

_log = logging.getLogger(__name__)


class EngineTiming:
    """Engines on one network, with everything that their turns measure."""

    def __init__(
        self,
        specs: Sequence[EngineSpec],
        *,
        references: Sequence[EngineSpec],
        types: Mapping[str, TensorType],
        plan: EnginePlan,
        folder: Path,
        meter: Meter | None = None,
        samples: Path | None = None,
        device_lock: Path | None = None,
        inputs: CheckInputs | None = None,
        time_limit: TimeLimit = UNLIMITED,
    ) -> None:
        """Prepare the first turn.

        Args:
            specs: The engines.
            references: Engines whose outputs are right; the first that takes the network is the reference.
            types: The network's inputs.
            plan: The plan.
            folder: Folder for ``engines.log``, what the engines print.
            meter: Reads the energy that the device uses.
            samples: NumPy file with samples and labels, which every engine classifies in the first turn.
            device_lock: File that is locked during the rounds, by whoever times kernels on the device. Engines start
                without it, because that takes minutes where they compile.
            inputs: Inputs of the turns; random ones of the types by default.
            time_limit: An engine that has not answered by its end fails.
        """
        folder.mkdir(parents=True, exist_ok=True)
        self._references, self._plan, self._log = list(references), plan, folder / "engines.log"
        self._inputs = inputs or CheckInputs(types)
        self._records, self._rng = tuple(map(EngineRecord, specs)), random.Random(plan.seed)  # noqa: S311 -- an order, no secret
        self._disturbances: list[tuple[Disturbance, ...]] = []
        self._meter, self._samples, self._device_lock = meter, samples, device_lock
        self._time_limit = time_limit
        if meter is not None:
            meter.begin()

    def run_process(self) -> None:
        """Start one process of every engine, run all rounds and end the processes.

        Raises:
            EngineFailure: The last of the references fails.
        """
        plan, process = self._plan, len(self._disturbances)
        _log.info("process %d of %d", process + 1, plan.processes)
        with ExitStack() as stack:
            home = stack.enter_context(ScratchFolder())
            inputs = self._process_inputs(process)
            np.savez(home / "inputs.npz", **inputs)  # type: ignore[arg-type]
            expected, change = self._expected_outputs(home, inputs)
            measurements = []
            for record in self._rng.sample(self._records, len(self._records)):
                if not record.failure and not (record.is_slow(plan) and process >= plan.slow_processes):
                    measurement = stack.enter_context(self._start(record, home, meter=self._meter))
                    measurement.begin(expected, change=change)
                    if self._samples is not None and process == 0:
                        measurement.classify(self._samples)
                    measurements.append(measurement)
            with nullcontext() if self._device_lock is None else FileLock(self._device_lock):
                self._disturbances.append(_run_rounds(measurements, plan, rng=self._rng))
            if plan.kernel_runs and process == 0:
                for measurement in measurements:
                    measurement.list_kernels()

    def _start(self, record: EngineRecord, home: Path, *, meter: Meter | None = None) -> EngineMeasurement:
        limit = self._time_limit
        return EngineMeasurement(record, home, log=self._log, plan=self._plan, meter=meter, time_limit=limit)

    def _process_inputs(self, process: int) -> dict[str, Array]:
        """Return the inputs of one process: the user's samples one after the other, or random ones."""
        count = self._inputs.sample_count
        return case_inputs(self._inputs, f"{SAMPLE}{process % count}" if count else process)

    def _expected_outputs(self, home: Path, inputs: Mapping[str, Array]) -> tuple[list[Array], float]:
        try:
            return self._reference_outputs(home, inputs)
        except EngineFailure as error:
            if len(self._references) == 1:
                raise
            _log.info("another reference, because of %s", error)
        self._references.pop(0)
        return self._expected_outputs(home, inputs)

    def _reference_outputs(self, home: Path, inputs: Mapping[str, Array]) -> tuple[list[Array], float]:
        """Return the reference's outputs, and by how much they change when the inputs move by one rounding."""
        record = EngineRecord(self.reference)
        with self._start(record, home) as measurement:
            measurement.begin(None)
            if record.failure:
                raise EngineFailure(f"{self.reference.name}: {record.failure}", is_accident=record.is_accident)
            outputs = measurement.read_outputs()
            return outputs, measurement.change(inputs)

    @property
    def reference(self) -> EngineSpec:
        """The engine whose outputs are right; it is not timed."""
        return self._references[0]

    @property
    def comparison(self) -> Comparison:
        """The measurements of all turns so far."""
        return Comparison(self._records, tuple(self._disturbances))


def compare(
    specs: Sequence[EngineSpec],
    *,
    reference: EngineSpec,
    types: Mapping[str, TensorType],
    plan: EnginePlan,
    folder: Path,
    device_lock: Path | None = None,
) -> Comparison:
    """Time engines against each other, with one reference; the arguments are those of ``EngineTiming``.

    Raises:
        EngineFailure: The reference fails.
    """
    timing = EngineTiming(specs, references=[reference], types=types, plan=plan, folder=folder, device_lock=device_lock)
    for _ in range(plan.processes):
        timing.run_process()
    return timing.comparison


def _run_rounds(
    measurements: Sequence[EngineMeasurement], plan: EnginePlan, *, rng: random.Random
) -> tuple[Disturbance, ...]:
    """Run the rounds of one process, keep those that count, and return their disturbances."""
    found: list[Disturbance] = []
    begin_s = time.monotonic()
    while sum(each.excess == 0.0 for each in found) < plan.rounds and len(found) < 2 * plan.rounds:
        if plan.race_s is not None and len(found) >= LEAST_ROUNDS and time.monotonic() - begin_s > plan.race_s:
            break
        turns = []
        for measurement in rng.sample(measurements, len(measurements)):
            # A slow engine has a turn in the first round only.
            if not measurement.record.failure and not (found and measurement.is_slow):
                turns += measurement.take_turn(len(found))
        # Only slow engines, or failed ones: later rounds would have no turn, and nothing that disturbs them.
        if found and not turns:
            break
        found.append(Disturbance.over(turns))
    places = sorted(sorted(range(len(found)), key=lambda place: found[place].excess)[: plan.rounds])
    for measurement in measurements:
        measurement.keep(places)
    return tuple(found[place] for place in places)
