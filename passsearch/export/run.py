"""Export of a finished run. No compiler is needed: the run has recorded everything."""

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from passsearch.catalog import check_factories, load
from passsearch.core import NOTICE_LOG, BuildOptions, Pipeline, have_same_bits
from passsearch.dialects import dialect
from passsearch.errors import UserError
from passsearch.evaluate import check_saved_network, dialect_digest
from passsearch.export.deployment import write_deployment
from passsearch.export.record import Deployment
from passsearch.store import NETWORK, RESULT, read_ablation, read_deployment, read_settings

_notices = logging.getLogger(NOTICE_LOG)


def export_run(
    document: Mapping[str, Any],
    run: Path,
    *,
    to: Path,
    minimal: bool = False,
    catalogs: Sequence[Path] = (),
    trust: bool = False,
) -> Path:
    """Write the deployment folder of a run's winner.

    Args:
        document: The run's result.
        run: The run folder.
        to: The folder to write.
        minimal: True for the shortest form of the winner that the run's ablation has measured.
        catalogs: YAML files with the user's own passes.
        trust: True to use passes that only the run folder names, and a network that calls other code.

    Returns:
        The absolute path of the deployment folder.

    Raises:
        UserError: The run was interrupted before its winner was confirmed, its network file is missing, its result was
            edited, it names passes that are in no catalog, its network calls other code, or a minimal form is asked for
            and there is no ablation.
    """
    deployment, best = read_deployment(document, run), document["best"]
    if minimal:
        form = _minimal_form(run)
        deployment, best = {**deployment, **form["deployment"]}, {**best, "pipeline": form["pipeline"]}
    check_saved_network(run / NETWORK, document, trust=trust)
    toolchain = document["toolchain"]
    pipeline = Pipeline.parse(best["pipeline"])
    if len(deployment["states"]) != len(pipeline.passes) + 1:
        raise UserError(
            f"The result of `{run}` was edited: its deployment does not list one state after each pass; run "
            "`passsearch tune` again."
        )
    # The folder holds the passes' code, which runs where it is deployed, so it must be code that the user knows.
    catalog = load(toolchain["dialect"], *catalogs)
    paths: list[str] = deployment.get("paths", [])
    factories = check_factories(pipeline, deployment["factories"], catalog, file=run / RESULT, trust=trust, paths=paths)
    own_paths = tuple(str(path.resolve().parent) for path in catalogs)
    model = {key: document["model"][key] for key in ("name", "source", "sha256", "batch")}
    _tell_of_other_code(run, toolchain["dialect"])
    warning = _gain_warning(document)
    if warning:
        _notices.warning("%s", warning)
    return write_deployment(
        to,
        Deployment.of_record(
            deployment,
            dialect=dialect(toolchain["dialect"]),
            tvm_version=toolchain["tvm_version"],
            tvm_commit=toolchain.get("tvm_commit", ""),
            target=document["target"],
            pipeline=pipeline,
            factories=factories,
            build=BuildOptions.from_json(best["build"]),
            network=run / NETWORK,
            model=model,
            warning=warning,
            same_bits=_kept_bits(document, deployment),
            import_paths=(*own_paths, *(paths if trust else ())),
        ),
    )


def _minimal_form(run: Path) -> Mapping[str, Any]:
    """Return the pipeline and the deployment record of the shortest form that the run's ablation has measured."""
    ablation = read_ablation(run)
    form: Mapping[str, Any] | None = ablation and ablation["minimal"]
    if form is None:
        raise UserError(
            f"The run `{run}` has no ablation of its winner, which says what may be left out. Run: passsearch ablate "
            f"{run}"
        )
    return form


def _kept_bits(document: Mapping[str, Any], deployment: Mapping[str, Any]) -> str:
    """Return what has the bits that the run has kept; empty if any were allowed, or a minimal form has others."""
    kept = document.get("same_bits") or {}
    return kept["reference"] if have_same_bits(deployment.get("bits"), kept.get("bits")) else ""


def _gain_warning(document: Mapping[str, Any]) -> str:
    """Return that no fresh compiles have confirmed the gain, and why; empty if they have."""
    verdict = document.get("verdict") or {}
    if verdict.get("confirmed"):
        return ""
    reason = str(verdict.get("reason") or "no fresh compiles were measured").rstrip(".")
    return f"The gain of these passes is not confirmed: {reason}."


def _tell_of_other_code(run: Path, dialect_name: str) -> None:
    """Warn the user if this version lowers and builds by other code than the version that made the run."""
    made_by = read_settings(run).get("dialect_code")
    if made_by not in (None, dialect_digest(dialect_name)):
        _notices.warning(
            "the run %s was made by another version of passsearch; the script has the code of this one. It checks the "
            "IR after each pass and the outputs, and what it builds may run at another speed",
            run,
        )
