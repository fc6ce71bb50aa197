"""``analyze`` and ``compare``: what is asked about a network without searching."""

import re
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from passsearch.api.common import Progress, evaluating, network, paths, silent
from passsearch.catalog import bind_pipeline
from passsearch.core import DEADLINE_S, Candidate, TensorType
from passsearch.errors import UserError
from passsearch.evaluate import Session, open_session
from passsearch.export import read_pipeline
from passsearch.search.comparison import CACHES, CF22, PAIRED, PROTOCOLS, Side, compare_candidates
from passsearch.search.pass_selection import NetworkAnalysis, analyze_network, named_candidate
from passsearch.toolchain import get_toolchain

_QUALIFIED = re.compile(r"([A-Za-z0-9_.-]+):(.+)")


def analyze(
    model: object,
    example_inputs: object = None,
    *,
    inputs: Mapping[str, TensorType] | None = None,
    batch: int | None = None,
    toolchain: str | None = None,
    catalogs: Sequence[str | Path] = (),
) -> NetworkAnalysis:
    """Operators, features, classes with evidence, and candidate passes with reasons."""
    file = network(model, example_inputs, inputs=inputs, batch=batch, toolchain=toolchain)
    chosen = open_session(file, toolchain=toolchain, target=None, catalogs=paths(catalogs))
    with evaluating(chosen, remember=False) as evaluator:
        return analyze_network(chosen, evaluator.summary)


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

    One written ``TOOLCHAIN:PIPELINE`` is built by that toolchain, to compare compilers. The first that is a baseline's
    name, else the default of the first toolchain, is what others are compared with. With protocol ``cf22`` each runs
    by itself 1000 times as in the paper, which proves nothing and gives no verdict. With cache ``flushed`` nothing of
    the network is in the processor's caches when a run begins.
    """
    for what, given, known in (("protocol", protocol, PROTOCOLS), ("cache state", cache, CACHES)):
        if given not in known:
            raise UserError(f"Unknown {what} `{given}`; choose from: {', '.join(known)}.")
    if protocol == CF22 and cache != "warm":
        raise UserError("Protocol `cf22` measures with warm caches, as the paper did; leave the cache state out.")
    asked = _by_toolchain(pipelines, toolchain)
    if protocol == CF22 and len(asked) > 1:
        raise UserError("Protocol `cf22` runs all pipelines in one process, so it takes those of one toolchain.")
    told = progress or silent
    with ExitStack() as stack:
        sides = []
        for name, texts in asked.items():
            chosen = open_session(
                network(model, example_inputs, inputs=inputs, batch=batch, toolchain=name),
                toolchain=name,
                target=target,
                catalogs=paths(catalogs),
                tolerance=tolerance,
                deadline_s=deadline,
            )
            if chosen.idle:
                raise UserError(f"Nothing can be timed for `{chosen.target}`: {chosen.idle}.")
            if cache != "warm" and chosen.device != "cpu":
                raise UserError(f"Caches of `{chosen.target}` cannot be flushed; leave the cache state out.")
            contenders = [_contender(chosen, text) for text in texts]
            sides.append(Side(chosen, stack.enter_context(evaluating(chosen, remember=False)), contenders))
        return compare_candidates(
            sides, rounds=rounds, processes=processes, protocol=protocol, cache=cache, progress=told
        )


def _by_toolchain(pipelines: Sequence[str], default: str | None) -> dict[str | None, list[str]]:
    """What each toolchain is to build, in the order first named: ``TOOLCHAIN:PIPELINE``, or the default's."""
    named = [_QUALIFIED.match(text) for text in pipelines]
    if not any(named):
        return {default: list(pipelines)}
    default = get_toolchain(default).name
    found: dict[str | None, list[str]] = {}
    for text, match in zip(pipelines, named, strict=True):
        name, pipeline = (match[1], match[2]) if match else (default, text)
        found.setdefault(name, []).append(pipeline)
    return found


def _contender(chosen: Session, text: str) -> Candidate:
    if text.endswith(".json"):
        file = read_pipeline(Path(text))
        candidate = Candidate(file.pipeline, file.build, Path(text).stem)
    else:
        candidate = named_candidate(chosen, text)
    bind_pipeline(candidate.pipeline, chosen.catalog)
    return candidate
