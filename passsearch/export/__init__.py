"""Deployment folders, which rebuild a network without passsearch, and pipeline files."""

from passsearch.export.copy import copy_deployment
from passsearch.export.deployment import ARTIFACT_FOLDER, COMPILATION, SCRIPT, check_replaceable, write_deployment
from passsearch.export.record import PIPELINE, SCHEMA, Deployment, read_pipeline
from passsearch.export.run import export_run

__all__ = [
    "ARTIFACT_FOLDER",
    "COMPILATION",
    "PIPELINE",
    "SCHEMA",
    "SCRIPT",
    "Deployment",
    "check_replaceable",
    "copy_deployment",
    "export_run",
    "read_pipeline",
    "write_deployment",
]
