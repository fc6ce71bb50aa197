"""Deployment folders, which rebuild a network without passsearch, and pipeline files."""

from passsearch.export.deployment import ARTIFACT_FOLDER, SCRIPT, write_deployment
from passsearch.export.record import PIPELINE, SCHEMA, Deployment, read_pipeline
from passsearch.export.run import export_run

__all__ = [
    "ARTIFACT_FOLDER",
    "PIPELINE",
    "SCHEMA",
    "SCRIPT",
    "Deployment",
    "export_run",
    "read_pipeline",
    "write_deployment",
]
