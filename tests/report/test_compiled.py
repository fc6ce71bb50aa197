"""The text of a network that was compiled without a search."""

from passsearch.api import CompiledNetwork
from passsearch.report import compiled_text
from passsearch.results import Compilation


def ratio(value: float) -> dict[str, object]:
    return {"ratio": value, "interval": [value - 0.05, value + 0.05]}


def test_both_estimates_decide_whether_a_rival_is_ahead() -> None:
    latency = {"median": 1.0, "interval": None}
    latencies = {"latency_s": latency, "rival_latency_s": latency}
    ahead = {"ratio": ratio(1.3), "ratio_of_medians": ratio(0.9), **latencies}
    behind = {"ratio": ratio(1.2), "ratio_of_medians": ratio(1.1), **latencies}
    document = CompiledNetwork(
        schema="passsearch/1",
        compiled_at="",
        reference={"kind": "import", "runtime": None, "reason": "", "outputs": [], "seconds": 0.0},
        rivals={"onnxruntime": behind, "openvino": ahead, "torch": {"failure": "it crashed"}},
        rivals_reason="",
        tried=[],
        pipeline={"name": "schedule-cpu", "passes": "FuseOps"},
        model="net.onnx",
        classes=[],
        target="llvm",
        toolchain="relax",
        seconds={"import": 1.0, "build": 2.0},
        folder="deploy",
    )
    headline = " ".join(compiled_text(Compilation.from_json(document)).partition("\n\n")[0].split())
    assert headline == (
        "1.300 [1.250, 1.350] times OpenVINO by the fastest runs, 0.900 [0.850, 0.950] by medians; "
        "1.200 [1.150, 1.250] times ONNX Runtime by the fastest runs, 1.100 [1.050, 1.150] by medians."
    )
    assert document.is_slower
    document["rivals"]["openvino"] = behind
    assert not document.is_slower
