"""The tables of a GPU session, from a session that was cut off and one whose sensors read little."""

from collections.abc import Callable
from typing import Any

import pytest

UNREAD = {"power_w": None, "energy_j": None, "memory_bytes": {"device": None}, "temperature_c": None}
READ = {
    "power_w": {"median": 301.4, "max": 350.0},
    "energy_j": 0.25,
    "memory_bytes": {"device": 100 << 20},
    "temperature_c": {"median": 61.0, "max": 64.0},
    "utilisation": {"median": 0.97, "max": 1.0},
}


@pytest.fixture
def steps(load_benchmark: Callable[[str], Any]) -> Any:
    """The module ``benchmarks/gpu/steps.py``."""
    return load_benchmark("gpu.steps")


@pytest.fixture
def tables(load_benchmark: Callable[[str], Any]) -> Any:
    """The function that makes the tables."""
    return load_benchmark("gpu.tables").tables


def timed(latency_s: float, ratio: float | None, **consumed: Any) -> dict[str, Any]:
    times = {"latency_s": {"median": latency_s}, "throughput_per_s": 1 / latency_s, "compile_s": 4.0}
    return {**times, "ratio": ratio and {"ratio": ratio}, "utilisation": None, **UNREAD, **consumed}


def engine(median_s: float, ratio: float) -> dict[str, Any]:
    interval = None if ratio == 1.0 else [ratio - 0.01, ratio + 0.01]
    return {"median_s": median_s, "throughput of torch": {"by fastest": {"ratio": ratio, "interval": interval}}}


def test_all_metrics_and_the_papers_values_stand_beside_each_other(steps: Any, tables: Any) -> None:
    rows = {
        "default": timed(0.004, 1.0),
        "tuned": timed(0.002, 2.0, **READ),
        "sequence": {"failure": {"reason": "does not compile"}},
    }
    measured = {"rows": rows, "device": {"name": "A Fine GPU"}, "paper": steps.paper_values("resnet50")}
    sequences = {
        "default": {"throughput": 1.0, "compile_s": 8.0},
        "nhwc-gpu": {"throughput": 1.5, "compile_s": 4.0},
    }
    pytorch = {
        "rows": {"torch": engine(0.001, 1.0), "tvm default": engine(0.004, 0.25), "tvm tuned": {"failure": "NaN"}}
    }
    verdict = {"confirmed": True, "ratio": 2.0, "interval": [1.9, 2.1], "repetitions": 2, "processes": 14}
    search = {"sequences": sequences, "verdict": verdict, "best": {"name": "nhwc-gpu"}}
    network = {"search": search, "measure": measured, "pytorch": pytorch}
    text = tables({"networks": {"resnet50": network}})
    assert "| resnet50 | default | 4 | 250 | 1 | 4 | – | – | – | – | – |" in text
    assert "| resnet50 | tuned | 2 | 500 | 2 | 4 | 301 | 0.25 | 100 | 61 | 97 |" in text
    assert "| resnet50 | sequence | does not compile |" in text
    assert "| resnet50 | nhwc-gpu | 2 [1.9, 2.1] | 2 | 14 |" in text
    assert "| resnet50 | torch | 1 | 1 |" in text and "| resnet50 | tvm tuned | NaN |" in text
    assert "| resnet50 | tvm default | 4 | 0.25 [0.24, 0.26] |" in text
    assert "| resnet50 | nhwc-gpu | 1.5 | 0.5 |" in text
    assert "| resnet50 | best (paper, of -O3's) | 1.32 | 0.85 |" in text
    assert "| A Fine GPU | resnet50 | tuned | 301, 350 | 61, 64 | 100 |" in text
    assert "| RTX 2080 (paper) | resnet50, PyTorch | O3 | 47, 49 | 33, 35 | 456, 504 |" in text


def test_a_session_that_was_cut_off_has_tables(tables: Any) -> None:
    cut = {"search": {"unavailable": "its process was ended after 60 s"}}
    assert "bert_base" not in tables({"machine": {"unavailable": "x"}, "networks": {"bert_base": cut}})


def test_the_paper_has_no_values_of_other_networks(steps: Any) -> None:
    assert steps.paper_values("bert_tiny") == {}
    assert steps.paper_values("bert_base")["throughput"] is None
