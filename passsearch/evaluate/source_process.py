"""Runs a network by its own framework: in this process for an object of it, else in a process of its own."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from passsearch.core import MACHINE_FAULTS
from passsearch.errors import EnvironmentFault, UserError
from passsearch.evaluate.model_import import framework_worker
from passsearch.evaluate.session import Session
from passsearch.measure import source_outputs
from passsearch.store import Fact
from passsearch.worker import Worker

ONNX_BRIDGE = "passsearch.frontends.source_runtimes.onnx_runtime:OnnxSource"


def ask_source(session: Session, request: Mapping[str, Any], *, log: Path) -> Fact:
    """Write the outputs of a network's own framework; return the answer of ``source_outputs``.

    Args:
        session: The session with the network.
        request: ``inputs``, ``cases``, ``outputs`` and ``total_s`` as ``source_outputs`` takes them.
        log: File that collects what the framework prints.

    Raises:
        UserError: The framework refuses the network, or is not installed.
        EnvironmentFault: The machine keeps the framework from running.
        WorkerDied: The process ended, or took too long.
    """
    if session.model.live is not None:
        return source_outputs(session.model.live(), request)
    worker = _start(session, log=log)
    try:
        asked = {**request, "verb": "source", "source": session.model.to_request()}
        answer = worker.ask(asked, deadline_s=session.limits.deadline_s)
    finally:
        worker.close()
    if "error" in answer:
        kind, reason = answer["error"]["kind"], answer["error"]["reason"]
        raise EnvironmentFault(reason) if kind in MACHINE_FAULTS else UserError(reason)
    return answer


def _start(session: Session, *, log: Path) -> Worker:
    """Start a process that has the framework: this interpreter for ONNX, else the one that imports the format."""
    if session.model.format != "onnx":
        return framework_worker(session, log=log, threads=session.threads)
    settings: dict[str, Any] = {"target": session.target, "threads": session.threads, "log": log}
    return Worker(Path(sys.executable), bridge=ONNX_BRIDGE, memory_bytes=session.limits.memory_bytes, **settings)
