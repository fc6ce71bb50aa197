"""Applies hostile passes in one session: ``python hostile_session.py NETWORK TOOLCHAIN MARK BEHAVIOUR…``.

Standard output gets a line of JSON for each: the outcome, whether the session lost a fact, whether a good pass fails
afterwards, and the processes that are left.
"""

import json
import os
import sys
from contextlib import suppress
from pathlib import Path

import psutil

import passsearch
from passsearch.core import Failure, PassSpec, Pipeline

HERE, ROOT = Path(__file__).parent, f"{Path(__file__).parents[2]}/"
GOOD = PassSpec.of("LegalizeOps")
DEADLINE_S, MEMORY_BYTES = 20.0, 2_000_000_000


def main() -> None:
    """Apply all passes, each behind a good one, and the good one with another after each."""
    network, toolchain, mark, *behaviours = sys.argv[1:]
    with passsearch.session(
        network,
        toolchain=toolchain,
        catalogs=[HERE / "hostile_passes.yaml"],
        deadline=DEADLINE_S,
        memory=MEMORY_BYTES / 1e9,
        remember=False,
    ) as evaluator:
        good = evaluator.reach(Pipeline((GOOD,)))
        for behaviour in behaviours:
            hostile = PassSpec.of("Hostile", behaviour=behaviour)
            outcome = evaluator.reach(Pipeline((GOOD, hostile)))
            # Not recorded yet, so a process must apply it.
            after = evaluator.applier.compiler.apply(evaluator.graph.root, GOOD)
            row = {
                "behaviour": behaviour,
                "outcome": f"`{outcome.kind}`: {outcome.reason.replace(ROOT, '')[:70]}"
                if isinstance(outcome, Failure)
                else "applied",
                "lost": int(evaluator.reach(Pipeline((GOOD,))) != good),
                "false": int(after.get("state") != good),
                "orphans": len(_others(mark)),
            }
            print(json.dumps(row), flush=True)


def _others(mark: str) -> list[int]:
    """Return the processes with a mark in their environment that are neither this one nor its workers."""
    own = {os.getpid(), *(child.pid for child in psutil.Process().children())}
    found = []
    for process in psutil.process_iter():
        with suppress(OSError, psutil.Error):
            environment = Path(f"/proc/{process.pid}/environ").read_bytes()
            if mark.encode() in environment and process.pid not in own and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process.pid)
    return found


if __name__ == "__main__":
    main()
