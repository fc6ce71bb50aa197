"""Outputs of a network with rounded weights, compared with the reference without a build for every rounding."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from passsearch.core import MIXED, BuildOptions, Failure, Json, PassSpec
from passsearch.dialects.case_inputs import SAMPLE
from passsearch.dialects.contract import Array
from passsearch.dialects.rounding import RoundedLayer
from passsearch.dialects.sample_labels import read_labels, rows_of_sample
from passsearch.errors import UserError
from passsearch.evaluate.apply import Applier
from passsearch.evaluate.facts import FactStore, read_fact
from passsearch.evaluate.pool import WorkerPool
from passsearch.evaluate.session import Session
from passsearch.evaluate.verification import Verification
from passsearch.evaluate.verify import Allowance, VerifyFact, used_share
from passsearch.measure import class_cases, class_leads, labels_fault
from passsearch.standalone.deployment.input_values import EDGES
from passsearch.store import Fact

RoundedChoice: TypeAlias = Mapping[tuple[str, int], Mapping[str, Json]]
"""Arguments of the pass that narrows weights, by kernel and number of its call."""

FOLDER = "rounded"
"""Beginning of the name of the folder with the build whose weights are arguments."""


@dataclass(frozen=True)
class RoundedOutputs:
    """What a network computes with rounded weights.

    Attributes:
        compared: Comparison with the reference.
        notes: What the pass that narrows weights notes about them.
        narrowed: Number of arrays of weights that are rounded.
        activations: Number of products whose activations are rounded.
    """

    compared: VerifyFact
    notes: tuple[str, ...]
    narrowed: int
    activations: int


class RoundedWeights:
    """Compares the outputs of one state with rounded weights."""

    def __init__(
        self,
        session: Session,
        *,
        pool: WorkerPool,
        applier: Applier,
        facts: FactStore,
        verification: Verification,
        folder: Path,
    ) -> None:
        """Prepare; ``folder`` gets the build."""
        self._session, self._pool, self._applier, self._facts = session, pool, applier, facts
        self._verification, self._folder = verification, folder

    def layers(self, state: str, steps: Sequence[PassSpec]) -> tuple[RoundedLayer, ...] | Failure:
        """Return the calls of kernels that read weights.

        Args:
            state: A state whose kernels are not scheduled yet.
            steps: The passes that follow.
        """
        fact = self._ask(state, steps, choices=(), cases=())
        return read_fact(fact, lambda answer: tuple(RoundedLayer(**each) for each in answer["layers"]))

    def compare(
        self,
        state: str,
        steps: Sequence[PassSpec],
        *,
        choices: Sequence[RoundedChoice],
        cases: Sequence[int | str] | None = None,
    ) -> tuple[RoundedOutputs, ...] | Failure:
        """Return the outputs for each choice, on these cases or on all."""
        cases = self._verification.cases if cases is None else cases
        fact = self._ask(state, steps, choices=choices, cases=cases)
        return read_fact(fact, lambda answer: tuple(map(_outputs, answer["compared"])))

    def uncertain_rows(self, error: float) -> float | None:
        """Return the share of rows whose class such a deviation of outputs may change: none of others can.

        Args:
            error: Deviation, as a share of the largest output.

        Returns:
            The share; ``None`` where the first output has no classes.
        """
        leads = [class_leads(output) for output in self._first_outputs().values()]
        known = [each for each in leads if each is not None]
        if not known or len(known) < len(leads):
            return None
        # The first class may lose that deviation, and the second gain it.
        return float((np.concatenate(known) <= 2 * error).mean())

    def require_classes(self) -> None:
        """Refuse a budget of classes where the reference's outputs have none, or labels that are not theirs.

        Raises:
            UserError: With the reason.
        """
        check = self._verification.check
        outputs = self._first_outputs()
        without = next((each for each in outputs.values() if class_leads(each) is None), None)
        if without is not None:
            raise UserError(
                f"A budget of classes needs a first output of floats with a value for each class along its last axis; "
                f"it is {without.dtype}{list(without.shape)}. Give a share of the largest output: --budget 0.01"
            )
        labels = read_labels(Path(check.labels)) if check.labels else None
        for case, output in outputs.items():
            number = int(str(case).removeprefix(SAMPLE))
            own = None if labels is None else rows_of_sample(labels, number, check.sample_count)
            if own is not None and (fault := labels_fault(own, output)):
                raise UserError(f"The labels in `{check.labels}` are not of this network: {fault}.")

    def _first_outputs(self) -> dict[int | str, Array]:
        """Return the reference's first output on the inputs whose classes count."""
        cases = class_cases(self._verification.check, self._verification.cases)
        with np.load(self._verification.reference) as file:
            return {case: file[f"{case}_0"] for case in cases if f"{case}_0" in file.files}

    def bound_error(self, bound: float) -> None:
        """Judge weights in fewer bits by this deviation from now on; see ``Verification.bound_error``."""
        self._verification.bound_error(bound)

    def usual_cases(self, most: int) -> tuple[int | str, ...]:
        """Return some inputs of the kind that the network is for, samples of the user first."""
        return tuple(case for case in self._verification.cases if case not in EDGES)[:most]

    def _ask(
        self,
        state: str,
        steps: Sequence[PassSpec],
        *,
        choices: Sequence[RoundedChoice],
        cases: Sequence[int | str],
    ) -> Fact:
        verification, passes = self._verification, self._applier.compiler.passes_request(steps)
        budget = self._session.budget
        has_activations = budget is not None and budget.precision == MIXED
        named = _digest(state, passes, has_activations)
        request = {
            **verification.device_request("round", self._folder / f"{FOLDER}-{named}"),
            "state": state,
            "passes": passes,
            "options": BuildOptions().to_json(),
            "rounding": self._session.dialect.weight_rounding,
            "target": self._session.target,
            "has_activations": has_activations,
            "reference": str(verification.reference),
            "cases": list(cases),
            "choices": [
                [{"kernel": kernel, "call": call, "arguments": dict(own)} for (kernel, call), own in choice.items()]
                for choice in choices
            ],
        }
        key = f"{named}|{_digest(request['choices'], request['cases'])}{verification.reference_key}"
        return self._facts.recall_or_record("rounded", key, lambda: self._answer(request))

    def _answer(self, request: Mapping[str, Any]) -> Fact:
        answer = self._pool.ask(self._pool.timer, "measure", request=request)
        if "missing" in answer:
            self._applier.compiler.ask("apply", "share", state=request["state"])
            answer = self._pool.ask(self._pool.timer, "measure", request=request)
        if "missing" in answer:
            return {"failure": Failure("infra", "measure", "", f"state {request['state']} was lost").to_json()}
        return answer


def used_budget(compared: VerifyFact, budget: float) -> float:
    """Return the largest of the deviations that are judged, on the scale of the budget: what is above it is refused."""
    return used_share(compared, Allowance(budget, is_tolerated=True, may_drop=True, is_budget=True)) * budget


def _digest(*parts: object) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]


def _outputs(answer: Mapping[str, Any]) -> RoundedOutputs:
    return RoundedOutputs(
        VerifyFact.from_fact(answer), tuple(answer["notes"]), answer["narrowed"], answer["activations"]
    )
