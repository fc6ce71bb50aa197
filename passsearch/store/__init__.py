"""Run folders: the append-only log, the settings and the result."""

from passsearch.store.log import Fact, Log
from passsearch.store.run_folder import NETWORK, SCHEMA, RunFolder, read_deployment, read_result, write_json

__all__ = ["NETWORK", "SCHEMA", "Fact", "Log", "RunFolder", "read_deployment", "read_result", "write_json"]
