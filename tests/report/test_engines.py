"""The text of a benchmark: a table for each batch size, failures with their reason, and the friction."""

from passsearch.report import engines_html, engines_text


def test_a_benchmark_as_text() -> None:
    good = {
        "engine": "onnxruntime",
        "batch": 2,
        "latency_s": {"median": 0.01, "interval": [0.009, 0.011]},
        "ratio": {"by fastest": {"ratio": 1.5, "interval": [1.4, 1.6]}},
        "compile_s": 0.5,
        "open_s": [0.5, 0.25, 0.25],
        "memory_bytes": 12_000_000,
        "deviation": 1e-6,
        "threads": 2,
        "versions": {"onnxruntime": "1.32.0"},
        "together": {
            "2": {"inferences_per_s": {"median": 110.0, "interval": [100.0, 120.0]}},
            "4": {"unavailable": "one inference takes more than 1 s"},
        },
        "own_threads": {"threads": 4, "latency_s": {"median": 0.02, "interval": [0.01, 0.03]}},
        "accuracy": {"value": 0.975, "correct": 195, "count": 200},
        "artifact_bytes": 4_000_000,
        "energy_j": None,
    }
    wide = {
        **good,
        "engine": "openvino",
        "accuracy": {"unavailable": "other dtype"},
        "latency_s": {"median": 0.01, "interval": [1e-20, 1e20]},
    }
    document = {
        "model": {"name": "net", "source": "net.onnx"},
        "batches": [2],
        "device": {"name": "CPU"},
        "threads": 2,
        "measured_at": "2026-11-24T18:35:00Z",
        "references": ["PyTorch in float64"],
        "plan": {"processes": 3, "rounds": 4, "requests": [2, 4]},
        "unavailable": {"energy_j": "no permission"},
        "baseline": "torch",
        "disturbances": [[[{"foreign": 0.2, "steal": 0.0}, {"foreign": 0.4, "steal": 0.0}]]],
        "rows": [good, wide, {"engine": "inductor", "batch": 2, "failure": "no C++ compiler"}],
        "friction": {
            "onnxruntime": {"value": 0.9, "interval": [0.85, 0.95], "removed": {"value": 0.1, "interval": [0.05, 0.15]}}
        },
    }
    html = engines_html(document)
    assert "0.900 [0.850, 0.950]" in html and "no C++ compiler" in html and "97.50 %" in html
    text = engines_text(document, width=132)
    row = next(line for line in text.splitlines() if line.startswith("onnxruntime"))
    assert row.split() == [
        *("onnxruntime", "10.00", "[9.00,", "11.00]", "200", "1.500", "[1.400,", "1.600]"),
        *("0.500", "0.250", "12.0", "1e-06", "2"),
    ]
    assert "10.00 [too wide]" in next(line for line in text.splitlines() if line.startswith("openvino"))
    assert "other processes took 30 % of the cores" in text
    assert "inductor: failed: no C++ compiler" in text
    assert "0.900 [0.850, 0.950]" in text
    assert "verdict: onnxruntime is faster than torch: 1.500 [1.400, 1.600] by fastest" in text
    assert "10 % [5 %, 15 %]" in text
    further = next(line for line in text.splitlines() if "97.50 %" in line)
    assert further.split() == [
        *("onnxruntime", "220.0", "[200.0,", "240.0]", "4:", "20.00", "[10.00,", "30.00]", "ms", "97.50", "%", "4.00")
    ]
    assert "onnxruntime: no throughput with 4 at once: one inference takes more than 1 s" in text
    assert any("openvino" in line and "failed" in line for line in text.splitlines()), "its classification"
    assert "energy_j: not measured: no permission" in text
    assert "versions: onnxruntime 1.32.0" in text


def test_the_name_of_an_engine_stays_in_one_line() -> None:
    names = ("onnxruntime", "relax:nhwc-schedule-cpu", "relax:batchnorm-schedule-cpu")
    row = {
        "batch": 1,
        "latency_s": {"median": 0.01234, "interval": [0.01134, 0.01334]},
        "ratio": {"by fastest": {"ratio": 1.5, "interval": [1.4, 1.6]}},
        "compile_s": 12.5,
        "open_s": [0.5],
        "memory_bytes": 123_000_000,
        "deviation": 1e-6,
        "threads": 2,
    }
    document = {
        "model": {"name": "net", "source": "net.onnx"},
        "batches": [1],
        "device": {"name": "CPU"},
        "threads": 2,
        "measured_at": "2026-11-24T18:35:00Z",
        "references": ["PyTorch in float64"],
        "plan": {"processes": 3, "rounds": 4},
        "baseline": "onnxruntime",
        "disturbances": [],
        "rows": [{**row, "engine": name} for name in names],
        "friction": {},
    }
    for width in (80, 100, 120):
        starts = [line.split()[0] for line in engines_text(document, width=width).splitlines() if line[:1].strip()]
        assert {*names} <= {*starts}, width
