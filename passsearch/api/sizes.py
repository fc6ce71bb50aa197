"""Networks that are compiled for several sizes in one folder: what they do with the sizes between."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from passsearch.core import (
    OPEN,
    Calls,
    Case,
    Failure,
    NetworkOptions,
    growing_axes,
    require_increasing,
    sizes_below,
    with_open_sizes,
)
from passsearch.errors import UserError
from passsearch.evaluate import DEPLOYMENT_SEED, WorkerEvaluator
from passsearch.export import ARTIFACT_FOLDER
from passsearch.measure import digest
from passsearch.results import CompiledSizes
from passsearch.standalone.deployment.checked_files import Built

T = TypeVar("T")

SIZES = "sizes.json"
"""File of a built folder that says what calls of several sizes take."""


def compile_sizes(options: NetworkOptions, attempt: Callable[[Callable[[Calls], Calls], str], T]) -> T:
    """Compile a network with a function of open sizes where it has several sizes, and without it where that fails.

    Args:
        options: The options of the network.
        attempt: Compiles the network; gets what prepares its calls, and why there is no function of open sizes.
    """
    if not options.sizes or options.keep_symbolic:
        return attempt(lambda calls: calls, "")
    try:
        return attempt(lambda calls: with_open_sizes(calls) if calls.cases else calls, "")
    except UserError as error:
        reason = f"it cannot be compiled with open sizes: {str(error).rstrip('.')}"
    return attempt(_checked, reason)


def _checked(calls: Calls) -> Calls:
    require_increasing(calls.cases)
    return calls


def size_record(evaluator: WorkerEvaluator, expected: Sequence[Any], *, open_reason: str) -> dict[str, Any]:
    """Return what a deployment says of its sizes; empty where it has one.

    Args:
        evaluator: The evaluator of the network.
        expected: Digests of the outputs of all cases.
        open_reason: Why there is no function of open sizes; empty if there is one.
    """
    cases = evaluator.network.cases
    buckets, between = ([case for case in cases if case.is_symbolic is is_open] for is_open in (False, True))
    if not buckets or len({case.function for case in evaluator.session.model.cases}) > 1:
        return {}
    growing = growing_axes(buckets)
    proof: Mapping[str, Any] = {"reason": open_reason}
    if between:
        proof = _prove(evaluator, buckets, growing)
    is_proven = "reason" not in proof
    return {
        "buckets": [{"name": case.name, "function": case.entry, "inputs": dict(_shapes(case))} for case in buckets],
        "inputs": [
            [
                name,
                kind.dtype,
                [f"{name}_{axis}" if axis in growing[name] else size for axis, size in enumerate(kind.shape)],
            ]
            for name, kind in buckets[0].inputs.items()
        ],
        "growing": dict(growing),
        "open": bool(between),
        "open_reason": open_reason,
        "padding": dict(proof) if is_proven else None,
        "padding_reason": "" if is_proven else proof["reason"],
        "expected": _source_outputs(evaluator, len(expected)) if between else [],
    }


def read_sizes(folder: Path) -> CompiledSizes | None:
    """Return what a deployment's build has found out of its sizes; ``None`` where it has one, or was not built."""
    file = folder / ARTIFACT_FOLDER / SIZES
    return CompiledSizes.from_json(json.loads(file.read_text())) if file.exists() else None


def sized_inputs(built: Built, sizes: Mapping[str, Any]) -> Any:
    """Return ``[name, dtype, shape]`` of each input of a network of several sizes; an open size has a name."""
    return built.inputs.get(OPEN) or sizes["inputs"]


def _shapes(case: Case) -> dict[str, list[int]]:
    return {name: [size or 0 for size in kind.shape] for name, kind in case.inputs.items()}


def _prove(
    evaluator: WorkerEvaluator, buckets: Sequence[Case], growing: Mapping[str, Sequence[int]]
) -> Mapping[str, Any]:
    """Return how the network is padded, or the ``reason`` why it is not."""
    shapes = [{name: tuple(shape) for name, shape in _shapes(case).items()} for case in buckets]
    below = [None, *shapes]
    pairs = [
        [small, large]
        for smaller, large in zip(below, shapes, strict=False)
        for small in sizes_below(smaller, large, growing)
    ]
    prover = evaluator.session.dialect.padding_prover
    answer = evaluator.applier.compiler.ask(
        "apply", "prove", state=evaluator.network.root, prover=prover, arguments={"entry": OPEN, "pairs": pairs}
    )
    if "failure" in answer:
        return {"reason": Failure.from_json(answer["failure"]).reason}
    proof: Mapping[str, Any] = answer["proof"]
    return proof


def _source_outputs(evaluator: WorkerEvaluator, count: int) -> list[dict[str, Any]]:
    """Return digests of the source's outputs at the sizes between; empty where it did not compute them."""
    cases = evaluator.network.cases
    if not evaluator.builder.source.key:
        return []
    with np.load(evaluator.builder.reference) as arrays:
        names = [f"{DEPLOYMENT_SEED}_{place}" for place in range(count)]
        if not all(name in arrays.files for name in names):
            return []
        each = count // len(cases)
        own = [place for place, case in enumerate(cases) if case.is_symbolic]
        return digest([arrays[name] for place in own for name in names[place * each : (place + 1) * each]])
