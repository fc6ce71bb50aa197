"""``tune`` and ``audit``: a search, and its claim made again."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

from passsearch.api.common import Progress, network, paths, refuse_unreadable, silent
from passsearch.api.load import opened
from passsearch.core import DEADLINE_S, BuildOptions, Objective, TensorType
from passsearch.errors import UserError
from passsearch.evaluate import open_session
from passsearch.export import export_run
from passsearch.frontends import ModelFile, digest_files
from passsearch.report import result_html, result_text
from passsearch.search.audit import OUTPUT_CASES, audit_run
from passsearch.search.confirm import require_repetitions
from passsearch.search.run import Tuning
from passsearch.store import NETWORK, Log, read_deployment, read_result
from passsearch.toolchain import cache_folder

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
        return export_run(self.document, self.run, to=Path(to))

    @cached_property
    def compiled(self) -> Callable[..., Any]:
        """The winner built and loaded into this process: a function of tensors, which are not copied (DLPack).

        Made by the exported script on first use, all its checks included, and kept in the run folder.

        Raises:
            UserError: This interpreter does not have the TVM that compiled it, or the script's checks fail.
        """
        return opened(self.document, self.run)

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
        model: ``zoo:NAME[@batch]``, a path, or an object of a framework (docs/tutorial.md lists them).
        example_inputs: What a torch module or a gluon block is run with to see what it does.
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
        confirm: Fresh compiles that confirm the winner, timed in three to nine processes each; 0 leaves it unconfirmed.
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
    file = network(model, example_inputs, inputs=inputs, batch=batch, toolchain=toolchain)
    chosen = open_session(
        file,
        toolchain=toolchain,
        target=target,
        catalogs=paths(catalogs),
        tolerance=tolerance,
        deadline_s=deadline,
    )
    refuse_unreadable(objectives, chosen)
    tuning = Tuning(
        chosen,
        objectives=objectives,
        trials=trials,
        timeout_s=timeout,
        seed=seed,
        repetitions=confirm,
        keep_throughput=0.0 if chosen.idle else keep_throughput,
        passes=passes,
        additional=additional,
        sampler=sampler,
        remember=remember,
    )
    run = Path(out) if out is not None else tuning.default_folder(cache_folder() / "runs")
    return TuneResult(tuning.run(run, progress or silent), run)


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
        confirm: Fresh compiles of winner and baseline, timed in three to nine processes each.
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
        open_session(
            file,
            toolchain=toolchain or document["toolchain"]["name"],
            target=document["target"],
            tolerance=recorded["tolerance"],
            deadline_s=deadline,
        ),
        own_factories=recorded["factories"],
        paths=tuple(recorded.get("paths", ())),
    )
    refuse_unreadable((Objective.parse(document["verdict"]["objective"]),), chosen)
    with TemporaryDirectory(prefix="passsearch-") as name, Log(Path(name) / "log.jsonl") as log:
        evaluator = chosen.evaluator(log, Path(name), output_cases=OUTPUT_CASES)
        told = progress or silent
        try:
            return audit_run(
                document, chosen, evaluator=evaluator, folder=Path(name), repetitions=confirm, progress=told
            )
        finally:
            evaluator.close()


def _objectives(objective: Objectives) -> tuple[Objective, ...]:
    names = [objective] if isinstance(objective, str) else list(objective)
    if not 1 <= len(set(names)) == len(names) <= 2:
        raise UserError(f"One objective or two different ones; got {len(names)}: {', '.join(names) or 'none'}.")
    return tuple(Objective.parse(name) for name in names)
