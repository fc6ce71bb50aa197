"""An explored space as a document that others can check: every state, every edge, and what follows from them."""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from passsearch.core import Failure, Pipeline
from passsearch.errors import UserError
from passsearch.evaluate import FAILED, UNTRIED, Closure, Growth, Session, WorkerEvaluator
from passsearch.results import (
    CertificateCheck,
    ClosedPart,
    ExploredSpace,
    NetworkIdentity,
    PassPair,
    Reference,
    SequenceCount,
    SpaceGraph,
)
from passsearch.search.document import compiler_of

SCHEMA = "passsearch-space/2"
COUNTED_LENGTH = 12
"""Length up to which sequences are counted, unless the graph is deeper."""

_log = logging.getLogger(__name__)


def explored_space(
    session: Session,
    closure: Closure,
    *,
    growth: Growth,
    classes: Sequence[str],
    left_out: Sequence[str],
    remembered: bool,
    reference: Reference,
) -> ExploredSpace:
    """Return what ``explore --json`` prints and ``--out`` writes.

    Args:
        session: Network and compiler.
        closure: The states and edges.
        growth: Progress and outcome of the exploration.
        classes: Architecture classes of the network.
        left_out: Passes that are explored on request only, because the space never closes with them.
        remembered: True if later runs know the space too.
        reference: What proves that the network is the one of its source.
    """
    commuting, others = closure.commuting()
    part = closure if closure.closed else closure.closed_part()
    depth = closure.depth
    crashed = ("crash", "timeout", "oom")
    return ExploredSpace(
        schema=SCHEMA,
        model=NetworkIdentity(session.model.name, session.model.source, session.model.sha256),
        target=session.target,
        toolchain=compiler_of(session),
        reference=reference,
        classes=tuple(classes),
        closed=closure.closed,
        ended=growth.ended,
        states=len(closure.states),
        unfinished=int((closure.table == UNTRIED).any(axis=1).sum()),
        edges=int((closure.table != UNTRIED).sum()),
        failed=int((closure.table < UNTRIED).sum()),
        depth=depth,
        sequences=tuple(
            SequenceCount(length=length, number=count, valid=valid)
            for length, (count, valid) in enumerate(closure.sequences(max(depth, COUNTED_LENGTH)))
        ),
        steps=closure.steps,
        left_out=tuple(left_out),
        given_up=tuple(sorted({failure.step for failure in closure.failures if failure.kind in crashed})),
        # Certificates of earlier versions have these two keys: no-op passes, nondeterministic passes.
        idle=tuple(closure.no_op_passes()),
        unsteady=tuple(growth.nondeterministic),
        not_idempotent=closure.not_idempotent(),
        commuting=tuple(commuting),
        not_commuting=tuple(
            PassPair(first, second, equal=equal, different=different)
            for (first, second), (equal, different) in sorted(others.items(), key=lambda item: -item[1][1])
        ),
        enabling=_pairs(closure.enabling()),
        disabling=_pairs(closure.disabling()),
        # "Never again" is only certain where no edge is left to try.
        barriers=tuple(closure.barriers()) if closure.closed else None,
        new_states=growth.by_step,
        closed_part=ClosedPart(tuple(part.steps), len(part.states)),
        growth=tuple(growth.curve),
        tried=growth.applied_count,
        remembered=remembered,
        seconds=round(growth.seconds, 1),
        graph=SpaceGraph.from_json(closure.to_json()),
    )


def _pairs(pairs: Mapping[tuple[str, str], int]) -> tuple[PassPair, ...]:
    ordered = sorted(pairs.items(), key=lambda item: -item[1])
    return tuple(PassPair(first, second, states=number) for (first, second), number in ordered)


def read_closure(document: Mapping[str, Any], place: str) -> Closure:
    """Return the graph in a certificate.

    Raises:
        UserError: The file is no certificate, or it is incomplete.
    """
    if document.get("schema") != SCHEMA:
        schema = document.get("schema", "none")
        raise UserError(f"`{place}` is not an explored space: its schema is `{schema}`, this version reads `{SCHEMA}`.")
    try:
        closure = Closure.from_json(document["graph"])
        toolchain = document["toolchain"]
        identity = (document["model"]["sha256"], document["target"], toolchain["tvm_version"], toolchain["name"])
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"The explored space `{place}` is not whole: {error}.") from None
    if not closure.states or not all(isinstance(value, str) for value in identity):
        raise UserError(f"The explored space `{place}` is not whole: it has no states or does not name its network.")
    return closure


def check_certificate(
    document: Mapping[str, Any],
    closure: Closure,
    *,
    evaluator: WorkerEvaluator,
    sample: int,
    seed: int,
    progress: Callable[[int, int], None],
) -> CertificateCheck:
    """Apply a random sample of the edges again, each from the network by the pipeline that the certificate states.

    An edge agrees if it leads to the state with the same hash, computed again, or fails again. Crashes and timeouts are
    not tried again, nor are nondeterministic passes: they prove nothing about the IR.

    Args:
        document: The certificate.
        closure: Its graph.
        evaluator: An evaluator of the same network, with an empty log.
        sample: Number of edges.
        seed: Seed of the sample.
        progress: Callback; gets the number of checked edges and of all edges in the sample.
    """
    problems = _mismatches(document, evaluator, closure=closure)
    _log.debug("differences before any edge is applied: %s", "; ".join(problems) or "none")
    edges = [
        (row, column)
        for row, targets in enumerate(closure.table.tolist())
        for column, target in enumerate(targets)
        if _can_be_checked(closure, target)
    ]
    sampled_edges = np.random.default_rng(seed).choice(edges, min(sample, len(edges)), replace=False)
    reached = closure.graph.depths()
    _log.info("checking %d of %d edges", len(sampled_edges), len(edges))
    for number, (row, column) in enumerate(sorted(sampled_edges.tolist()) if not problems else ()):
        progress(number, len(sampled_edges))
        if closure.states[row] in reached:
            problems += _check_edge(closure, row, column=column, evaluator=evaluator)
        else:
            problems.append(f"the file has no pipeline that reaches {closure.states[row]}")
    return CertificateCheck(
        schema=SCHEMA,
        holds=not problems,
        problems=tuple(problems),
        checked=len(sampled_edges) if not problems else None,
        edges=len(edges),
        closed=closure.closed,
        states=len(closure.states),
        seed=seed,
    )


def _can_be_checked(closure: Closure, target: int) -> bool:
    return target >= 0 or (target <= FAILED and closure.failures[FAILED - target].kind == "compile_error")


def _mismatches(document: Mapping[str, Any], evaluator: WorkerEvaluator, *, closure: Closure) -> list[str]:
    """Compare network, target and compiler with those of the certificate."""
    session = evaluator.session
    here = {
        "network": session.model.sha256,
        "target": session.target,
        "TVM": session.toolchain.tvm_version,
        "first state": evaluator.graph.root,
    }
    recorded = {
        "network": document["model"]["sha256"],
        "target": document["target"],
        "TVM": document["toolchain"]["tvm_version"],
        "first state": closure.states[0],
    }
    return [
        f"{what}: here `{here[what]}`, in the file `{recorded[what]}`" for what in here if here[what] != recorded[what]
    ]


def _check_edge(closure: Closure, row: int, *, column: int, evaluator: WorkerEvaluator) -> list[str]:
    _log.debug("checking %s on state %s", closure.steps[column], closure.states[row])
    prefix, _ = closure.graph.cheapest(closure.states[row])
    pipeline = Pipeline((*prefix.passes, closure.passes[column]))
    # The recorded edge may say "unchanged" by a comparison without hashes. Here the hash is computed in every case.
    edges = evaluator.applier.path(pipeline, identify=True)
    actual = edges[-1].target
    if len(edges) < len(pipeline):
        assert isinstance(actual, Failure)
        return [f"`{pipeline}` no longer reaches {closure.states[row]}: {actual.reason}"]
    target = int(closure.table[row, column])
    if isinstance(actual, Failure):
        kind = None if target >= 0 else closure.failures[FAILED - target].kind
        return [] if kind == actual.kind else [f"`{pipeline}` fails ({actual.kind}); the file has another outcome"]
    recorded = closure.states[target] if target >= 0 else "a failure"
    return [] if actual == recorded else [f"`{pipeline}` leads to {actual}; the file has {recorded}"]
