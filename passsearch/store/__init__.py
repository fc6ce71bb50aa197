"""Files that outlive a process: the run folder with its append-only log, its result, and the fact cache."""

from passsearch.store.ablation import ABLATION, open_ablation, read_ablation
from passsearch.store.cache_limit import CacheEntry, cache_entries, in_use, limit_cache, limit_cache_hourly
from passsearch.store.fact_cache import open_fact_cache
from passsearch.store.log import Fact, Log
from passsearch.store.run_folder import (
    EXPECTED,
    LABELS_FILE,
    LIMIT_KEYS,
    NETWORK,
    OUTCOME_KEYS,
    RESULT,
    SAMPLES_FILE,
    SCHEMA,
    STATES,
    OtherSettings,
    RunFolder,
    RunInUse,
    accident_in,
    read_deployment,
    read_result,
    read_settings,
    seconds_without_baseline,
    write_json,
)
from passsearch.store.runs import DAY_S, StoredRun, delete_runs, run_folders, stored_runs

__all__ = [
    "ABLATION",
    "DAY_S",
    "EXPECTED",
    "LABELS_FILE",
    "LIMIT_KEYS",
    "NETWORK",
    "OUTCOME_KEYS",
    "RESULT",
    "SAMPLES_FILE",
    "SCHEMA",
    "STATES",
    "CacheEntry",
    "Fact",
    "Log",
    "OtherSettings",
    "RunFolder",
    "RunInUse",
    "StoredRun",
    "accident_in",
    "cache_entries",
    "delete_runs",
    "in_use",
    "limit_cache",
    "limit_cache_hourly",
    "open_ablation",
    "open_fact_cache",
    "read_ablation",
    "read_deployment",
    "read_result",
    "read_settings",
    "run_folders",
    "seconds_without_baseline",
    "stored_runs",
    "write_json",
]
