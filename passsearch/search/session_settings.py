"""The settings of a run that decide what its facts mean: a run is continued only where they are equal."""

from dataclasses import asdict

from passsearch.core import FLOAT32, SOURCE, WEIGHTS, Json
from passsearch.evaluate import MeasurementPlans, Session, dialect_digest
from passsearch.frontends import digest_files, simplifier_version

LOG_VERSION = 10
"""Grows when facts of the log change their meaning; a run of an earlier version cannot be continued."""


def session_settings(session: Session) -> dict[str, Json]:
    """Return all that decides what is measured of a candidate; facts of a folder with other settings do not hold."""
    model = session.model
    return {
        **_exceptional_settings(session),
        "log_version": LOG_VERSION,
        "model": model.sha256,
        "inputs": model.to_request()["inputs"],
        "batch": model.batch,
        "dialect_code": dialect_digest(session.toolchain.dialect),
        "catalogs": session.catalogs_sha256,
        "threads": session.threads,
        "device": _device_kind(session),
        "target": session.target,
        "toolchain": session.toolchain.name,
        "tvm_version": session.toolchain.tvm_version,
        "tvm_commit": session.toolchain.tvm_commit,
        "tolerance": session.tolerance,
    }


def _exceptional_settings(session: Session) -> dict[str, Json]:
    """Return the settings that are written only where they differ from the usual."""
    # Only then, so that runs from before these settings existed can be continued. A run where nothing could be timed
    # cannot be continued where something can; its key has the name that recorded runs use.
    settings: dict[str, Json] = {"idle": True} if session.cannot_run_reason else {}
    model = session.model
    # It decides which network a compiler gets, so states of one version are not those of another.
    settings |= {"onnxscript": simplifier_version()} if model.format == "onnx" else {}
    settings |= {"function": model.function} if model.function else {}
    settings |= {"samples": model.samples_sha256} if model.samples else {}
    settings |= {"cases": "; ".join(map(str, model.cases))} if model.cases else {}
    if (budget := session.budget) is not None:
        settings["budget"] = budget.text if budget.is_of_classes else budget.limit
        # Recorded runs of weights have no setting for it.
        settings |= {"precision": budget.precision} if budget.precision != WEIGHTS else {}
        settings |= {"labels": digest_files([budget.labels])} if budget.labels else {}
    settings |= {"precision": session.precision} if session.precision != FLOAT32 else {}
    settings |= {"reference": session.reference} if session.reference != SOURCE else {}
    if (same := session.same_bits) is not None:
        settings["same_bits"] = [same.reference, str(same.candidate), dict(same.bits or {})]
    if session.plans != MeasurementPlans():
        settings["plans"] = repr(asdict(session.plans))
    return settings


def _device_kind(session: Session) -> dict[str, Json]:
    """Return what two devices of one kind have in common: a run may go on, on another node with the same card."""
    device = session.sensors.device
    keys = ("name", "cores") if session.device_kind == "cpu" else ("name", "memory_bytes")
    return {key: device[key] for key in keys if key in device}
