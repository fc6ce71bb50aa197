"""From a finished run to a deployment folder. Needs no compiler: everything was written down by the run."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from passsearch.core import BuildOptions, Pipeline
from passsearch.dialects import dialect
from passsearch.export.deployment import Deployment, write_deployment
from passsearch.store import NETWORK, read_deployment


def export_run(document: Mapping[str, Any], run: Path, *, to: Path) -> Path:
    """Write the deployment of a run's best candidate.

    Returns:
        The folder.

    Raises:
        UserError: The run was interrupted before its winner was confirmed, or its network file is gone.
    """
    recorded = read_deployment(document, run)
    toolchain, best = document["toolchain"], document["best"]
    model = {key: document["model"][key] for key in ("name", "source", "sha256", "batch")}
    return write_deployment(
        to,
        Deployment(
            dialect=dialect(toolchain["dialect"]),
            tvm_version=toolchain["tvm_version"],
            tvm_commit=toolchain.get("tvm_commit", ""),
            target=document["target"],
            pipeline=Pipeline.parse(best["pipeline"]),
            factories=recorded["factories"],
            build=BuildOptions.from_json(best["build"]),
            network=run / NETWORK,
            model=model,
            inputs=recorded["inputs"],
            states=tuple(recorded["states"]),
            expected=tuple(recorded["expected"]),
            tolerance=recorded["tolerance"],
            seed=recorded["seed"],
            paths=tuple(recorded.get("paths", ())),
        ),
    )
