"""``tune``, ``compare`` and ``analyze``: what a notebook calls; the command line prints what they return."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

from passsearch.catalog import bind_pipeline
from passsearch.core import DEADLINE_S, BuildOptions, Candidate, Objective, TensorType
from passsearch.errors import UserError
from passsearch.export import export_run, read_pipeline
from passsearch.frontends import ModelFile, digest_files, resolve
from passsearch.report import result_html, result_text
from passsearch.search import setting
from passsearch.search.audit import OUTPUT_CASES, audit_run
from passsearch.search.certificate import check_certificate, read_closure, space_document
from passsearch.search.closure import Closure
from passsearch.search.comparison import CACHES, CF22, PAIRED, PROTOCOLS, compare_candidates
from passsearch.search.confirm import require_repetitions
from passsearch.search.evaluation import Evaluator
from passsearch.search.exploration import Exploration, Limits
from passsearch.search.tuning import Tuning
from passsearch.store import NETWORK, Log, open_memory, read_deployment, read_result
from passsearch.toolchain import cache_folder

Progress: TypeAlias = Callable[[str, int, int], None]
"""Told what is under way, how many candidates are evaluated and how many will be."""

Objectives: TypeAlias = str | Sequence[str]


@dataclass(frozen=True)
class Best:
    """The candidate a search came out with.

    Attributes:
        pipeline: Its passes, as text; ``Pipeline.parse`` reads it.
        build: Options of the build after them.
        measurement: As in the result file.
    """

    pipeline: str
    build: BuildOptions
    measurement: Mapping[str, Any]


class TuneResult:
    """What a run found. Prints as a table, in a notebook too.

    Attributes:
        document: The content of ``result.json``.
        run: The run folder.
    """

    def __init__(self, document: Mapping[str, Any], run: Path) -> None:
        self.document = document
        self.run = run

    @classmethod
    def read(cls, run: str | Path) -> "TuneResult":
        """The result of an earlier run."""
        return cls(read_result(Path(run)), Path(run))

    @property
    def best(self) -> Best:
        """The winner, whether or not it is a significant improvement."""
        best = self.document["best"]
        return Best(best["pipeline"], BuildOptions.from_json(best["build"]), best)

    @property
    def verdict(self) -> Mapping[str, Any]:
        """Whether it is one, with the interval."""
        verdict: Mapping[str, Any] = self.document["verdict"]
        return verdict

    def export(self, to: str | Path) -> Path:
        """Write the deployment script, the pipeline file and the network; needs no compiler."""
        return export_run(self.document, self.run, Path(to))

    def __str__(self) -> str:
        return result_text(self.document)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return result_html(self.document)


def tune(
    model: object,
    example_inputs: object = None,
    *,
    inputs: Mapping[str, TensorType] | None = None,
    batch: int | None = None,
    objective: Objectives = "throughput",
    trials: int = 60,
    timeout: float | None = None,
    target: str | None = None,
    toolchain: str | None = None,
    out: str | Path | None = None,
    seed: int = 0,
    confirm: int = 3,
    keep_throughput: float = 0.98,
    tolerance: float | None = None,
    deadline: float = DEADLINE_S,
    passes: Sequence[str] | None = None,
    additional: Sequence[str] = (),
    catalogs: Sequence[str | Path] = (),
    sampler: str = "auto",
    remember: bool = True,
    progress: Progress | None = None,
) -> TuneResult:
    """Search pass selection and order for one network on one device.

    Args:
        model: ``zoo:NAME[@batch]``, a path, or an ONNX, torch or TVM object.
        example_inputs: Inputs a torch module is traced with.
        inputs: Shape and dtype by input name, where the file leaves them open.
        batch: Binds a symbolic first dimension.
        objective: One of throughput, latency, compile_time, memory, and where there is a meter power and energy; or two
            of them for a Pareto front.
        trials: Candidates to evaluate beyond the baselines; sequences that lead to known IR cost nothing.
        timeout: Wall time in seconds for the search, the time before a resume included; what confirms the
            winner comes on top.
        target: TVM's target; the host CPU by default.
        toolchain: Name of the toolchain; the first there is by default.
        out: Run folder; the same call again continues it. A new one in the cache folder by default.
        seed: Seed of the sampler.
        confirm: Fresh compiles that confirm the winner, timed in three processes each; 0 leaves it unconfirmed.
        keep_throughput: Least share of the baseline's throughput where throughput is not an objective.
        tolerance: Largest deviation of outputs from the reference, as a share of the largest output, of pipelines with
            a pass that may change numerics; without it they are judged as strictly as all others.
        deadline: Seconds one request to a worker may take before its process group is killed.
        passes: Search these passes only, whatever the classes say.
        additional: Passes to search that the catalog leaves to the user's intent.
        catalogs: YAML files with the user's own passes.
        sampler: Strategy: auto, graph, genetic, local, tpe, nsga2, random or states.
        remember: Use and keep what other runs on this network, compiler and device find out; what confirms the winner
            is always measured anew.
        progress: Told how far it is.

    Raises:
        UserError: Something asked for cannot be; says what to do.
        EnvironmentFault: No toolchain, no C compiler, no room.
    """
    objectives = _objectives(objective)
    file = _file(model, example_inputs, inputs, batch)
    chosen = setting.choose(
        file,
        toolchain=toolchain,
        target=target,
        catalogs=_paths(catalogs),
        tolerance=tolerance,
        deadline_s=deadline,
    )
    _refuse_unreadable(objectives, chosen)
    tuning = Tuning(
        chosen,
        objectives=objectives,
        trials=trials,
        timeout_s=timeout,
        seed=seed,
        repetitions=confirm,
        keep_throughput=keep_throughput,
        passes=passes,
        additional=additional,
        sampler=sampler,
        remember=remember,
    )
    run = Path(out) if out is not None else tuning.default_folder(cache_folder() / "runs")
    return TuneResult(tuning.run(run, progress or _silent), run)


def analyze(
    model: object,
    example_inputs: object = None,
    *,
    inputs: Mapping[str, TensorType] | None = None,
    batch: int | None = None,
    toolchain: str | None = None,
    catalogs: Sequence[str | Path] = (),
) -> setting.Reading:
    """Operators, features, classes with evidence, and candidate passes with reasons."""
    file = _file(model, example_inputs, inputs, batch)
    chosen = setting.choose(file, toolchain=toolchain, target=None, catalogs=_paths(catalogs))
    with TemporaryDirectory(prefix="passsearch-") as folder:
        with Log(Path(folder) / "log.jsonl") as log:
            evaluator = chosen.evaluator(log, Path(folder))
        evaluator.close()
        return setting.read(chosen, evaluator.summary)


def explore(
    model: object,
    example_inputs: object = None,
    *,
    inputs: Mapping[str, TensorType] | None = None,
    batch: int | None = None,
    passes: Sequence[str] | None = None,
    additional: Sequence[str] = (),
    every: bool = False,
    depth: int | None = None,
    states: int | None = None,
    timeout: float | None = None,
    target: str | None = None,
    toolchain: str | None = None,
    deadline: float = DEADLINE_S,
    catalogs: Sequence[str | Path] = (),
    remember: bool = True,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Apply the passes in every order, any number of times, until no new IR appears or a limit is met.

    What is found is remembered in the cache folder, so the same call again goes on and ``tune`` profits from it.

    Args:
        model: As for ``tune``, and so are ``example_inputs``, ``inputs`` and ``batch``.
        example_inputs: Inputs a torch module is traced with.
        inputs: Shape and dtype by input name.
        batch: Binds a symbolic first dimension.
        passes: These passes alone: names (all choices of arguments) or passes written out.
        additional: Passes to add that the catalog leaves to the user's intent.
        every: Take the catalog's candidates whatever the network's classes and features.
        depth: Longest sequence.
        states: Most states.
        timeout: Wall time in seconds.
        target: TVM's target; the host CPU by default.
        toolchain: Name of the toolchain; the first there is by default.
        deadline: Seconds one pass may take.
        catalogs: YAML files with the user's own passes.
        remember: Use and keep what other runs find out.
        progress: Told how many states are done and known.

    Returns:
        The explored space with its certificate: the states, the edges and what follows from them.

    Raises:
        UserError: Something asked for cannot be; says what to do.
        EnvironmentFault: No toolchain.
    """
    file = _file(model, example_inputs, inputs, batch)
    chosen = setting.choose(file, toolchain=toolchain, target=target, catalogs=_paths(catalogs), deadline_s=deadline)
    told = progress or _silent
    with _evaluating(chosen, remember=remember) as evaluator:
        steps = setting.explored(chosen, evaluator.summary, passes=passes, additional=additional, every=every)
        exploration = Exploration(
            evaluator,
            steps,
            Limits(depth, states, timeout),
            compilers=chosen.explorers,
            progress=lambda done, known: told("exploring", done, known),
        )
        growth = exploration.run()
        classes = setting.read(chosen, evaluator.summary).class_names
        return space_document(chosen, Closure.of(evaluator.graph, steps), growth, classes=classes)


def check_space(
    document: Mapping[str, Any],
    model: object,
    example_inputs: object = None,
    *,
    inputs: Mapping[str, TensorType] | None = None,
    batch: int | None = None,
    sample: int = 50,
    seed: int = 0,
    toolchain: str | None = None,
    deadline: float = DEADLINE_S,
    catalogs: Sequence[str | Path] = (),
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Apply a random sample of an explored space's edges again, remembering nothing, and compare.

    Args:
        document: What ``explore`` returned.
        model: The network it was made from, and so on as for ``explore``.
        example_inputs: Inputs a torch module is traced with.
        inputs: Shape and dtype by input name.
        batch: Binds a symbolic first dimension.
        sample: Edges.
        seed: Seed of the drawing.
        toolchain: Name of the toolchain; the document's own by default.
        deadline: Seconds one pass may take.
        catalogs: YAML files with the user's own passes.
        progress: Told how far it is.

    Raises:
        UserError: The document is no explored space.
        EnvironmentFault: Its toolchain is not there.
    """
    closure = read_closure(document, "the document")
    chosen = setting.choose(
        _file(model, example_inputs, inputs, batch),
        toolchain=toolchain or document["toolchain"]["name"],
        target=document["target"],
        catalogs=_paths(catalogs),
        deadline_s=deadline,
    )
    told = progress or _silent
    with _evaluating(chosen, remember=False) as evaluator:
        return check_certificate(
            document,
            closure,
            chosen,
            evaluator,
            sample=sample,
            seed=seed,
            progress=lambda done, all_: told("checking", done, all_),
        )


@contextmanager
def _evaluating(chosen: setting.Setting, *, remember: bool) -> Iterator[Evaluator]:
    """An evaluator without a run folder; what it finds out goes to the memory, or nowhere."""
    with TemporaryDirectory(prefix="passsearch-") as name, ExitStack() as stack:
        folder = Path(name)
        log = stack.enter_context(open_memory(chosen.memory) if remember else Log(folder / "log.jsonl"))
        evaluator = chosen.evaluator(log, folder)
        stack.callback(evaluator.close)
        yield evaluator


def compare(
    model: object,
    pipelines: Sequence[str],
    example_inputs: object = None,
    *,
    inputs: Mapping[str, TensorType] | None = None,
    batch: int | None = None,
    target: str | None = None,
    toolchain: str | None = None,
    tolerance: float | None = None,
    deadline: float = DEADLINE_S,
    rounds: int = 6,
    processes: int | None = None,
    protocol: str = PAIRED,
    cache: str = "warm",
    catalogs: Sequence[str | Path] = (),
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Measure named pipelines, pipeline files or pipelines written out, interleaved in several processes.

    The first that is a baseline's name, else the dialect's default, is what the others are compared with. With protocol
    ``cf22`` each runs by itself 1000 times as in the paper, which proves nothing and gives no verdict. With cache
    ``flushed`` nothing of the network is in the processor's caches when a run begins.
    """
    for what, given, known in (("protocol", protocol, PROTOCOLS), ("cache state", cache, CACHES)):
        if given not in known:
            raise UserError(f"Unknown {what} `{given}`; choose from: {', '.join(known)}.")
    if protocol == CF22 and cache != "warm":
        raise UserError("Protocol `cf22` measures with warm caches, as the paper did; leave the cache state out.")
    file = _file(model, example_inputs, inputs, batch)
    chosen = setting.choose(
        file,
        toolchain=toolchain,
        target=target,
        catalogs=_paths(catalogs),
        tolerance=tolerance,
        deadline_s=deadline,
    )
    contenders = [_contender(chosen, text) for text in pipelines]
    with TemporaryDirectory(prefix="passsearch-") as folder, Log(Path(folder) / "log.jsonl") as log:
        evaluator = chosen.evaluator(log, Path(folder))
        try:
            return compare_candidates(
                chosen,
                contenders,
                evaluator,
                rounds=rounds,
                processes=processes,
                protocol=protocol,
                cache=cache,
                progress=progress or _silent,
            )
        finally:
            evaluator.close()


def audit(
    run: str | Path,
    *,
    toolchain: str | None = None,
    confirm: int = 3,
    deadline: float = DEADLINE_S,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Make a run's winner again from what the run wrote down, and sign its claim off or refuse.

    Compares every IR hash, the outputs on inputs no search has seen, and measures it against the baseline again.

    Args:
        run: A finished run folder.
        toolchain: Name of the toolchain; the run's own by default.
        confirm: Fresh compiles of winner and baseline, timed in three processes each.
        deadline: Seconds one request to a worker may take.
        progress: Told how far it is.

    Raises:
        UserError: The run has no finished winner.
        EnvironmentFault: Its toolchain is not there.
    """
    folder = Path(run)
    document = read_result(folder)
    recorded = read_deployment(document, folder)
    require_repetitions(confirm)
    model = document["model"]
    network = (folder / NETWORK).resolve()
    file = ModelFile(network, "ir", model["name"], model["source"], digest_files([network]))
    chosen = replace(
        setting.choose(
            file,
            toolchain=toolchain or document["toolchain"]["name"],
            target=document["target"],
            tolerance=recorded["tolerance"],
            deadline_s=deadline,
        ),
        own_factories=recorded["factories"],
        paths=tuple(recorded.get("paths", ())),
    )
    _refuse_unreadable((Objective.parse(document["verdict"]["objective"]),), chosen)
    with TemporaryDirectory(prefix="passsearch-") as name, Log(Path(name) / "log.jsonl") as log:
        evaluator = chosen.evaluator(log, Path(name), output_cases=OUTPUT_CASES)
        told = progress or _silent
        try:
            return audit_run(document, chosen, evaluator, Path(name), repetitions=confirm, progress=told)
        finally:
            evaluator.close()


def _file(
    model: object, example_inputs: object, inputs: Mapping[str, TensorType] | None, batch: int | None
) -> ModelFile:
    return resolve(model, example_inputs=example_inputs, inputs=inputs, batch=batch, folder=cache_folder() / "models")


def _paths(catalogs: Sequence[str | Path]) -> list[Path]:
    return [Path(path) for path in catalogs]


def _contender(chosen: setting.Setting, text: str) -> Candidate:
    if text.endswith(".json"):
        file = read_pipeline(Path(text))
        candidate = Candidate(file.pipeline, file.build, Path(text).stem)
    else:
        candidate = setting.named(chosen, text)
    bind_pipeline(candidate.pipeline, chosen.catalog)
    return candidate


def _objectives(objective: Objectives) -> tuple[Objective, ...]:
    names = [objective] if isinstance(objective, str) else list(objective)
    if not 1 <= len(set(names)) == len(names) <= 2:
        raise UserError(f"One objective or two different ones; got {len(names)}: {', '.join(names) or 'none'}.")
    return tuple(Objective.parse(name) for name in names)


def _refuse_unreadable(objectives: Sequence[Objective], chosen: setting.Setting) -> None:
    metrics = {"power": "power_w", "energy": "energy_j"}
    for objective in objectives:
        reason = chosen.sensors.unavailable.get(metrics.get(objective.name, ""))
        if reason:
            raise UserError(f"Objective `{objective.name}` cannot be read on `{chosen.device}`: {reason}.")


def _silent(_: str, __: int, ___: int) -> None:
    """Progress nobody asked for."""
