"""How artifacts are asked for their samples: processes, orders of loading, and the meter that watches meanwhile."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import Any

from passsearch.evaluate.pool import Workers
from passsearch.measure import Cf22Plan, Meter, RoundPlan, WindowPlan, consumption, recording, undisturbed
from passsearch.store import Fact

LONGEST_RUN_S = 2.0
"""What a run of the paper's protocol, which has over a thousand of each artifact, may take on the average."""


class Timing:
    """Times artifacts on one device; a failure is an answer like any other."""

    def __init__(self, workers: Workers, *, meter: Meter | None, device: str, inputs: Mapping[str, Any]) -> None:
        self._workers, self._meter = workers, meter
        self._where = {"device": device, "inputs": inputs}

    def in_one(self, folders: Sequence[str], plan: RoundPlan) -> Fact:
        """Samples from a fork of the process that times candidates."""
        request = self._request("measure", folders, plan=plan)
        return self._watched(lambda: self._workers.ask(self._workers.timer, "measure", request=request))

    def in_several(
        self,
        folders: Sequence[str],
        plan: RoundPlan | Cf22Plan,
        *,
        processes: int,
        most: int,
        least_s: float,
        turn: int = 0,
    ) -> Fact:
        """Samples from so many new processes, by process; they take turns in the order they load the artifacts in.

        As many again follow, ``most`` in all, as often as they fit into ``least_s`` by what the first took.
        """
        answers = self._in_turn(folders, plan, range(turn, turn + processes))
        if "failure" not in answers[-1]:
            times = min(most // processes, int(least_s / sum(each["wall_s"] for each in answers)))
            answers += self._in_turn(folders, plan, range(turn + processes, turn + processes * times))
        if "failure" in answers[-1]:
            return answers[-1]
        return {
            "processes": [each["samples"] for each in answers],
            "conditions": [each["conditions"] for each in answers],
            "wall_s": sum(each["wall_s"] for each in answers),
        }

    def _in_turn(self, folders: Sequence[str], plan: RoundPlan | Cf22Plan, turns: range) -> list[Fact]:
        """What each process answers, up to the first that fails."""
        answers: list[Fact] = []
        for turn in turns:
            answers.append(self._rotated(list(folders), plan, turn=turn))
            if "failure" in answers[-1]:
                break
        return answers

    def consumption(self, folders: Sequence[str], plan: WindowPlan) -> Fact:
        """What artifacts consume, ``consumed`` as ``measure.consumption`` has it, from one new process."""
        assert self._meter is not None
        expected_s = 2 * len(folders) * plan.windows * (plan.window_s + plan.settle_s)
        with self._workers.turn, recording(self._meter) as trace:
            answer = self._workers.ask_new("measure", self._request("consume", folders, plan=plan), more_s=expected_s)
        if "failure" in answer:
            return answer
        return {"consumed": consumption(answer["windows"], trace), "wall_s": answer["wall_s"]}

    def _rotated(self, folders: list[str], plan: RoundPlan | Cf22Plan, *, turn: int) -> Fact:
        shift = turn % len(folders)
        request = self._request("measure", _rotated(folders, shift), plan=replace(plan, seed=plan.seed + 100 * turn))
        long_s = LONGEST_RUN_S * plan.runs * len(folders) if isinstance(plan, Cf22Plan) else 0.0
        ask = partial(self._workers.ask_new, "measure", request, more_s=long_s)
        answer = ask() if isinstance(plan, Cf22Plan) else self._watched(ask)  # its runs in a row are one span
        if "failure" in answer:
            return answer
        conditions = {**answer["conditions"]}
        if conditions["stack_spread"]:
            conditions["stack_spread"] = _rotated(conditions["stack_spread"], -shift)
        return {**answer, "samples": _rotated(answer["samples"], -shift), "conditions": conditions}

    def _watched(self, measure: Callable[[], Fact]) -> Fact:
        """A measurement without the rounds in which the device was disturbed, where its meter tells."""
        if self._meter is None or not self._meter.watches:
            return measure()
        with self._workers.turn, recording(self._meter) as trace:
            answer = measure()
        return answer if "failure" in answer else undisturbed(answer, trace)

    def _request(self, verb: str, folders: Sequence[str], *, plan: RoundPlan | Cf22Plan | WindowPlan) -> dict[str, Any]:
        return {"verb": verb, "folders": list(folders), "plan": asdict(plan), **self._where}


def _rotated(items: list[Any], shift: int) -> list[Any]:
    return items[shift:] + items[:shift]
