"""``tune`` and ``audit``: a search, and the check of its claim."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from time import monotonic
from typing import Any, TypeAlias

from passsearch.api.ablation import ablate
from passsearch.api.common import (
    Progress,
    Sizes,
    catalog_paths,
    network_session,
    open_evaluator,
    progress_callback,
    refuse_unreadable,
)
from passsearch.api.compiled_function import compiled_function
from passsearch.api.narrow_weights import checked_budget, refuse_narrow_weights
from passsearch.api.plots import Plots
from passsearch.api.recorded_run import recorded_session
from passsearch.api.results import Ablation, Audit
from passsearch.api.rivals import Rivals
from passsearch.api.same_bits import read_same_bits
from passsearch.api.tf32 import session_in_tf32
from passsearch.catalog import find_folders
from passsearch.core import (
    DEADLINE_S,
    FLOAT32,
    LEAST_GAIN,
    SOURCE,
    TF32,
    USUAL_REPETITIONS,
    USUAL_TRIALS,
    BuildOptions,
    InputTypes,
    Limits,
    NetworkOptions,
    check_arguments,
    expand_home,
    printable,
    require_trust,
)
from passsearch.errors import UserError
from passsearch.evaluate import AUDIT_CASES, MeasurementPlans
from passsearch.export import export_run
from passsearch.objectives import THROUGHPUT, parse_objectives, recorded_objective
from passsearch.report import candidate_text, candidates_frame, read_record, result_html, result_text, search_sentence
from passsearch.results import Candidate, RunResult
from passsearch.search import Run, RunOptions, require_repetitions
from passsearch.store import RESULT, read_result
from passsearch.studies import audit_run, recorded_sequence
from passsearch.toolchain import cache_folder, cache_problem, user_cache_folder

Objectives: TypeAlias = str | Sequence[str]

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Best:
    """The winner of a search.

    Attributes:
        pipeline: Its passes as text; ``Pipeline.parse`` reads it.
        build: Options of the build after them.
        measurement: Its measurement, in the form of the result file.
    """

    pipeline: str
    build: BuildOptions
    measurement: Mapping[str, Any]

    def __repr__(self) -> str:
        return printable(candidate_text(Candidate.from_json(self.measurement)))


class TuneResult:
    """The result of a run. Prints as a table, in a notebook too; ``plot`` and ``to_frame`` show the whole search.

    Attributes:
        document: The content of ``result.json``.
        run: The run folder.
    """

    def __init__(
        self, document: Mapping[str, Any], run: Path, *, catalogs: Sequence[str | Path] = (), trust: bool = False
    ) -> None:
        """Keep a result with the catalogs and the trust by which its passes are exported and loaded; see ``read``."""
        self.document, self.run = document, run
        self._allowed: Any = {"catalogs": catalog_paths(catalogs), "trust": trust}

    @classmethod
    def read(cls, run: str | Path, *, catalogs: Sequence[str | Path] = (), trust: bool = False) -> "TuneResult":
        """Read the result of an earlier run.

        Args:
            run: The run folder.
            catalogs: YAML files with the user's own passes, for ``export`` and ``compiled``.
            trust: True to let these two use passes that only the run folder names.
        """
        folder = expand_home(run)
        return cls(read_result(folder), folder, catalogs=catalogs, trust=trust)

    @property
    def best(self) -> Best:
        """The winner, whether or not it is a significant improvement."""
        best = self.document["best"]
        return Best(best["pipeline"], BuildOptions.from_json(best["build"]), best)

    @property
    def verdict(self) -> Mapping[str, Any]:
        """Verdict on the winner: ``improved``, the ratio and its interval."""
        verdict: Mapping[str, Any] = self.document["verdict"]
        return verdict

    @property
    def plot(self) -> Plots:
        """The charts of the run as plotly figures: ``result.plot.history()``."""
        return Plots(read_record(self.document, self.run))

    @property
    def summary(self) -> str:
        """What the search added to the best sequence of the catalog, which one has without it, in a sentence."""
        return printable(search_sentence(RunResult.from_json(self.document)))

    def to_frame(self) -> Any:
        """Return the candidates of the search as a ``pandas.DataFrame``, a row each, with units in the columns' names.

        Raises:
            UserError: pandas is not installed.
        """
        return candidates_frame(read_record(self.document, self.run))

    def export(self, to: str | Path, *, minimal: bool = False) -> Path:
        """Write the deployment script, the pipeline file and the network; needs no compiler.

        Args:
            to: The folder to write.
            minimal: True to leave out the passes that the ablation of the run found worth nothing.
        """
        return export_run(self.document, self.run, to=expand_home(to), minimal=minimal, **self._allowed)

    def ablate(
        self,
        *,
        timeout: float | None = None,
        until_decided: bool = False,
        progress: Progress | bool | None = None,
    ) -> Ablation:
        """Measure what each pass of the winner is worth; see ``passsearch.ablate``."""
        return ablate(self.run, timeout=timeout, until_decided=until_decided, progress=progress, **self._allowed)

    @cached_property
    def compiled(self) -> Callable[..., Any]:
        """The winner built and loaded into this process: a function of tensors, which are not copied (DLPack).

        The exported script builds it on first use, all checks included; the files stay in the run folder.

        Raises:
            UserError: This interpreter does not have the TVM that compiled it, or the script's checks fail.
        """
        return compiled_function(self.document, self.run, **self._allowed)

    def __str__(self) -> str:
        return printable(result_text(RunResult.from_json(self.document)), keep="\n")

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return result_html(RunResult.from_json(self.document))


@check_arguments
def tune(
    model: object,
    example_inputs: object = None,
    *,
    inputs: InputTypes | None = None,
    batch: int | None = None,
    function: str | None = None,
    sizes: Sizes | None = None,
    keep_symbolic: bool = False,
    samples: str | Path | None = None,
    objective: Objectives = THROUGHPUT.name,
    trials: int = USUAL_TRIALS,
    timeout: float | None = None,
    target: str | None = None,
    toolchain: str | None = None,
    out: str | Path | None = None,
    seed: int = 0,
    confirm: int = USUAL_REPETITIONS,
    keep_throughput: float = 0.98,
    least_gain: float = LEAST_GAIN,
    tolerance: float | None = None,
    precision: str = FLOAT32,
    budget: float | str | None = None,
    labels: str | Path | None = None,
    same_bits: str | Path | None = None,
    reference: str = SOURCE,
    deadline: float = DEADLINE_S,
    memory: float | None = None,
    passes: Sequence[str] | None = None,
    additional: Sequence[str] = (),
    catalogs: Sequence[str | Path] = (),
    trust: bool = False,
    sampler: str = "auto",
    remember: bool = True,
    rivals: Sequence[str] | None = None,
    plans: MeasurementPlans | None = None,
    progress: Progress | bool | None = None,
) -> TuneResult:
    """Search pass selection and order for one network on one device.

    Args:
        model: ``zoo:NAME[@batch]``, a path, or an object of a framework (docs/guide/tutorial.md lists them).
        objective: One of throughput, latency, compile_time and memory, and where there is a meter power and energy; or
            two of them for a Pareto front, as a list or with a comma.
        trials: Candidates to evaluate beyond the baselines; sequences that lead to a known IR are free.
        timeout: Wall time of the run in seconds, confirmation and the time before a resume included.
        out: Run folder; the same call again continues it. A new one in the cache folder by default.
        seed: Seed of the sampler.
        confirm: Fewest fresh compiles that confirm the winner; up to nine are made while the verdict is not clear. 0
            leaves it unconfirmed.
        keep_throughput: Least share of the baseline's throughput where no objective is throughput or latency.
        least_gain: Share of throughput that a search must be able to add to the recommended sequence: where the corpus
            says that it adds less, only that sequence is measured. 0 searches always.
        precision: ``float32``, or ``weights`` to store each layer's constant weights in fewer bits where that is faster
            and ``budget`` allows it, or ``mixed`` to also round what they are multiplied with. ``tf32`` needs no
            budget: GPUs from sm_80 on round factors to 10 bits after the point, and outputs may deviate by 1/64.
        budget: What that may change, on ``samples`` or else on random inputs: outputs by a share of the largest (0.01),
            the class of a share of rows (``"top1:0.01"``), or the share that is right (``"accuracy:0.005"``).
        labels: NumPy file (``.npy``, or ``labels`` of an ``.npz``) with the class of each sample, or of each of its
            rows, for a budget of accuracy.
        passes: The only passes to search, whatever the classes say.
        additional: Further passes to search, which the catalog leaves to the user's intent.
        same_bits: What the winner must equal in every bit of its outputs: ``default``, ``recommended``, a run folder or
            an export folder. Other candidates fail as ``other_bits``.
        sampler: Strategy: auto, graph, nsga2 or random.
        remember: True to use and extend the facts that runs on this network, compiler and device share. The
            confirmation of the winner is always measured anew.
        rivals: Engines that the winner is compared with in the same rounds; those that are installed by default, an
            empty list for none.
        progress: ``True`` for a display on standard error (the default in IPython and notebooks), or a callback.
            It gets the current step, the number of evaluated candidates and the number of trials.

    Raises:
        UserError: An argument is impossible; the message says what to do.
        EnvironmentFault: There is no toolchain, no C compiler, or no disk space.
    """
    network, limits = NetworkOptions.of(locals()), Limits.of(locals())
    begin_s, objectives = monotonic(), parse_objectives(objective)
    error_budget = checked_budget(precision, budget, labels, samples=samples)
    # Before anything else uses the folder and says that this command works without it.
    if out is None and (problem := cache_problem()):
        raise UserError(
            f"The run would be kept in the cache folder `{user_cache_folder()}`, which cannot be written ({problem}); "
            "name another folder: --out DIR (out=)."
        )
    session = replace(network_session(model, example_inputs, network, limits, plans), budget=error_budget)
    session = session_in_tf32(session) if precision == TF32 else session
    session = replace(session, same_bits=read_same_bits(session, same_bits, trust=trust))
    # Before the network is imported and its baseline built, which may take minutes.
    if error_budget is not None:
        refuse_narrow_weights(session, objectives)
    refuse_unreadable(objectives, session)
    options = RunOptions(
        objectives,
        trials,
        seed=seed,
        repetitions=confirm,
        # Where nothing runs, no candidate could keep any throughput.
        keep_throughput=0.0 if session.cannot_run_reason else keep_throughput,
        least_gain=least_gain,
        passes=passes,
        additional=additional,
        sampler=sampler,
        remember=remember,
    )
    run = Run(session, options, Rivals.find(session, rivals))
    folder = Path(out) if out is not None else run.default_folder(cache_folder() / "runs")
    if out is None:
        _log.info("no run folder was named; the run is in %s", folder)
    with progress_callback(progress) as report:
        # All code of this run was named in this very call.
        return TuneResult(
            run.execute(folder, report, spent_s=monotonic() - begin_s), folder, catalogs=catalogs, trust=True
        )


@check_arguments
def audit(
    run: str | Path,
    *,
    toolchain: str | None = None,
    confirm: int = USUAL_REPETITIONS,
    deadline: float = DEADLINE_S,
    memory: float | None = None,
    catalogs: Sequence[str | Path] = (),
    trust: bool = False,
    plans: MeasurementPlans | None = None,
    progress: Progress | bool | None = None,
) -> Audit:
    """Rebuild a run's winner from the run's record, and sign its claim off or refuse it.

    The audit compares every IR hash and the outputs on inputs that no search has used, and measures the winner against
    the baseline again, and against the best sequence of the catalog that the run timed.

    Args:
        run: A finished run folder.
        confirm: Fewest fresh compiles of winner and baseline; up to nine are made while the verdict is not clear.
        trust: True to run passes that only the run folder names, from the import paths that it names, and what its
            network calls.
        progress: ``True`` for a display on standard error (the default in IPython and notebooks), or a callback.
            It gets the current step in words.

    Raises:
        UserError: The run has no finished winner, or it names passes that are in no catalog.
        EnvironmentFault: Its toolchain is not installed.
    """
    folder = Path(run)
    document = read_result(folder)
    result = RunResult.from_json(document)
    require_repetitions(confirm)
    limits = Limits(deadline=deadline, memory=memory)
    session = recorded_session(
        document, folder, toolchain=toolchain, limits=limits, catalogs=catalogs, trust=trust, plans=plans
    )
    if sequence := recorded_sequence(result):
        require_trust(folder / RESULT, find_folders(sequence.pipeline), trust=trust)
    # The inputs are those that no search has used.
    session = replace(session, output_cases=AUDIT_CASES)
    refuse_unreadable((recorded_objective(result.verdict),), session)
    _log.info("auditing %s: %s", folder, result.best.pipeline or "no explicit pass")
    # Without the fact cache, which has the samples of the run.
    with progress_callback(progress) as report, open_evaluator(session, remember=False) as evaluator:
        folder = evaluator.folder
        return Audit(audit_run(document, evaluator, folder=folder, repetitions=confirm, progress=report).to_json())
