"""Deployment folders, which rebuild a network without passsearch, and pipeline files."""

from passsearch.export.deployment import ARTIFACT_FOLDER, SCRIPT, check_replaceable, write_deployment
from passsearch.export.record import PIPELINE, SCHEMA, Deployment, read_pipeline
from passsearch.export.run import export_run

__all__ = [
    "ARTIFACT_FOLDER",
    "PIPELINE",
    "SCHEMA",
    "SCRIPT",
    "Deployment",
    "check_replaceable",
    "export_run",
    "read_pipeline",
    "write_deployment",
]
