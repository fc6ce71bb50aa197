"""A space that was explored, as a document others can check: every state, every edge, and what follows from them."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from passsearch.core import Failure, Pipeline
from passsearch.errors import UserError
from passsearch.evaluate import Session
from passsearch.evaluate.apply import Applier
from passsearch.evaluate.closure import FAILED, UNTRIED, Closure
from passsearch.evaluate.exploration import Growth
from passsearch.search.document import toolchain_document

SCHEMA = "passsearch-space/2"
LISTED_LENGTH = 12
"""Longest sequences that are counted."""


def space_document(
    chosen: Session,
    closure: Closure,
    *,
    growth: Growth,
    classes: Sequence[str],
    left_out: Sequence[str],
    remembered: bool,
) -> dict[str, Any]:
    """What ``explore --json`` prints and ``--out`` writes.

    Args:
        chosen: What was explored by what.
        closure: The states and edges.
        growth: How they were found.
        classes: Of the network.
        left_out: Passes that must be asked for, as the space never closes with them.
        remembered: Whether later runs know it too.
    """
    together, apart = closure.commuting()
    part = closure if closure.closed else closure.closed_part()
    depth = closure.depth
    return {
        "schema": SCHEMA,
        "model": {"name": chosen.model.name, "source": chosen.model.source, "sha256": chosen.model.sha256},
        "target": chosen.target,
        "toolchain": toolchain_document(chosen),
        "classes": list(classes),
        "closed": closure.closed,
        "ended": growth.ended,
        "states": len(closure.states),
        "unfinished": int((closure.table == UNTRIED).any(axis=1).sum()),
        "edges": int((closure.table != UNTRIED).sum()),
        "failed": int((closure.table < UNTRIED).sum()),
        "depth": depth,
        "sequences": [
            {"length": length, "all": count, "valid": valid}
            for length, (count, valid) in enumerate(closure.sequences(max(depth, LISTED_LENGTH)))
        ],
        "steps": list(closure.steps),
        "left_out": list(left_out),
        "given_up": sorted({each.step for each in closure.failures if each.kind in ("crash", "timeout", "oom")}),
        "idle": closure.idle(),
        "unsteady": growth.unsteady,
        "not_idempotent": closure.not_idempotent(),
        "commuting": [list(pair) for pair in together],
        "not_commuting": _counted(apart, "equal", "different"),
        "enabling": _counted(closure.enabling(), "states"),
        "disabling": _counted(closure.disabling(), "states"),
        "barriers": [list(pair) for pair in closure.barriers()] if closure.closed else None,
        "new_states": growth.by_step,
        "closed_part": {"steps": list(part.steps), "states": len(part.states)},
        "growth": [list(point) for point in growth.curve],
        "tried": growth.tried,
        "remembered": remembered,
        "seconds": round(growth.seconds, 1),
        "graph": closure.to_json(),
    }


def _counted(pairs: Mapping[tuple[str, str], Any], *names: str) -> list[dict[str, Any]]:
    rows = []
    for (first, second), counts in pairs.items():
        numbers = counts if isinstance(counts, tuple) else (counts,)
        rows.append({"first": first, "second": second, **dict(zip(names, numbers, strict=True))})
    return sorted(rows, key=lambda row: -row[names[-1]])


def read_closure(document: Mapping[str, Any], place: str) -> Closure:
    """The graph in a certificate.

    Raises:
        UserError: The file is not one, or not whole.
    """
    if document.get("schema") != SCHEMA:
        found = document.get("schema", "none")
        raise UserError(f"`{place}` is not an explored space: its schema is `{found}`, wanted is `{SCHEMA}`.")
    try:
        closure = Closure.from_json(document["graph"])
        told = (document["model"]["sha256"], document["target"], document["toolchain"]["tvm_version"])
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"The explored space `{place}` is not whole: {error}.") from None
    if not closure.states or not all(isinstance(each, str) for each in told):
        raise UserError(f"The explored space `{place}` is not whole: it has no states or does not name its network.")
    return closure


def check_certificate(
    document: Mapping[str, Any],
    closure: Closure,
    *,
    chosen: Session,
    applier: Applier,
    sample: int,
    seed: int,
    progress: Callable[[int, int], None],
) -> dict[str, Any]:
    """Apply a random sample of the edges again, in new processes, each from the network by the way it says.

    An edge holds if it leads to the state with the same hash, made anew, or is refused again. Crashes and time limits
    are not tried again, nor passes that were found unsteady: they prove nothing about the IR.
    """
    problems = [*_circumstances(document, chosen, applier=applier, closure=closure)]
    told = closure.table.tolist()
    edges = [
        (row, column)
        for row, targets in enumerate(told)
        for column, target in enumerate(targets)
        if _certain(closure, target)
    ]
    drawn = np.random.default_rng(seed).choice(edges, min(sample, len(edges)), replace=False)
    reached = closure.graph.depths()
    for number, (row, column) in enumerate(sorted(drawn.tolist()) if not problems else ()):
        progress(number, len(drawn))
        if closure.states[row] in reached:
            problems += _check_edge(closure, row, column=column, applier=applier)
        else:
            problems.append(f"the file tells of no way to {closure.states[row]}")
    return {
        "schema": SCHEMA,
        "holds": not problems,
        "problems": problems,
        "checked": len(drawn) if not problems else None,
        "edges": len(edges),
        "closed": closure.closed,
        "states": len(closure.states),
        "seed": seed,
    }


def _certain(closure: Closure, target: int) -> bool:
    return target >= 0 or (target <= FAILED and closure.failures[FAILED - target].kind == "compile_error")


def _circumstances(
    document: Mapping[str, Any], chosen: Session, *, applier: Applier, closure: Closure
) -> Sequence[str]:
    here = {
        "network": chosen.model.sha256,
        "target": chosen.target,
        "TVM": toolchain_document(chosen)["tvm_version"],
        "first state": applier.graph.root,
    }
    told = {
        "network": document["model"]["sha256"],
        "target": document["target"],
        "TVM": document["toolchain"]["tvm_version"],
        "first state": closure.states[0],
    }
    return [f"{what}: here `{here[what]}`, in the file `{told[what]}`" for what in here if here[what] != told[what]]


def _check_edge(closure: Closure, row: int, *, column: int, applier: Applier) -> list[str]:
    way, _ = closure.graph.cheapest(closure.states[row])
    pipeline = Pipeline((*way.passes, closure.passes[column]))
    edges = applier.path(pipeline, identify=True)
    if len(edges) < len(pipeline):
        failed = edges[-1].target
        assert isinstance(failed, Failure)
        return [f"`{pipeline}` no longer reaches {closure.states[row]}: {failed.reason}"]
    told, found = int(closure.table[row, column]), edges[-1].target
    if isinstance(found, Failure):
        kind = None if told >= 0 else closure.failures[FAILED - told].kind
        return [] if kind == found.kind else [f"`{pipeline}` fails ({found.kind}); the file has another outcome"]
    wanted = closure.states[told] if told >= 0 else "a failure"
    return [] if found == wanted else [f"`{pipeline}` leads to {found}; the file has {wanted}"]
