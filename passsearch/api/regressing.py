"""``regress``: what got slower between two engines, versions, toolchains, runs or exports."""

import logging
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from time import monotonic
from typing import Any

from passsearch.api.common import (
    Progress,
    catalog_paths,
    is_of,
    open_evaluator,
    progress_callback,
    read_candidate,
    recorded_budget,
    worker_limits,
)
from passsearch.api.engine_artifacts import (
    PYTORCH,
    UNOPTIMISED,
    artifact_engine,
    compile_as_deployed,
    reference_engines,
)
from passsearch.api.regressed_side import SideRequest, read_side
from passsearch.api.results import Regression
from passsearch.core import (
    Candidate,
    CheckInputs,
    Failure,
    InputTypes,
    Limits,
    TimeLimit,
    check_arguments,
    leading_batch,
    physical_cores,
    read_inputs,
    timestamp,
)
from passsearch.engines import EngineFailure, EngineSpec, engine_spec, install_version
from passsearch.errors import EnvironmentFault, UserError
from passsearch.evaluate import WorkerEvaluator, device_of, open_session
from passsearch.frontends import OnnxNetwork, resolve_onnx
from passsearch.measure import probe
from passsearch.results import Device
from passsearch.results import Regression as RegressionRecord
from passsearch.search import analyze_network, with_prerequisites
from passsearch.store import read_result
from passsearch.studies import (
    AFTER,
    BEFORE,
    RegressionFindings,
    RegressionQuestion,
    Variant,
    candidate_exchanges,
    find_regression,
    regression_side,
    setting_exchanges,
)
from passsearch.toolchain import cache_folder
from passsearch.worker import ScratchFolder

SCHEMA = "passsearch-regress/1"

_log = logging.getLogger(__name__)


@check_arguments
def regress(
    model: object = None,
    *,
    before: str,
    after: str,
    threshold: float = 0.02,
    seconds: float = 600.0,
    threads: int | None = None,
    inputs: InputTypes | None = None,
    batch: int | None = None,
    target: str | None = None,
    tolerance: float | None = None,
    memory: float | None = None,
    catalogs: Sequence[str | Path] = (),
    trust: bool = False,
    progress: Progress | bool | None = None,
) -> Regression:
    """Say what got slower from one engine, version, toolchain, pipeline, run or export to another.

    Both run beside each other in several new processes, with the same threads, and their outputs are compared with a
    reference. A slowdown is certain if it is above the threshold by the fastest inferences and by the medians, in two
    measurements. Where it is, the profilers of both sides say which kernels lost, and for two pipelines of one
    toolchain, or two settings of one engine, exchanges of one thing at a time say which makes the difference.

    Args:
        model: ``zoo:NAME`` or an ONNX file; the network of the runs where both sides are runs.
        before: An engine (``onnxruntime``), a version of one (``onnxruntime==1.24.1``, installed once in an environment
            of its own), either with options of its session (``onnxruntime{graph_optimization_level="ORT_DISABLE_ALL"}``
            ), a toolchain, a version of TVM, ``TOOLCHAIN:PIPELINE``, a run folder or an export folder.
        after: The same, which may be slower.
        threshold: Slowdown that counts, as a share.
        seconds: Time limit of the measurement, the builds of exchanges included.
        threads: Threads of each side; one for each physical core by default.
        progress: ``True`` for a display on standard error (the default in IPython and notebooks), or a callback.

    Returns:
        The answer as JSON; it prints as tables.

    Raises:
        UserError: A side is unknown, or the first has no result.
        EnvironmentFault: A version cannot be installed, or the machine fails.
    """
    begin_s = monotonic()
    requests = read_side(before), read_side(after)
    if target is not None and device_of(target) != "cpu":
        raise UserError(f"`regress` runs on processors, and the target is `{target}`; leave it out.")
    with ExitStack() as stack:
        report = stack.enter_context(progress_callback(progress))
        folder = stack.enter_context(ScratchFolder())
        report("reading the network", 0, 1)
        source = model if model is not None else _source(requests)
        network = resolve_onnx(
            source, inputs=read_inputs(inputs), batch=batch, folder=cache_folder() / "models", trust=trust
        )
        _check_runs(requests, network)
        options: dict[str, Any] = {"target": target, "catalogs": catalog_paths(catalogs)}
        options["limits"] = worker_limits(Limits(memory=memory))
        sides = Sides(
            network, folder, options, stack, requests=requests, tolerance=tolerance, trust=trust, report=report
        )
        question = _question(sides, requests, tolerance=tolerance, threads=threads, threshold=threshold)
        question = replace(question, time_limit=TimeLimit(seconds), progress=report)
        findings = find_regression(question)
        findings.remarks = (*sides.remarks, *findings.remarks)
        record = _record(network, question, findings, seconds=monotonic() - begin_s)
    return Regression(record.to_json())


class Sides:
    """Makes both sides, and the exchanges between them."""

    def __init__(
        self,
        network: OnnxNetwork,
        folder: Path,
        options: Mapping[str, Any],
        stack: ExitStack,
        *,
        requests: tuple[SideRequest, SideRequest],
        tolerance: float | None,
        trust: bool,
        report: Progress,
    ) -> None:
        self.network, self.folder, self._options, self._stack = network, folder, options, stack
        self._requests, self._tolerance, self._trust, self.report = requests, tolerance, trust, report
        self.remarks: dict[str, None] = {}
        self._evaluators: dict[str, WorkerEvaluator] = {}
        self.candidates: dict[str, Candidate] = {}

    @cached_property
    def references(self) -> list[EngineSpec]:
        """The engines whose outputs are right, the best first."""
        found = reference_engines(self.network.file, None)
        if not self.network.file.source.startswith("zoo:"):
            # PyTorch runs a conversion of ours, which only built-in networks are known to survive.
            found.sort(key=lambda each: each.name == PYTORCH)
        return found

    def inputs(self) -> CheckInputs:
        """Return the inputs of the check; the graph shows what integers index."""
        inputs = CheckInputs(self.network.types)
        for evaluator in self._evaluators.values():
            inputs = replace(inputs, ranges={**evaluator.network.ranges, **inputs.ranges})
        return inputs

    def evaluator(self, request: SideRequest) -> WorkerEvaluator:
        """Return the evaluator of the network with a toolchain; both sides share that of the same toolchain."""
        assert request.toolchain is not None
        name = request.toolchain.name
        if name not in self._evaluators:
            session = open_session(self.network.file, toolchain=name, **self._options)
            if session.cannot_run_reason:
                raise UserError(f"Nothing can be timed for `{session.target}`: {session.cannot_run_reason}.")
            texts = [each.pipeline for each in self._requests if each.toolchain == request.toolchain and each.pipeline]
            if self._tolerance is None and (budget := recorded_budget(session, texts)):
                session = replace(session, budget=budget)  # what the runs were judged by
            opened = open_evaluator(session, folder=self.folder / name, remember=False)
            self._evaluators[name] = self._stack.enter_context(opened)
        return self._evaluators[name]

    def make(self, request: SideRequest, name: str) -> EngineSpec | str:
        """Return a side as an engine, or why it does not compile."""
        self.report(f"preparing {request.text[:40]}", 0, 1)
        if request.engine:
            return self.engine(request, name, request.options)
        evaluator = self.evaluator(request)
        version, target = evaluator.session.toolchain.tvm_version, evaluator.session.target
        if remark := request.remark(tvm_version=version, target=target):
            self.remarks[remark] = None
        text = request.pipeline or evaluator.session.dialect.baseline.name
        candidate = read_candidate(evaluator.session, text, trust=self._trust)
        analysis = analyze_network(evaluator.session, evaluator.network.summary)
        self.candidates[name] = with_prerequisites(evaluator.session, analysis, candidate)
        try:
            return _judged(
                compile_as_deployed(evaluator, name, self.candidates[name]), evaluator, self.candidates[name]
            )
        except EngineFailure as error:
            return str(error)

    def engine(self, request: SideRequest, name: str, options: Mapping[str, Any]) -> EngineSpec:
        """Return another engine than TVM, with options of its session."""
        python = None
        if request.version:
            python = install_version(request.engine, request.version, progress=lambda text: self.report(text, 0, 1))
        settings = {"options": dict(options)} if options else {}
        # Each side compiles with an empty cache, as its first user does.
        caches = {"TORCHINDUCTOR_CACHE_DIR": str(self.folder / f"inductor-{name}")}
        path = self.network.file.path
        return engine_spec(request.engine, path, python=python, label=name, environment=caches, **settings)

    def compiled(self, request: SideRequest, candidate: Candidate, name: str) -> EngineSpec:
        """Return a candidate as an engine.

        Raises:
            EngineFailure: It does not compile, or its outputs are wrong.
        """
        evaluator = self.evaluator(request)
        built = evaluator.build_candidate(candidate)
        built = built if isinstance(built, Failure) else evaluator.restore(built)
        if isinstance(built, Failure):
            raise EngineFailure(f"{built.kind} in {built.stage} {built.step}: {built.reason}")
        return _judged(artifact_engine(evaluator, name, candidate, folder=built.folder), evaluator, candidate)

    def variants(self, requests: tuple[SideRequest, SideRequest]) -> tuple[list[Variant], str]:
        """Return the exchanges between both sides, or why there are none."""
        first, second = requests
        if first.engine and (first.engine, first.version) == (second.engine, second.version):
            settings = list(setting_exchanges(first.options, second.options))
            made = [
                Variant(text, "setting", partial(self._with_options, second, options)) for text, options in settings
            ]
            return made, "" if made else "both sides have the same settings"
        if first.engine or second.engine:
            return [], "exchanges are between two pipelines of one toolchain, or two settings of one engine"
        if first.toolchain != second.toolchain:
            return [], "the sides are built by different compilers, which cannot exchange passes"
        exchanges = candidate_exchanges(self.candidates[BEFORE], self.candidates[AFTER])
        made = [
            Variant(each.text, each.kind, partial(self.compiled, second, each.candidate), each.size)
            for each in exchanges
        ]
        return made, "" if made else "both sides have the same passes and settings"

    def _with_options(self, request: SideRequest, options: Mapping[str, Any], name: str) -> EngineSpec:
        return self.engine(request, name, options)


def _judged(spec: EngineSpec, evaluator: WorkerEvaluator, candidate: Candidate) -> EngineSpec:
    """Return an engine with the deviation that its run allows weights in fewer bits."""
    tolerated = evaluator.session.tolerated(candidate)
    return spec if tolerated is None else replace(spec, limit=tolerated)


def _source(requests: tuple[SideRequest, SideRequest]) -> object:
    """Return the network that both runs are of.

    Raises:
        UserError: A side is no run, or the runs are of different networks.
    """
    if not all(each.run for each in requests):
        raise UserError("Name the network: passsearch regress MODEL --from A --to B; two runs need none.")
    models = [read_result(each.run)["model"] for each in requests if each.run]
    keys = [(each["sha256"], str(each.get("inputs"))) for each in models]
    if keys[0] != keys[1]:
        names = " and ".join(f"`{each['name']}`" for each in models)
        raise UserError(f"The runs are of different networks or inputs, {names}; compare runs of one network.")
    return models[0]["source"]


def _check_runs(requests: Sequence[SideRequest], network: OnnxNetwork) -> None:
    """Refuse runs of another network, or of other sizes, and pipeline files of another network."""
    for request in requests:
        if request.run and not is_of(recorded := read_result(request.run)["model"], network.file):
            raise UserError(
                f"The run `{request.text}` is of `{recorded['name']}` with other inputs than `{network.file.name}`; "
                "compare runs of one network and size."
            )
        files = [network.file, *([network.file.original] if network.file.original else [])]
        digest = request.recorded.sha256 if request.recorded else ""
        if request.recorded and digest and digest not in [each.sha256 for each in files]:
            raise UserError(
                f"`{request.text}` is of `{request.recorded.network}`, another file than `{network.file.name}`; "
                "compare pipelines of one network."
            )


def _question(
    sides: Sides,
    requests: tuple[SideRequest, SideRequest],
    *,
    tolerance: float | None,
    threads: int | None,
    threshold: float,
) -> RegressionQuestion:
    first, second = (sides.make(each, name) for each, name in zip(requests, (BEFORE, AFTER), strict=True))
    if isinstance(first, str):
        raise UserError(f"`{requests[0].text}` does not compile this network, so there is nothing to compare: {first}.")
    references = _references(sides, requests)
    variants, reason = ([], "") if isinstance(second, str) else sides.variants(requests)
    network = sides.network
    return RegressionQuestion(
        names=(requests[0].text, requests[1].text),
        specs=(first, second),
        references=references,
        types=network.types,
        inputs=sides.inputs(),
        threads=threads or physical_cores(),
        limit=network.limit if tolerance is None else tolerance,
        batch=leading_batch(network.types),
        folder=sides.folder / "timing",
        threshold=threshold,
        variants=variants,
        no_variants=reason,
    )


def _references(sides: Sides, requests: Sequence[SideRequest]) -> list[EngineSpec]:
    """Return the references; TVM without optimisations where no other engine is installed."""
    references = list(sides.references)
    compiler = next((each for each in requests if not each.engine), None)
    if not references and compiler is not None:
        try:
            references.append(compile_as_deployed(sides.evaluator(compiler), UNOPTIMISED, Candidate()))
        except EngineFailure as error:
            _log.info("no reference by %s: %s", UNOPTIMISED, error)
    if not references:
        raise EnvironmentFault(
            "Outputs are compared with those of PyTorch in float64 or of ONNX Runtime, and neither is installed. "
            "Run: passsearch toolchain install onnxruntime"
        )
    return references


def _record(
    network: OnnxNetwork, question: RegressionQuestion, findings: RegressionFindings, *, seconds: float
) -> RegressionRecord:
    records = findings.records
    made = [
        regression_side(question, records.get(name), text, failure=findings.failure if name == AFTER else "")
        for name, text in zip((BEFORE, AFTER), question.names, strict=True)
    ]
    return RegressionRecord(
        schema=SCHEMA,
        measured_at=timestamp(),
        model=network.file.name,
        source=network.file.source,
        batch=question.batch,
        device=Device.from_json(probe("cpu").device),
        threads=question.threads,
        threshold=question.threshold,
        before=made[0],
        after=made[1],
        verdict=findings.verdict,
        regressed=findings.regressed,
        ratios=findings.ratios,
        confirmation=findings.confirmation,
        processes=findings.processes,
        reference=findings.timing.reference.name,
        others_percent=round(findings.others_percent, 2),
        kernels=findings.kernels,
        no_kernels=findings.no_kernels,
        outside_s=findings.outside_s,
        exchanges=findings.exchanges,
        no_exchanges=findings.no_exchanges,
        remarks=findings.remarks,
        named=findings.named,
        seconds=round(seconds, 1),
    )
