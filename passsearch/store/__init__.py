"""Run folders: the append-only log, the settings and the result."""

from passsearch.store.log import Fact, Log
from passsearch.store.run_folder import SCHEMA, RunFolder, read_result, write_json

__all__ = ["SCHEMA", "Fact", "Log", "RunFolder", "read_result", "write_json"]
