"""``analyze`` and ``compare``: what is asked about a network without searching."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from passsearch.api.asking import Progress, evaluating, network, paths, silent
from passsearch.catalog import bind_pipeline
from passsearch.core import DEADLINE_S, Candidate, TensorType
from passsearch.errors import UserError
from passsearch.export import read_pipeline
from passsearch.search import setting
from passsearch.search.comparison import CACHES, CF22, PAIRED, PROTOCOLS, compare_candidates


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
    file = network(model, example_inputs, inputs=inputs, batch=batch, toolchain=toolchain)
    chosen = setting.choose(file, toolchain=toolchain, target=None, catalogs=paths(catalogs))
    with evaluating(chosen, remember=False) as evaluator:
        return setting.read(chosen, evaluator.summary)


def compare(
    model: object,
    pipelines: Sequence[str],
    *,
    example_inputs: object = None,
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
    file = network(model, example_inputs, inputs=inputs, batch=batch, toolchain=toolchain)
    chosen = setting.choose(
        file,
        toolchain=toolchain,
        target=target,
        catalogs=paths(catalogs),
        tolerance=tolerance,
        deadline_s=deadline,
    )
    contenders = [_contender(chosen, text) for text in pipelines]
    with evaluating(chosen, remember=False) as evaluator:
        return compare_candidates(
            chosen,
            contenders,
            evaluator=evaluator,
            rounds=rounds,
            processes=processes,
            protocol=protocol,
            cache=cache,
            progress=progress or silent,
        )


def _contender(chosen: setting.Setting, text: str) -> Candidate:
    if text.endswith(".json"):
        file = read_pipeline(Path(text))
        candidate = Candidate(file.pipeline, file.build, Path(text).stem)
    else:
        candidate = setting.named(chosen, text)
    bind_pipeline(candidate.pipeline, chosen.catalog)
    return candidate
