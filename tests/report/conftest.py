import json
from pathlib import Path
from typing import Any

import pytest

from passsearch.core import BuildOptions
from passsearch.store import Log

DATA = Path(__file__).parents[1] / "data"


@pytest.fixture
def result() -> dict[str, Any]:
    """A result with every key, as ``tune`` writes it."""
    document: dict[str, Any] = json.loads((Path(__file__).parent / "data" / "result.json").read_text())
    return document


@pytest.fixture
def run(result: dict[str, Any], tmp_path: Path) -> Path:
    """A run folder: the result, and a log with a state graph, build times and times of kernels."""
    folder = tmp_path / "run"
    folder.mkdir()
    result["toolchain"]["dialect"] = "relay"
    result["best"] |= {"state": "c", "binary": "new"}
    result["baseline"] |= {"state": "a", "binary": "old"}
    trials = [{**result["baseline"], "ratio": {"ratio": 1.0, "interval": None}}]
    trials.append({**result["best"], "ratio": {"ratio": 2.0, "interval": None}})
    (folder / "result.json").write_text(json.dumps({**result, "trials": trials}))
    (folder / "run.json").write_text(json.dumps({"seed": 7, "trials": 20, "toolchain": "mine", "timeout_s": 60.0}))
    with Log(folder / "log.jsonl") as log:
        log.record("load", "", fact={"state": "a"})
        log.record("edge", "a|SimplifyInference", fact={"state": "b", "seconds": 0.1})
        log.record("edge", "b|FuseOps", fact={"state": "b", "seconds": 0.1})
        log.record("edge", "b|AlterOpLayout", fact={"state": "c", "seconds": 0.1})
        log.record("edge", "a|CanonicalizeOps", fact={"state": "d", "seconds": 0.1})
        log.record("edge", "a|AlterOpLayout", fact={"failure": {"kind": "crash"}, "seconds": 0.1})
        for trial in trials:
            key = BuildOptions.from_json(trial["build"]).key
            log.record("build", f"{trial['state']}|{key}", fact={"digest": trial["binary"]})
        log.record("places", "old|new", fact={"kernels": [{"conv": 2e-3, "<pool>": 1e-3}, {"fused_conv": 1e-3}]})
    return folder


@pytest.fixture
def ablation() -> dict[str, Any]:
    """An ablation with a pass that gains, one that is needed and one that does nothing."""
    gain = {"throughput": {"ratio": 1.5, "interval": [1.4, 1.6]}, "compile_time": None}
    names, worths = ("SimplifyInference", "AlterOpLayout"), ("gain", "needed")
    ladder = [
        {"kind": "ladder", "pass": name, "throughput": {"ratio": number, "interval": None}, "worth": "gain"}
        for number, name in enumerate(names, start=1)
    ]
    without = [
        {"kind": "without", "pass": name, "gain": gain if worth == "gain" else dict.fromkeys(gain), "worth": worth}
        for name, worth in zip(names, worths, strict=True)
    ]
    recorded: dict[str, Any] = json.loads((DATA / "ablations" / "resnet_tiny-relax.json").read_text())
    rows = [{**recorded["rows"][0], "name": f"{row['kind']} {row['pass']}", **row} for row in (*ladder, *without)]
    return {**recorded, "baseline": "O3", "rows": rows, "worth_nothing": ["CanonicalizeOps"], "dropped": []}
