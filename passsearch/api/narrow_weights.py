"""The arguments of ``tune`` on the precision of weights, checked before anything starts."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from passsearch.core import ACCURACY, FLOAT32, TF32, ErrorBudget, expand_home, read_budget
from passsearch.dialects.sample_labels import read_labels
from passsearch.errors import UserError
from passsearch.evaluate import Session
from passsearch.objectives import THROUGHPUT, Objective


def checked_budget(
    precision: str, budget: float | str | None, labels: str | Path | None, *, samples: str | Path | None
) -> ErrorBudget | None:
    """Return the budget of a decision on the precision of weights; ``None`` where there is no decision.

    Raises:
        UserError: There is a budget without something to decide by it, a decision without a budget, or labels without
            a budget of accuracy.
    """
    if precision in (FLOAT32, TF32) and budget is not None:
        raise UserError(
            f"A budget is the error that fewer bits may cause, so `precision` has to be `weights` or `mixed`; got "
            f"`{precision}`. Add: --precision weights"
        )
    if precision not in (FLOAT32, TF32) and budget is None:
        raise UserError(
            "Fewer bits need the error that they may cause, as a share of the largest output: --budget 0.01"
        )
    found = None if budget is None else replace(read_budget(budget), precision=precision)
    is_accuracy = found is not None and found.unit == ACCURACY
    if labels is None:
        if is_accuracy:
            raise UserError("A budget of accuracy needs the labels of the samples; add: --labels FILE.npy")
        return found
    if not is_accuracy or found is None:
        given = "none" if found is None else found.text
        raise UserError(
            f"Labels are for a budget of accuracy; got the budget `{given}`. "
            "For example: --precision weights --budget accuracy:0.005"
        )
    if samples is None:
        raise UserError(f"The labels in `{labels}` are of samples, and there are none; add: --samples FILE.npz")
    file = expand_home(labels).absolute()
    read_labels(file)  # refused before the network is converted
    return found.with_labels(file)


def refuse_narrow_weights(session: Session, objectives: Sequence[Objective] = (THROUGHPUT,)) -> None:
    """Refuse a decision on the precision of weights that cannot be made, before anything starts.

    Raises:
        UserError: With the reason.
    """
    reason = session.cannot_run_reason
    if not session.dialect.weight_rounding:
        reason = f"no pass of the dialect `{session.dialect.name}` narrows weights; take a toolchain of another"
    elif session.device_kind != "cpu":
        reason = f"weights are narrowed on CPUs only, and the target is `{session.target}`"
    elif session.model.cases:
        reason = "the errors of several cases are not weighed; take one function at one size"
    elif not any(objective.is_speed for objective in objectives):
        reason = "it is decided by speed, which is no objective here"
    if reason:
        raise UserError(f"The precision of weights cannot be decided: {reason}.")
