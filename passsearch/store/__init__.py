"""Run folders: the append-only log, the settings and the result."""

from passsearch.store.fact_cache import open_fact_cache
from passsearch.store.log import Fact, Log
from passsearch.store.run_folder import NETWORK, SCHEMA, STATES, RunFolder, read_deployment, read_result, write_json

__all__ = [
    "NETWORK",
    "SCHEMA",
    "STATES",
    "Fact",
    "Log",
    "RunFolder",
    "open_fact_cache",
    "read_deployment",
    "read_result",
    "write_json",
]
