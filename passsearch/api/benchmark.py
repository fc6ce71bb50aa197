"""``bench``: TVM's pipelines and other inference engines side by side."""

import logging
import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from passsearch.api.bench_settings import BenchEntry, BenchSettings
from passsearch.api.common import (
    Progress,
    catalog_paths,
    open_evaluator,
    progress_callback,
    read_candidate,
    worker_limits,
)
from passsearch.api.engine_artifacts import PYTORCH, UNOPTIMISED, compile_as_deployed, reference_engines, visible_gpu
from passsearch.api.engine_request import read_engines
from passsearch.api.labelled_samples import check_samples
from passsearch.api.results import EngineBenchmark
from passsearch.api.run_request import make_run_request
from passsearch.core import (
    SOURCE,
    Candidate,
    CheckInputs,
    InputTypes,
    Limits,
    TensorType,
    check_arguments,
    leading_batch,
    physical_cores,
    read_inputs,
    timestamp,
)
from passsearch.dialects.case_inputs import with_samples
from passsearch.engines import (
    EngineFailure,
    EnginePlan,
    EngineSpec,
    EngineTiming,
    declarations,
    engine_spec,
    friction_rows,
    rows_by_engine,
)
from passsearch.errors import EnvironmentFault, UserError
from passsearch.evaluate import WorkerEvaluator, WrongImport, device_lock, open_session
from passsearch.frontends import OnnxNetwork, resolve_onnx
from passsearch.search import analyze_network, with_prerequisites
from passsearch.toolchain import cache_folder, get_toolchain
from passsearch.worker import ScratchFolder

SCHEMA = "passsearch-bench/1"
KERNEL_RUNS = 10
"""Number of inferences for which the profiler of an engine runs."""
SHORT_TURNS = "a turn is shorter than the interval of a GPU's sensor; `passsearch compare` has longer ones"
"""Why the energy and the power of engines on a GPU are not read."""
OWN_THREADS = ", own threads"
"""End of the name of an engine that chooses its number of threads."""
_log = logging.getLogger(__name__)


@check_arguments
def bench(
    model: object,
    engines: Sequence[str] = (),
    *,
    inputs: InputTypes | None = None,
    samples: str | Path | None = None,
    batch: int | None = None,
    batches: Sequence[int] | None = None,
    threads: int | None = None,
    own_threads: bool = False,
    requests: Sequence[int] | None = None,
    labels: str | Path | None = None,
    kernels: bool = False,
    baseline: str | None = None,
    rounds: int = EnginePlan.rounds,
    processes: int = EnginePlan.processes,
    target: str | None = None,
    tolerance: float | None = None,
    reference: str = SOURCE,
    memory: float | None = None,
    catalogs: Sequence[str | Path] = (),
    trust: bool = False,
    engines_python: str | Path | None = None,
    progress: Progress | bool | None = None,
) -> EngineBenchmark:
    """Measure TVM's pipelines and other inference engines against each other.

    All engines run one ONNX file with the same number of threads on the same cores, each in a process of its own. The
    processes take turns in rounds. This is done several times with new processes, which are the repetitions of the
    intervals. Outputs are compared with a reference on other inputs in every process before anything is timed.

    Args:
        model: ``zoo:NAME``, an ONNX file, an ONNX model in memory, or the folder of a run on one of these: its winner
            is then measured beside its baseline and the engines that are installed, unless ``engines`` names others.
        engines: Names of engines, such as ``onnxruntime``, and ``TOOLCHAIN:PIPELINE`` for TVM: a baseline, a named
            sequence, a pipeline file or a pipeline written out.
        samples: NumPy file (``.npz``) with an array for each input, or several in a leading dimension; each process
            runs on the next one. Random inputs by default.
        batches: Several sizes, which are measured in turns; adds the friction coefficient of every engine.
        threads: Threads of each engine; one for each physical core by default.
        own_threads: True to measure every engine once more, with the number of threads that it chooses itself.
        requests: Numbers of inferences that run at the same time; adds the throughput of each number.
        labels: NumPy file (``.npz``) with an array for each input, many samples in the first dimension, and their
            ``labels``; adds the share that each engine's first output classifies right.
        kernels: True to ask the profiler of each engine for the time of every kernel.
        baseline: The engine that ratios refer to; the first by default.
        rounds: Rounds of each process.
        processes: Processes of each engine, one after another.
        tolerance: Largest deviation of outputs, as a share of the largest; by default what rounding explains.
        reference: ``source`` or ``import``: see ``tune``. Outputs are compared with those of another engine in any
            case.
        engines_python: Interpreter that has all engines; by default this one for an engine that it has, else the
            engine's installed environment.
        progress: ``True`` for a display on standard error (the default in IPython and notebooks), or a callback.

    Returns:
        The benchmark as JSON, with a row for each engine and batch size; it prints as tables.

    Raises:
        UserError: An argument is impossible; the message says what to do.
        EnvironmentFault: An engine is not installed; the message says how to install it.
    """
    if batch is not None and batches is not None:
        raise UserError("Give `batch` or `batches`, not both.")
    python = None if engines_python is None else Path(engines_python).absolute()
    if python is not None and not python.is_file():
        raise UserError(f"`{python}` is no interpreter; give the Python of an environment that has all engines.")
    request = make_run_request(model, engines, python, batch)
    named = read_engines(request.engines)
    if baseline is not None and baseline not in (each.name for each in named):
        names = ", ".join(each.name for each in named)
        raise UserError(f"The baseline is one of the engines; got `{baseline}`. Choose from: {names}.")
    kernel_runs = KERNEL_RUNS if kernels else 0
    plan = EnginePlan(
        threads or physical_cores(), processes, rounds, requests=tuple(requests or ()), kernel_runs=kernel_runs
    )
    cores = len(os.sched_getaffinity(0))
    if plan.threads > cores:
        raise UserError(f"`threads` is at most {cores}, the cores that this process may use; got {plan.threads}.")
    settings = BenchSettings(
        requests=named,
        plan=plan,
        target=target,
        tolerance=tolerance,
        reference=reference,
        limits=worker_limits(Limits(memory=memory)),
        catalogs=catalog_paths(catalogs),
        trust=trust,
        python=python,
        own_threads=own_threads,
        labels=None if labels is None else Path(labels).absolute(),
        samples=None if samples is None else Path(samples).absolute(),
    )
    _check_installed(settings)
    types = read_inputs(inputs)
    with ExitStack() as stack:
        report = stack.enter_context(progress_callback(progress))
        folder = stack.enter_context(ScratchFolder())
        entries: list[BenchEntry] = []
        sizes: Sequence[int | None] = batches or [request.batch]
        for size in sizes:
            network = resolve_onnx(
                request.model, inputs=types, batch=size, folder=cache_folder() / "models", trust=trust
            )
            # Sizes that the user asks for may be others than those of the run.
            if batch is None and batches is None and not types:
                request.check(network.file)
            if settings.labels is not None:
                check_samples(settings.labels, network.types)
            report(f"compiling for batch {size}" if size else "compiling", len(entries), len(sizes))
            entries.append(_make_entry(network, settings, batch=size, folder=folder / f"batch-{size}"))
        timings = _run(entries, settings, folder=folder, report=report)
    return EngineBenchmark(_document(entries, timings, settings, baseline=baseline or named[0].name))


def _check_installed(settings: BenchSettings) -> None:
    """Raise before anything is built if an engine or a toolchain is missing, or an engine is of another device."""
    for request in settings.requests:
        if request.toolchain:
            get_toolchain(request.toolchain)
            continue
        devices = declarations()[request.name].devices
        if settings.device not in devices:
            raise UserError(
                f"Engine `{request.name}` runs on {' and '.join(devices)}, and the target is "
                f"`{settings.target or 'cpu'}`; leave it out{'' if settings.target else ', or give --target cuda'}."
            )
        engine_spec(request.name, Path(), python=settings.python)


def _make_entry(network: OnnxNetwork, settings: BenchSettings, *, batch: int | None, folder: Path) -> BenchEntry:
    """Compile TVM's pipelines for one batch size, and collect the other engines."""
    limit = network.limit if settings.tolerance is None else settings.tolerance
    inputs = CheckInputs(network.types)
    if settings.samples is not None:
        inputs = with_samples(inputs, settings.samples)
    entry = BenchEntry(network, batch or leading_batch(network.types), limit, inputs)
    path, python = network.file.path, settings.python
    entry.references += reference_engines(network.file, python)
    for toolchain in dict.fromkeys(request.toolchain for request in settings.requests if request.toolchain):
        _compile(entry, toolchain, settings, folder=folder / toolchain)
    if not network.file.source.startswith("zoo:"):
        # PyTorch runs a conversion of ours, which only built-in networks are known to survive: any other comes first.
        entry.references.sort(key=lambda each: each.name == PYTORCH)
    # Inductor's cache is empty at the first process. All engines get the GPU that is measured: CUDA's first one is the
    # fastest, NVML's the first by bus id.
    variables = {"TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"), **visible_gpu(settings.gpu)}
    others = [request.name for request in settings.requests if not request.toolchain]
    options = {} if settings.device == "cpu" else {"device": settings.device}
    entry.specs += [engine_spec(name, path, python=python, environment=variables, **options) for name in others]
    if settings.own_threads:
        entry.specs += [replace(spec, name=f"{spec.name}{OWN_THREADS}", own_threads=True) for spec in entry.specs]
    if not entry.references:
        raise EnvironmentFault(
            "Outputs are compared with those of PyTorch in float64 or of ONNX Runtime, and neither is installed. "
            "Run: passsearch toolchain install torch"
        )
    return entry


def _compile(entry: BenchEntry, toolchain: str, settings: BenchSettings, *, folder: Path) -> None:
    """Compile a toolchain's pipelines; those that do not compile become rows with the reason."""
    session = open_session(
        entry.network.file,
        toolchain=toolchain,
        target=settings.target,
        catalogs=settings.catalogs,
        reference=settings.reference,
        limits=settings.limits,
    )
    if session.cannot_run_reason:
        raise UserError(f"`bench` runs what it builds; `{session.target}` cannot: {session.cannot_run_reason}")
    requests = [request for request in settings.requests if request.toolchain == toolchain]
    candidates = [read_candidate(session, request.pipeline, trust=settings.trust) for request in requests]
    with open_evaluator(session, folder=folder, remember=False) as evaluator:
        # The graph shows what integers index; all engines run on such values.
        entry.inputs = replace(entry.inputs, ranges={**evaluator.network.ranges, **entry.inputs.ranges})
        analysis = analyze_network(session, evaluator.network.summary)
        for request, candidate in zip(requests, candidates, strict=True):
            complete = with_prerequisites(session, analysis, candidate)
            try:
                spec = compile_as_deployed(evaluator, request.name, complete)
                _prove_import(entry, evaluator, complete, spec=spec)
                entry.specs.append(spec)
            except WrongImport as error:
                if len(requests) == len(settings.requests):  # nothing is left to measure
                    raise
                # No later pipeline of this toolchain computes the network either.
                failures = {"failure": str(error), "pipeline": ""}
                entry.failures |= {each.name: failures for each in requests}
                return
            except EngineFailure as error:
                entry.failures[request.name] = {"failure": str(error), "pipeline": str(complete.pipeline)}
        # The only other reference may not take the network.
        if len(entry.references) < 2 and not any(each.name == UNOPTIMISED for each in entry.references):
            try:
                entry.references.append(compile_as_deployed(evaluator, UNOPTIMISED, Candidate()))
            except EngineFailure as error:
                _log.info("no reference by %s: %s", UNOPTIMISED, error)


def _prove_import(entry: BenchEntry, evaluator: WorkerEvaluator, candidate: Candidate, *, spec: EngineSpec) -> None:
    """Prove a toolchain's import of the network, once, by what it has compiled.

    Raises:
        WrongImport: The toolchain imports another network.
    """
    name = evaluator.session.toolchain.name
    if name not in entry.imports:
        entry.imports[name] = evaluator.builder.prove_import(spec.model, candidate).to_json()


def _run(
    entries: Sequence[BenchEntry], settings: BenchSettings, *, folder: Path, report: Progress
) -> list[EngineTiming]:
    """Measure all batch sizes in turns, so that a slow change of the machine affects all of them."""
    # A turn lasts milliseconds, and the energy of a GPU is read every 20 to 100 ms: most turns would read 0.
    meter = None if settings.device == "cuda" else settings.sensors.meter
    timings = [
        EngineTiming(
            entry.specs,
            references=entry.references,
            types=entry.network.types,
            plan=replace(settings.plan, limit=entry.limit),
            folder=folder / f"timing-{number}",
            meter=meter,
            samples=settings.labels,
            device_lock=device_lock(settings.gpu),
            inputs=entry.inputs,
        )
        for number, entry in enumerate(entries)
    ]
    total = settings.plan.processes * len(timings)
    for turn in range(settings.plan.processes):
        for number, timing in enumerate(timings):
            report("measuring", turn * len(timings) + number, total)
            try:
                timing.run_process()
            except EngineFailure as error:
                raise UserError(
                    f"No reference takes this network, the last one failed: {error}. Install another one: passsearch "
                    f"toolchain install onnxruntime"
                ) from error
    return timings


def _document(
    entries: Sequence[BenchEntry], timings: Sequence[EngineTiming], settings: BenchSettings, *, baseline: str
) -> dict[str, Any]:
    order = [request.name for request in settings.requests]
    rows: list[dict[str, Any]] = []
    for entry, timing in zip(entries, timings, strict=True):
        records = {record.spec.name: record for record in timing.comparison.records}
        measured = {**rows_by_engine(records, baseline=baseline, plan=settings.plan), **entry.failures}
        rows += [{"engine": name, "batch": entry.batch, **measured[name], **_own(measured, name)} for name in order]
    sensors, file = settings.sensors, entries[0].network.file
    is_short = dict.fromkeys(("energy_j", "power_w"), SHORT_TURNS) if settings.device == "cuda" else {}
    unavailable = {**sensors.unavailable, **is_short}
    return {
        "schema": SCHEMA,
        "measured_at": timestamp(),
        "model": {"name": file.name, "source": file.source, "sha256": [each.network.file.sha256 for each in entries]},
        "batches": [entry.batch for entry in entries],
        "inputs": [_inputs_document(entry.network.types) for entry in entries],
        "device": sensors.device,
        "unavailable": {name: unavailable.get(name) for name in ("energy_j", "power_w")},
        "threads": settings.plan.threads,
        "plan": {**asdict(settings.plan), "limit": [entry.limit for entry in entries]},
        "references": [timing.reference.name for timing in timings],
        "imports": [entry.imports for entry in entries],
        "baseline": baseline,
        "disturbances": [[list(map(asdict, each)) for each in timing.comparison.disturbances] for timing in timings],
        "rows": rows,
        "friction": friction_rows(rows, engines=order, baseline=baseline) if len(entries) > 1 else {},
    }


def _own(measured: Mapping[str, Mapping[str, Any]], name: str) -> dict[str, Any]:
    """Return the measurement of an engine with its own choice of threads, for its row; empty if there is none."""
    row = measured.get(f"{name}{OWN_THREADS}")
    if row is None:
        return {}
    kept = ("failure", "threads", "latency_s", "ratio", "process_median_s", "process_fastest_s", "together")
    return {"own_threads": {key: row[key] for key in kept if key in row}}


def _inputs_document(types: Mapping[str, TensorType]) -> dict[str, Any]:
    return {name: {"shape": list(kind.shape), "dtype": kind.dtype} for name, kind in types.items()}
