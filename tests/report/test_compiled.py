"""The text of a network that was compiled without a search."""

from typing import Any

import pytest

from passsearch.api import CompiledNetwork
from passsearch.report import compiled_text
from passsearch.results import Compilation


def ratio(value: float, low: float | None = None, high: float | None = None) -> dict[str, object]:
    return {"ratio": value, "interval": [low or value - 0.05, high or value + 0.05]}


def rival(fastest: dict[str, object], medians: dict[str, object]) -> dict[str, object]:
    own, other = ({"median": seconds, "interval": None} for seconds in (0.0125, 0.01))
    return {"ratio": fastest, "ratio_of_medians": medians, "latency_s": own, "rival_latency_s": other}


AHEAD, BEHIND = rival(ratio(1.3), ratio(0.9)), rival(ratio(1.2), ratio(1.1))


@pytest.fixture
def document() -> CompiledNetwork:
    fields: dict[str, Any] = {
        "schema": "passsearch/1",
        "compiled_at": "",
        "reference": {"kind": "source", "runtime": "ONNX Runtime 1.23", "reason": "", "outputs": [], "seconds": 0.0},
        "rivals": {"onnxruntime": BEHIND, "openvino": AHEAD, "torch": {"failure": "it crashed"}},
        "rivals_reason": "",
        "tried": [],
        "pipeline": {"name": "schedule-cpu", "passes": ",".join(["FuseOps", *["FoldConstant"] * 21])},
        "model": "net.onnx",
        "classes": [],
        "target": "llvm",
        "toolchain": "relax",
        "seconds": {"import": 1.0, "build": 2.0, "rivals": 52.5},
        "folder": "deploy",
        "others_percent": 9.0,
        "python": "relax/bin/python",
    }
    return CompiledNetwork(fields)


def headline(document: dict[str, Any]) -> str:
    return " ".join(compiled_text(Compilation.from_json(document)).partition("\n\n")[0].split())


def test_both_estimates_decide_whether_a_rival_is_ahead(document: CompiledNetwork) -> None:
    assert headline(document) == (
        "net.onnx runs in 12.5 ms, with 1.300 [1.250, 1.350] times the throughput of OpenVINO (0.900 [0.850, 0.950] by "
        "medians; undecided, because the two disagree on which is faster) and 1.200 [1.150, 1.250] times the "
        "throughput of ONNX Runtime."
    )
    assert not document.is_slower, "as the text says"
    document["rivals"]["onnxruntime"] = rival(ratio(0.7), ratio(0.75))
    assert headline(document).startswith(
        "Take ONNX Runtime: net.onnx runs in 12.5 ms, with 0.700 [0.650, 0.750] times the throughput of ONNX Runtime"
    )
    assert document.is_slower
    document["rivals"] = {"onnxruntime": rival(ratio(0.95, 0.9, 0.99), ratio(0.97, 0.9, 1.04))}
    assert document.is_slower and headline(document).startswith("Take ONNX Runtime"), "one whole interval is enough"
    document["rivals"] = {"onnxruntime": rival(ratio(0.01, 0.0001, 0.5), ratio(0.02, 0.0001, 0.5))}
    assert not document.is_slower, "an interval with ends a factor of 5,000 apart decides nothing"
    document["rivals"] = {"onnxruntime": BEHIND, "openvino": BEHIND}
    assert not document.is_slower


def test_an_interval_that_says_nothing_is_not_printed(document: CompiledNetwork) -> None:
    document["rivals"] = {"onnxruntime": rival(ratio(0.638, 0.24, 1.699), ratio(0.581, 0.075, 4.479))}
    assert headline(document) == (
        "net.onnx runs in 12.5 ms, with 0.638 [0.240, 1.699] times the throughput of ONNX Runtime (undecided)."
    )
    text = " ".join(compiled_text(Compilation.from_json(document)).split())
    assert (
        "beside ONNX Runtime: 0.638 [0.240, 1.699] times the throughput of ONNX Runtime by the fastest runs, "
        "0.581 [too wide] by medians (12.5 ms beside 10.0 ms): undecided" in text
    )


def test_the_summary_is_the_first_sentence(document: CompiledNetwork) -> None:
    assert document.summary == headline(document)
    document["rivals"] = {}
    assert document.summary == "Compiled by `schedule-cpu`; no other engine was beside it."


def test_a_busy_machine_is_named(document: CompiledNetwork) -> None:
    assert "warning" not in compiled_text(Compilation.from_json(document))
    text = compiled_text(Compilation.from_json({**document, "others_percent": 35.2}))
    assert "warning: other processes took 35 % of the cores' time" in text


def test_the_last_screen_says_what_was_built_checked_and_how_it_runs(document: CompiledNetwork) -> None:
    lines = compiled_text(Compilation.from_json(document)).splitlines()
    assert "pipeline: schedule-cpu: 22 passes, which README.md in the folder lists" in lines
    assert "outputs: checked against ONNX Runtime 1.23" in lines
    deviating = compiled_text(Compilation.from_json({**document, "deviation": 0.113})).splitlines()
    assert "outputs: checked against ONNX Runtime 1.23, deviate by 0.11 of the largest value" in deviating
    assert "seconds: import 1.0, build and export 2.0, comparison 52.5" in lines
    assert lines[-1] == "run with: relax/bin/python deploy/run_model.py"
    document["pipeline"] = {"name": "FuseOps", "passes": "FuseOps"}
    document["reference"] |= {"runtime": None, "reason": "asked for"}
    lines = compiled_text(Compilation.from_json(document)).splitlines()
    assert {"pipeline: FuseOps", "outputs: not proven: asked for"} <= set(lines)


def test_a_document_of_an_earlier_version_is_read(document: CompiledNetwork) -> None:
    del document["python"], document["others_percent"], document["seconds"]["rivals"]
    lines = compiled_text(Compilation.from_json(document)).splitlines()
    assert lines[-2:] == ["seconds: import 1.0, build and export 2.0", "files: deploy"]
