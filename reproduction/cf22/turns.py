"""Fresh compiles of several candidates in turns, so that a machine that gets slower meanwhile favours none of them."""

import shutil
from collections.abc import Callable, Mapping, Sequence
from math import log
from typing import Any

from passsearch.core import Candidate, Failure
from passsearch.evaluate import WorkerEvaluator
from passsearch.measure import mean_ratio


def compile_in_turns(
    evaluator: WorkerEvaluator, variants: Mapping[str, Candidate], *, compiles: int, progress: Callable[[str], None]
) -> dict[str, list[dict[str, Any]]]:
    """Return the compiles of every variant, each made in a new process.

    Args:
        evaluator: Compiles the network.
        variants: Candidates by name.
        compiles: Number of fresh compiles of each variant.
        progress: Callback; gets the current step in words.
    """
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in variants}
    names = list(variants)
    for turn in range(compiles):
        # The variant that comes first changes with every turn.
        first = turn % len(names)
        for name in (*names[first:], *names[:first]):
            rows[name].append(compile_once(evaluator, f"{name}-{turn}", variants[name]))
        progress(f"{turn + 1} of {compiles} compiles of each variant")
    return rows


def compile_once(evaluator: WorkerEvaluator, key: str, candidate: Candidate) -> dict[str, Any]:
    """Return time, parts and binary of one compile in a new process, or its failure."""
    compiled = evaluator.compile_fresh(key, candidate, timing_key="", kinds=())
    if isinstance(compiled, Failure):
        return {"failure": compiled.to_json()}
    # The folder can be as large as the network's parameters, and nothing is timed.
    shutil.rmtree(compiled.folder, ignore_errors=True)
    parts = {part: round(seconds, 4) for part, seconds in compiled.parts_s.items()}
    return {"compile_s": compiled.compile_s, "apply_s": compiled.apply_s, "parts_s": parts, "binary": compiled.digest}


def compile_ratio(rows: Sequence[Mapping[str, Any]], reference: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return how many times longer a variant compiles than a reference, with its 95 % interval over the turns."""
    pairs = [log(row["compile_s"] / other["compile_s"]) for row, other in zip(rows, reference, strict=True)]
    return mean_ratio(pairs).to_json()
