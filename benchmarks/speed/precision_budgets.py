"""Decides on the precision of every layer's weights at several error budgets, and times what was decided.

``python -m benchmarks.speed.precision_budgets`` decides for each network at each budget, from ``PLAIN`` with all
weights in float32; for ``NETWORK-mixed`` on activations too. Then all decided pipelines, and the fastest single storage
within each budget, run in turns in several processes. Names after it choose networks. What is in
``benchmarks/results/precision_budgets.json``, or in the file that ``--out`` names, is not measured again. ``--table``
prints Markdown from it.
"""

import argparse
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from time import monotonic
from typing import Any

from benchmarks.common import RESULTS, RUNS, markdown, network_session, options, ratio_text, read_rows, write_row
from passsearch.api.common import open_evaluator
from passsearch.core import (
    FLOAT32,
    NARROWING,
    WEIGHTS,
    Candidate,
    ErrorBudget,
    Failure,
    PassSpec,
    Pipeline,
)
from passsearch.evaluate import Built, TimedArtifacts, TimingRequest, WorkerEvaluator
from passsearch.measure import mean_ratio
from passsearch.results import PrecisionDecision, StoredWeights, UniformPrecision
from passsearch.search import named_candidate
from passsearch.search.precision import Gain, PrecisionChooser
from passsearch.search.precision_request import precision_request
from passsearch.search.storage_times import insert

NETWORKS = ("llama_decode", "llama_decode-mixed", "bert_base_16", "gpt2", "resnet50", "mobilenet_v2", "vit", "vgg19")
BUDGETS = (1e-3, 1e-2, 5e-2)
PLAIN = "decoder-schedule-cpu"
OTHERS = {"resnet50": "nhwc-schedule-cpu", "mobilenet_v2": "nhwc-schedule-cpu", "vgg19": "nhwc-schedule-cpu"}
"""The pipelines of networks for which ``PLAIN`` is not the recommended one."""


def measure(network: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """Return what was decided at each budget, and the measured ratios to float32."""
    begin_s, (name, _, precision) = monotonic(), network.partition("-")
    session = network_session(f"zoo:{name}", "relax")
    candidate = named_candidate(session, OTHERS.get(name, PLAIN))
    # The largest budget, so that what is admitted is decided by the one of each request.
    largest = ErrorBudget(max(BUDGETS), bound=max(BUDGETS), precision=precision or WEIGHTS)
    session, folder = replace(session, budget=largest), RUNS / f"precision-{network}"
    with open_evaluator(session, folder=folder, remember=True) as evaluator:
        # It makes the reference, too.
        built = evaluator.build_candidate(candidate)
        if isinstance(built, Failure):
            return {"failure": built.reason}
        decisions = {budget: _decide(evaluator, candidate, budget) for budget in BUDGETS}
        pipelines = {str(candidate.pipeline)}
        for found in decisions.values():
            if isinstance(found, PrecisionDecision):
                pipelines |= {text for text in (found.pipeline, _single(evaluator, found, candidate)) if text}
        timed = _timed(evaluator, candidate, sorted(pipelines), arguments)
        rows = {
            f"{budget:g}": {"failure": found.reason}
            if isinstance(found, Failure)
            else {
                **found.to_json(),
                "predicted_gain": found.predicted_gain,
                "measured": timed.get(found.pipeline or str(candidate.pipeline)),
                "single": timed.get(_single(evaluator, found, candidate) or ""),
            }
            for budget, found in decisions.items()
        }
    return {"budgets": rows, "seconds": round(monotonic() - begin_s, 1)}


def _decide(evaluator: WorkerEvaluator, candidate: Candidate, budget: float) -> PrecisionDecision | Failure:
    session = evaluator.session
    assert session.budget is not None
    own = replace(session, budget=replace(session.budget, limit=budget, bound=budget))
    asked = precision_request(own, evaluator)
    assert asked is not None
    chooser = PrecisionChooser(evaluator, *asked, list(session.catalog.entries.values()), build=candidate.build)

    def evaluate(chosen: Candidate) -> Gain | Failure:
        built = evaluator.build_candidate(chosen)
        return built if isinstance(built, Failure) else Gain(chosen.pipeline, None)

    return chooser.decide(candidate.pipeline, evaluate)


def best_single(decision: PrecisionDecision) -> UniformPrecision | None:
    """Return the storage for all layers that is predicted to be the fastest within the budget."""
    within = [each for each in decision.uniform if each.error is not None and each.error <= decision.budget]
    faster = [each for each in within if each.predicted_s < decision.begin_s]
    return min(faster, key=lambda each: each.predicted_s, default=None)


def _single(evaluator: WorkerEvaluator, decision: PrecisionDecision, candidate: Candidate) -> str | None:
    """Return the pipeline with that storage."""
    best = best_single(decision)
    if best is None:
        return None
    arguments: dict[str, Any] = {"group": best.group} if best.group else {}
    arguments |= {"activations": best.activations} if best.activations != FLOAT32 else {}
    step = PassSpec.of(NARROWING, storage=best.storage, **arguments)
    return str(insert(candidate.pipeline, step, evaluator.session.catalog.entry(NARROWING)))


def _timed(
    evaluator: WorkerEvaluator, plain: Candidate, pipelines: Sequence[str], arguments: argparse.Namespace
) -> dict[str, Any]:
    """Return the ratio of each pipeline to the plain one, which run in turns in several processes."""
    candidates = [plain, *(Candidate(Pipeline.parse(text), plain.build) for text in pipelines)]
    built = [each for each in map(evaluator.build_candidate, candidates) if isinstance(each, Built)]
    artifacts = TimedArtifacts(built[0].folder, tuple(each.folder for each in built[1:]))
    key = "|".join(each.digest for each in built)
    request = TimingRequest(
        key, artifacts, evaluator.plans.final_rounds, processes=arguments.processes, restored=tuple(built)
    )
    timed = evaluator.time_fresh(request)
    if isinstance(timed, Failure) or len(built) < len(candidates):
        return {}
    found = {}
    for place, text in enumerate(pipelines):
        pairs = [(min(each.baseline), min(each.candidates[place])) for each in timed.processes]
        ratio = mean_ratio([math.log(before / after) for before, after in pairs])
        interval = ratio.interval and [ratio.interval.low, ratio.interval.high]
        found[text] = {
            "pipeline": text,
            "gain": {"ratio": ratio.value, "interval": interval},
            "fastest_s": min(after for _, after in pairs),
        }
    return found


def table(rows: Mapping[str, Mapping[str, Any]]) -> str:
    """Return Markdown: a line for each network and budget."""
    lines = []
    for network, row in rows.items():
        for budget, found in row.get("budgets", {}).items():
            if "failure" in found:
                lines.append([network, budget, *["–"] * 6, found["failure"]])
                continue
            counts = Counter(
                StoredWeights(**{key: each[key] for key in ("storage", "group", "activations") if key in each}).text
                for each in found["layers"]
            )
            single, measured = found["single"], found["measured"] or {}
            lines.append(
                [
                    *(network, budget, ", ".join(f"{number} {text}" for text, number in counts.most_common())),
                    *(f"{found['predicted_gain']:.2f}", ratio_text(measured.get("gain"))),
                    # Before the factor that measurements of the whole network correct it by.
                    *(f"{found['predicted_error'] / found['factor']:.1e}", f"{found['error']:.1e}"),
                    ratio_text((single or {}).get("gain")),
                    "–" if found["seconds"] is None else f"{found['seconds']:.0f}",
                ]
            )
    heads = (
        *("network", "budget", "layers", "predicted gain", "measured gain", "error if layers add up", "error"),
        *("measured gain of the best single storage", "seconds"),
    )
    return markdown(heads, lines)


def main() -> None:
    arguments = options(
        __doc__,
        ("networks", NETWORKS),
        processes=3,
        out=RESULTS / "precision_budgets.json",
        table=(False, "print Markdown, and measure nothing"),
    )
    known = read_rows(arguments.out, "networks")
    for network in [each for each in arguments.networks if each not in known and not arguments.table]:
        row = measure(network, arguments)
        session = network_session(f"zoo:{network.partition('-')[0]}", "relax")
        write_row(arguments.out, "networks", name=network, row=row, session=session)
    print(table(read_rows(arguments.out, "networks")))


if __name__ == "__main__":
    main()
