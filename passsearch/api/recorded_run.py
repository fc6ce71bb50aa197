"""The network of a finished run, opened again for evaluation as the run has evaluated it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from passsearch.api.common import catalog_paths, worker_limits
from passsearch.catalog import check_factories
from passsearch.core import ACCURACY, SHARE, WEIGHTS, Case, ErrorBudget, Limits, Pipeline, read_ranges
from passsearch.errors import UserError
from passsearch.evaluate import (
    MeasurementPlans,
    RecordedReference,
    Session,
    check_saved_network,
    open_session,
)
from passsearch.frontends import ModelFile, digest_files
from passsearch.store import EXPECTED, LABELS_FILE, NETWORK, RESULT, SAMPLES_FILE, read_deployment
from passsearch.toolchain import get_toolchain


def recorded_session(
    document: Mapping[str, Any],
    folder: Path,
    *,
    toolchain: str | None,
    limits: Limits,
    catalogs: Sequence[str | Path],
    trust: bool,
    plans: MeasurementPlans | None,
) -> Session:
    """Return a session with the network, the target, the passes and the limits of a finished run.

    Args:
        document: The run's result.
        folder: The run folder.
        toolchain: Name of the toolchain; the run's own if ``None``.
        limits: Time and memory that one worker may use.
        catalogs: YAML files with the user's own passes.
        trust: True to run passes that only the run folder names, and what its network calls.
        plans: Plans by which artifacts are timed.

    Raises:
        UserError: The run has no finished winner, or it names passes that are in no catalog.
        EnvironmentFault: Its toolchain is not installed.
    """
    workers = worker_limits(limits)  # before anything of the run is read
    recorded = read_deployment(document, folder)
    _require_dialect(document["toolchain"], toolchain, folder)
    check_saved_network(folder / NETWORK, document, trust=trust)
    session = open_session(
        replace(_saved_network(document, folder), **_saved_inputs(recorded, folder)),
        toolchain=toolchain or document["toolchain"]["name"],
        target=document["target"],
        catalogs=catalog_paths(catalogs),
        tolerance=recorded["tolerance"],
        limits=workers,
        plans=plans,
    )
    paths: list[str] = recorded.get("paths", [])
    factories = check_factories(
        Pipeline.parse(document["best"]["pipeline"]),
        recorded["factories"],
        session.catalog,
        file=folder / RESULT,
        trust=trust,
        paths=paths,
    )
    # The run's own factories and limit instead of the catalog's: the catalog may have changed since, and what is
    # rebuilt must be what the run built.
    reference = document.get("reference")
    compared = None if reference is None else RecordedReference(reference, folder / EXPECTED)
    # Edge inputs are judged as the run judged them.
    budget = _recorded_budget(document.get("precision"), recorded["tolerance"], folder)
    session = replace(session, recorded=compared, budget=budget)
    return replace(session, own_factories=factories, paths=(*session.paths, *(paths if trust else ())))


def _recorded_budget(decision: Mapping[str, Any] | None, bound: float, folder: Path) -> ErrorBudget | None:
    """Return the budget by which a run has judged weights in fewer bits; ``None`` where it has none."""
    if not decision or "budget" not in decision:
        return None
    unit, labels = decision.get("unit", SHARE), (folder / LABELS_FILE).resolve()
    if unit == ACCURACY and not labels.is_file():
        raise UserError(f"`{labels}` is gone, by which the run was checked; tune again with --labels.")
    precision = decision.get("precision", WEIGHTS)
    return ErrorBudget(decision["budget"], unit, bound, labels if unit == ACCURACY else None, precision)


def _require_dialect(recorded: Mapping[str, Any], toolchain: str | None, folder: Path) -> None:
    """Refuse a toolchain that cannot read the run's IR."""
    if toolchain is None:
        return
    selected = get_toolchain(toolchain)
    if selected.dialect != recorded["dialect"]:
        raise UserError(
            f"The run `{folder}` is of dialect {recorded['dialect']} (toolchain `{recorded['name']}`), and toolchain "
            f"`{selected.name}` is of {selected.dialect}; leave --toolchain out, or give one of the run's dialect."
        )


def _saved_inputs(recorded: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Return the ranges of the inputs' values and the samples that a run recorded; earlier versions had none."""
    samples = (folder / SAMPLES_FILE).resolve() if recorded.get("samples") else None
    if samples is not None and not samples.is_file():
        raise UserError(f"`{samples}` is gone, on which the run was checked; tune again with --samples.")
    return {"ranges": read_ranges(recorded.get("ranges", {})), "samples": samples}


def _saved_network(document: Mapping[str, Any], folder: Path) -> ModelFile:
    """Return the network that a run saved, under the name the user gave it."""
    model, network = document["model"], (folder / NETWORK).resolve()
    # The saved module has an entry function for each case.
    cases = tuple(replace(case, function=case.entry) for case in map(Case.from_json, model.get("cases", ())))
    return ModelFile(network, "ir", model["name"], model["source"], digest_files([network]), cases=cases)
