"""Samples of artifacts: which processes take them, in which order artifacts are loaded, and which meter is read."""

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, replace
from statistics import median
from time import monotonic
from typing import Any, TypeAlias

from passsearch.evaluate.pool import WorkerPool
from passsearch.evaluate.records import Network
from passsearch.evaluate.session import Session
from passsearch.evaluate.timed_records import TimingRequest
from passsearch.evaluate.verification import Verification
from passsearch.measure import (
    Cf22Plan,
    PlacePlan,
    RoundPlan,
    WindowPlan,
    consumption,
    drop_disturbed_rounds,
    recording,
)
from passsearch.store import Fact

# The deadline of one request is far too short for the paper's protocol, which runs each artifact 1100 times.
LONGEST_RUN_S = 2.0
"""Longest time that one run under the paper's protocol may take on average."""

Plan: TypeAlias = RoundPlan | Cf22Plan | WindowPlan | PlacePlan

_log = logging.getLogger(__name__)


class Timing:
    """Times artifacts on one device; a failure is an answer like any other."""

    def __init__(
        self, session: Session, *, network: Network, pool: WorkerPool, verification: Verification | None = None
    ) -> None:
        """Time nothing yet; ``verification`` judges what artifacts compute once they were timed."""
        self._session, self._network, self._pool, self._verification = session, network, pool, verification

    def in_one(self, folders: Sequence[str], plan: RoundPlan, *, deadline_s: float = math.inf) -> Fact:
        """Return samples from a fork of the process that times candidates; ``deadline_s`` is its longest time."""
        request = self._request("measure", folders, plan=plan)
        return self._measure_undisturbed(
            lambda: self._judged(
                request, self._pool.ask(self._pool.timer, "measure", request=request, deadline_s=deadline_s)
            )
        )

    def in_several(self, request: TimingRequest) -> Fact:
        """Return samples from several new processes, by process. The order of loading changes from one to the next."""
        plans, turn = self._session.plans, request.turn
        answers = self._run_processes(request, range(turn, turn + (request.processes or 1)))
        if request.processes is None and "failure" not in answers[-1]:
            processes = plans.number_of_processes(
                request.least_s, answers[0]["wall_s"], left_s=request.left_s, most=request.most
            )
            _log.debug("a process took %.1f s, so there are %d", answers[0]["wall_s"], processes)
            answers += self._run_processes(request, range(turn + 1, turn + processes))
        if "failure" in answers[-1]:
            return answers[-1]
        parts = [answer["parts"] for answer in answers if "parts" in answer]
        return {
            **({"parts": parts} if parts else {}),
            "processes": [answer["samples"] for answer in answers],
            "conditions": [answer["conditions"] for answer in answers],
            "wall_s": sum(answer["wall_s"] for answer in answers),
        }

    def _run_processes(self, request: TimingRequest, turns: range) -> list[Fact]:
        """Return the answer of each process, up to the first failure."""
        answers: list[Fact] = []
        for turn in turns:
            _log.info("timing %d artifacts in process %d", len(request.artifacts.folders), turn + 1)
            answers.append(self._in_new_process(request.artifacts.folders, request.plan, turn=turn))
            if "failure" in answers[-1]:
                break
        return answers

    def consumption(self, folders: Sequence[str], plan: WindowPlan) -> Fact:
        """Return the consumption of artifacts from one new process."""
        meter = self._session.sensors.meter
        assert meter is not None
        # Twice, because settling takes up to half as long again and the last run of a window ends after it.
        expected_s = 2 * len(folders) * plan.windows * (plan.window_s + plan.settle_s)
        # The lock first: otherwise the recording would have another search's kernels in it.
        with self._pool.device_turn, recording(meter) as trace:
            request = self._request("consume", folders, plan=plan)
            answer = self._judged(request, self._pool.ask_new("measure", request, extra_s=expected_s))
        if "failure" in answer:
            return answer
        consumed = [artifact.to_json() for artifact in consumption(answer["windows"], trace)]
        return {"consumed": consumed, "wall_s": answer["wall_s"]}

    def kernel_consumption(self, folder: str, plan: WindowPlan, *, kernels: int, is_metered: bool) -> Fact:
        """Return by kernel of an artifact, each run alone, calls, seconds and energy of all calls of an inference.

        Args:
            folder: Folder of the artifact.
            plan: The plan.
            kernels: Number of kernels, from which follows how long this may take.
            is_metered: True to read the energy; it is ``None`` otherwise.
        """
        meter = self._session.sensors.meter if is_metered else None
        request = self._request("consume_kernels", [folder], plan=plan)
        expected_s = 2 * kernels * plan.windows * (plan.window_s + plan.settle_s)
        with self._pool.device_turn, nullcontext() if meter is None else recording(meter) as trace:
            answer = self._pool.ask_new("measure", request, extra_s=expected_s)
        if "failure" in answer:
            return answer
        rows = {}
        for place, (name, calls) in enumerate(answer["calls"].items()):
            own = [window for window in answer["windows"] if window["artifact"] == place]
            seconds = median((window["span"][1] - window["span"][0]) / window["inferences"] for window in own)
            energy_j = (
                None if trace is None else consumption([{**each, "artifact": 0} for each in own], trace)[0].energy_j
            )
            rows[name] = {"calls": calls, "seconds": seconds, "energy_j": median(energy_j) if energy_j else None}
        return {"kernels": rows}

    def in_places(self, folders: Sequence[str], plan: PlacePlan, *, deadline_s: float = math.inf) -> Fact:
        """Return by artifact the time of every kernel, the fastest of several new processes, and each whole time.

        Args:
            folders: The artifacts.
            plan: The plan.
            deadline_s: Seconds within which a further process has to end, if it takes as long as the longest one so
                far; the first one always begins.
        """
        if plan.processes * plan.attempts * plan.longest_s > deadline_s:
            plan = replace(plan, attempts=1)
        answers = self._in_processes("places", folders, plan, of="places", deadline_s=deadline_s)
        if "failure" in answers[-1]:
            return answers[-1]
        by_artifact = [*zip(*(answer["places"] for answer in answers), strict=True)]
        return {
            "kernels": [_fastest([each and each["kernels"] for each in places]) for places in by_artifact],
            "whole_s": [[each and each["whole_s"] for each in places] for places in by_artifact],
        }

    def each_in_places(self, folders: Sequence[str], plan: PlacePlan) -> list[Fact]:
        """Return the answer of each new process that times kernels in their places, up to the first failure."""
        return self._in_processes("places", folders, plan, of="places")

    def profile(self, folders: Sequence[str], plan: PlacePlan) -> Fact:
        """Return the time of every call of every artifact, and of its whole inference, by process."""
        answers = self._in_processes("profile", folders, plan, of="profiles")
        if "failure" in answers[-1]:
            return answers[-1]
        return {"processes": [answer["profiles"] for answer in answers]}

    def _in_processes(
        self, verb: str, folders: Sequence[str], plan: PlacePlan, *, of: str, deadline_s: float = math.inf
    ) -> list[Fact]:
        """Return the answer of each new process, up to the first failure; its list ``of`` is by artifact."""
        answers: list[Fact] = []
        begun_s, longest_s = monotonic(), 0.0
        for turn in range(plan.processes):
            begin_s = monotonic()
            if answers and begin_s - begun_s + longest_s > deadline_s:
                break
            # As in `_in_new_process`, the order of loading decides where an artifact lies.
            shift = turn % len(folders)
            request = self._request(verb, _rotate([*folders], shift), plan=plan)
            answer = self._judged(request, self._pool.ask_new("measure", request))
            if "failure" in answer:
                return [answer]
            answers.append({**answer, of: _rotate(answer[of], -shift)})
            longest_s = max(longest_s, monotonic() - begin_s)
        return answers

    def _in_new_process(self, folders: list[str], plan: RoundPlan | Cf22Plan, *, turn: int) -> Fact:
        # The place in memory that an artifact is loaded to depends on the order, and decides how fast it runs
        # (Mytkowicz et al., Producing wrong data without doing anything obviously wrong, ASPLOS 2009).
        shift = turn % len(folders)
        answer: Fact
        if isinstance(plan, Cf22Plan):
            # The paper's runs in a row are one span, so no part of them can be left out as disturbed.
            request = self._request("measure", _rotate(folders, shift), plan=plan)
            extra_s = LONGEST_RUN_S * plan.runs * len(folders)
            answer = self._judged(request, self._pool.ask_new("measure", request, extra_s=extra_s))
        else:
            # Steps of 100, because the seeds of a confirmation's repetitions are neighbours.
            seeded = replace(plan, seed=plan.seed + 100 * turn)
            request = self._request("measure", _rotate(folders, shift), plan=seeded)
            answer = self._measure_undisturbed(lambda: self._judged(request, self._pool.ask_new("measure", request)))
        if "failure" in answer:
            return answer
        # Everything that is listed by artifact goes back to the order of the request.
        conditions = {**answer["conditions"]}
        if conditions["stack_spread"]:
            conditions["stack_spread"] = _rotate(conditions["stack_spread"], -shift)
        rows = {name: _rotate(answer[name], -shift) for name in ("samples", "parts") if name in answer}
        return {**answer, **rows, "conditions": conditions}

    def _measure_undisturbed(self, measure: Callable[[], Fact]) -> Fact:
        """Measure, and leave out the rounds in which the device was disturbed, where its meter reports that."""
        meter = self._session.sensors.meter
        if meter is None or not meter.reports_disturbances:
            return measure()
        with self._pool.device_turn, recording(meter) as trace:
            answer = measure()
        return answer if "failure" in answer else drop_disturbed_rounds(answer, trace)

    def _judged(self, request: Mapping[str, Any], answer: Fact) -> Fact:
        """Return an answer, or the failure of an artifact that computes something else after it was timed."""
        if "failure" in answer or self._verification is None:
            return answer
        for folder, after in zip(request["folders"], answer.get("after", ()), strict=False):
            failure = self._verification.judge_after(folder, after)
            if failure is not None:
                return {"failure": failure.to_json()}
        return {name: value for name, value in answer.items() if name != "after"}

    def _request(self, verb: str, folders: Sequence[str], *, plan: Plan) -> dict[str, Any]:
        where = {"device": self._session.device, **self._network.request()}
        where |= self._verification.timing_request() if self._verification else {}
        return {"verb": verb, "folders": list(folders), "plan": asdict(plan), **where}


def _fastest(times: Sequence[Mapping[str, float] | None]) -> dict[str, float] | None:
    """Return the fastest time by name; ``None`` if a process could not tell kernels apart."""
    tables = [table for table in times if table is not None]
    if len(tables) < len(times):
        return None
    return {name: min(table[name] for table in tables) for name in tables[0]}


def _rotate(items: list[Any], shift: int) -> list[Any]:
    return items[shift:] + items[:shift]
