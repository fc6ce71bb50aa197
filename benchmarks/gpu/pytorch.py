"""The steps of ``session.py`` that time PyTorch beside TVM's builds."""

import os
import subprocess
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.gpu.steps import PROCESSES, Row, Settings, candidates_of, open_evaluator

FLOAT32 = "float32"


def prepare_inductor(networks: Sequence[str], settings: Settings, seconds: float) -> Row:
    """Let PyTorch compile the networks, all at once, so that a later step finds its kernels; return the seconds.

    They hold importing the operators, tracing, compiling, and the first inferences.
    """
    if not _has_pytorch(settings.pytorch):
        return {"unavailable": f"{settings.pytorch} has no PyTorch; see --pytorch"}
    from passsearch.dialects.case_inputs import random_inputs
    from passsearch.engines.client import EngineFailure, EngineProcess, EngineSpec

    rows: Row = {}
    opened = {}
    with ThreadPoolExecutor() as pool, ExitStack() as stack:

        def compile_one(spec: EngineSpec, inputs: Path) -> float:
            process = EngineProcess(spec, threads=len(os.sched_getaffinity(0)), log=inputs.with_suffix(".log"))
            try:
                return float(process.open(inputs)["open_s"])
            finally:
                process.close()

        for network in networks:
            evaluator = stack.enter_context(open_evaluator(network, settings, seconds, run="inputs"))
            inputs = settings.folder / network / "inputs.npz"
            np.savez(inputs, **random_inputs(evaluator.network.inputs, seed=0))
            for spec in _pytorch_engines(network, settings, evaluator.session):
                if spec.name.startswith("torch.compile"):
                    opened[pool.submit(compile_one, spec, inputs)] = network, spec.name
        for future in as_completed(opened):
            network, name = opened[future]
            try:
                rows.setdefault(network, {})[name] = {"open_s": round(future.result(), 2)}
            except EngineFailure as error:
                rows.setdefault(network, {})[name] = {"failure": str(error)}
            settings.keep(rows)
    return rows


def _pytorch_engines(network: str, settings: Settings, session: Any, precision: str = FLOAT32) -> list[Any]:
    """Return PyTorch in a precision, eager first, then compiled; on a GPU each with recorded launches, too."""
    from passsearch.api.engine_artifacts import visible_gpu
    from passsearch.engines import engine_spec

    labels = {"torch": "torch", "inductor": "torch.compile"}
    if settings.target:
        labels |= {"torch-graph": "torch, CUDA graph", "inductor-graph": "torch.compile, CUDA graph"}
    cache = {"TORCHINDUCTOR_CACHE_DIR": str(settings.folder / network / "inductor"), **visible_gpu(session.gpu)}
    common: Any = {"python": settings.pytorch, "device": session.device, "precision": precision}
    return [
        engine_spec(name, session.model.path, label=label, environment=cache, **common)
        for name, label in labels.items()
    ]


def time_pytorch(network: str, settings: Settings, seconds: float, *, precision: str = FLOAT32) -> Row:
    """Time PyTorch in turns with TVM's builds, in as many processes of each engine as the time suffices for.

    In another precision than float32, TVM's side is the sequence for it, and PyTorch computes in the same one.
    """
    start_s = time.monotonic()
    if not _has_pytorch(settings.pytorch):
        return {"unavailable": f"{settings.pytorch} has no PyTorch; see --pytorch"}
    if precision != FLOAT32 and not settings.target:
        return {"unavailable": f"{precision} is timed on GPUs"}
    from benchmarks.gpu import builds
    from benchmarks.speed.against_engines import rows
    from passsearch.api.engine_artifacts import artifact_engine
    from passsearch.core import STRICT_LIMITS, Failure
    from passsearch.engines import EnginePlan, EngineTiming

    with open_evaluator(network, settings, seconds) as evaluator:
        session = evaluator.session
        if precision == FLOAT32:
            candidates = {f"tvm {label}": each for label, each in candidates_of(network, settings, session).items()}
        else:
            candidates = {f"tvm {precision}": builds.candidate(precision)} if precision in builds.PRECISIONS else {}
        row: Row = {"pipelines": {label: str(candidate.pipeline) for label, candidate in candidates.items()}}
        specs = []
        for label, candidate in candidates.items():
            built = _build(evaluator, candidate)
            if isinstance(built, Failure):
                row.setdefault("failures", {})[label] = built.to_json()
            else:
                specs.append(artifact_engine(evaluator, label, candidate, folder=built.folder))
        eager, *others = _pytorch_engines(network, settings, session, precision)
        limit = evaluator.builder.verification.limit(session.dialect.baseline)
        # The reference rounds as well.
        limit = limit if precision == FLOAT32 else 2 * STRICT_LIMITS[precision]
        plan = EnginePlan(session.threads, rounds=6, limit=limit)
        timing = EngineTiming(
            [*specs, eager, *others],
            references=[eager],
            types=evaluator.network.inputs,
            plan=plan,
            folder=settings.folder / network / "engines",
            device_lock=session.device_lock,
        )
        for turn in range(PROCESSES):
            turn_s = time.monotonic()
            timing.run_process()
            table = rows(timing.comparison, plan=plan, sequence=eager.name)
            row |= {"processes": turn + 1}
            row["rows"] = {
                name: {key: each[key] for key in each if key not in ("visits", "compile_s")}
                for name, each in table.items()
            }
            settings.keep(row)
            now_s = time.monotonic()
            if now_s + (now_s - turn_s) > start_s + seconds:
                break
    return row


def _has_pytorch(python: Path) -> bool:
    code = "import importlib.util, sys; sys.exit(importlib.util.find_spec('torch') is None)"
    return subprocess.run([str(python), "-c", code]).returncode == 0


def _build(evaluator: Any, candidate: Any) -> Any:
    """Return a candidate's build with its files, or why there is none."""
    from passsearch.core import Failure
    from passsearch.search import analyze_network, with_prerequisites

    analysis = analyze_network(evaluator.session, evaluator.network.summary)
    candidate = with_prerequisites(evaluator.session, analysis, candidate)
    built = evaluator.build_candidate(candidate)
    return built if isinstance(built, Failure) else evaluator.restore(built)
