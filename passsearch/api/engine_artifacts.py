"""Engines of a benchmark: networks that passsearch builds, and the references of all engines."""

import logging
from pathlib import Path
from typing import Any

from passsearch.core import Candidate, Failure
from passsearch.engines import EngineFailure, EngineSpec, engine_spec
from passsearch.errors import EnvironmentFault
from passsearch.evaluate import WorkerEvaluator
from passsearch.frontends import ModelFile

_ADAPTER = "passsearch.engines.artifact"

_log = logging.getLogger(__name__)

PYTORCH = "PyTorch in float64"
_REFERENCES: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("torch", PYTORCH, {"precision": "float64"}),
    ("onnxruntime", "ONNX Runtime without optimisations", {"optimise": False}),
)
"""Engine, label and options of the references."""
UNOPTIMISED = "TVM without optimisations"
"""Label of the reference that a compiler makes, where no other engine takes a network."""


def visible_gpu(gpu: str | None) -> dict[str, str]:
    """Return the environment variable that leaves the GPU of this UUID alone visible; empty without one."""
    return {"CUDA_VISIBLE_DEVICES": gpu} if gpu else {}


def artifact_engine(
    evaluator: WorkerEvaluator, name: str, candidate: Candidate, *, folder: Path, **about: Any
) -> EngineSpec:
    """Return TVM's runtime with a built network.

    Args:
        evaluator: The network and its compiler.
        name: Name in results.
        candidate: The pipeline and build options that made the artifact.
        folder: Folder of the artifact.
        about: What results say further about it.
    """
    session = evaluator.session
    bridge, device = session.dialect.bridge, session.device
    version = session.toolchain.tvm_version
    return EngineSpec(
        name,
        _ADAPTER,
        session.toolchain.python,
        folder,
        settings={"bridge": bridge, "target": session.target, "device": device, "version": version},
        modules=(bridge.partition(":")[0],),
        environment=visible_gpu(session.gpu),
        about={"pipeline": str(candidate.pipeline), "build": candidate.build.to_json(), **about},
        limit=evaluator.builder.verification.limit(candidate) if candidate.pipeline.is_in_tf32 else None,
    )


def compile_as_deployed(evaluator: WorkerEvaluator, name: str, candidate: Candidate) -> EngineSpec:
    """Compile a candidate in a process of its own, and return it as an engine.

    Raises:
        EngineFailure: It does not compile.
    """
    _log.info("compiling %s", name)
    fresh = evaluator.compile_fresh(name.replace(" ", "-"), candidate, timing_key=name, kinds=())
    if isinstance(fresh, Failure):
        raise EngineFailure(f"{fresh.stage} {fresh.step}: {fresh.reason}")
    return artifact_engine(
        evaluator, name, candidate, folder=fresh.folder, compile_s=round(fresh.compile_s, 3), binary=fresh.digest
    )


def reference_engines(file: ModelFile, python: Path | None) -> list[EngineSpec]:
    """Return the installed engines whose outputs may be the reference, the most exact one first."""
    specs = []
    for name, label, options in _REFERENCES:
        try:
            specs.append(engine_spec(name, file.path, python=python, label=label, **options))
        except EnvironmentFault as error:  # noqa: PERF203 -- two engines
            _log.debug("no reference: %s", error)
    return specs
