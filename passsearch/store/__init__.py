"""Run folders: the append-only log, the settings and the result."""

from passsearch.store.log import Fact, Log
from passsearch.store.memory import open_memory
from passsearch.store.run_folder import NETWORK, SCHEMA, STATES, RunFolder, read_deployment, read_result, write_json

__all__ = [
    "NETWORK",
    "SCHEMA",
    "STATES",
    "Fact",
    "Log",
    "RunFolder",
    "open_memory",
    "read_deployment",
    "read_result",
    "write_json",
]
