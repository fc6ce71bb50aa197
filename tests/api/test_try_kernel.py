"""A foreign kernel in the place of one of a network."""

import json
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from short_plans import SHORT

import passsearch
from passsearch.cli.app import main
from passsearch.core import Candidate
from passsearch.errors import UserError
from passsearch.evaluate import WorkerEvaluator
from passsearch.results import KernelTrial
from passsearch.search import analyze_network, recommended_sequences
from passsearch.studies import KernelQuestion, try_foreign_kernel
from passsearch.toolchain import Toolchain

ROWS, COLUMNS = 6, 40
SIZE = ROWS * COLUMNS
VALUE = f"float v = x[i] + s[i % {COLUMNS}];"


def code(step: str, before: str = "", after: str = "") -> str:
    """Return a function in C with a step for each element."""
    return (
        f"void f(const float *x, const float *s, float *y) {{ {before} "
        f"for (int i = 0; i < {SIZE}; ++i) {{ {VALUE} {step} }} {after} }}"
    )


RELU = "y[i] = v < 0 ? 0 : v;"
NAMED = f"""
#ifdef __cplusplus
extern "C" {{
#endif
void class(float *x) {{ }} // no name in C++
{code(RELU).replace("void f(", "void fused_add_relu(")}
#ifdef __cplusplus
}}
#endif
"""
SCRIPT = f"""
from tvm.script import tirx as T
@T.prim_func(private=True, s_tir=True)
def kernel(x: T.Buffer(({ROWS}, {COLUMNS}), "float32"), s: T.Buffer(({COLUMNS},), "float32"),
           y: T.Buffer(({ROWS}, {COLUMNS}), "float32")):
    for i in T.parallel({ROWS}):
        for j in range({COLUMNS}):
            y[i, j] = T.max(T.float32(0), x[i, j] + s[j])
"""


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An addition with an activation, which become one kernel."""
    nodes = [helper.make_node("Add", ["x", "s"], ["a"]), helper.make_node("Relu", ["a"], ["y"])]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [ROWS, COLUMNS]) for name in "xy"]
    shift = numpy_helper.from_array(np.linspace(-1, 1, COLUMNS, dtype="float32"), "s")
    graph = helper.make_graph(nodes, "one", ends[:1], ends[1:], [shift])
    path = tmp_path_factory.mktemp("network") / "one.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


@pytest.fixture(scope="module")
def place(network: Path, relax: Toolchain) -> Iterator[tuple[WorkerEvaluator, Candidate]]:
    with passsearch.session(network, toolchain=relax.name, plans=SHORT, remember=False) as evaluator:
        analysis = analyze_network(evaluator.session, evaluator.network.summary)
        yield evaluator, recommended_sequences(evaluator.session, analysis)[0]


def judged(place: tuple[WorkerEvaluator, Candidate], file: Path) -> KernelTrial:
    evaluator, candidate = place
    digest = sha256(file.read_bytes()).hexdigest()
    question = KernelQuestion(candidate, "fused_add_relu", file, file.name, digest)
    return try_foreign_kernel(evaluator, question, progress=lambda *_: None).document


WRONG = {
    "NaN": (code("y[i] = v > 0 ? v : 0;"), "nasty inputs", "NaN is in other places"),
    "memory": (code(f"v += 0 * x[i + {SIZE}]; {RELU}"), "memory", "it reads behind the end of `x`"),
    "margin": (code(RELU, after=f"y[{SIZE}] = 0;"), "memory", "it writes behind the end of `"),
    "before": (code(RELU, after="y[-1] = 0;"), "memory", "it writes beside `compute_intermediate`"),
    "unwritten": (code(f"if (i < {SIZE - 4}) {RELU}"), "output", "4 of 240 values of output 1 are not written"),
    "accumulates": (code("y[i] += v < 0 ? 0 : v;"), "output", "values of output 1 are not written"),
    "input": (code(RELU, after="((float *)x)[0] = 1;"), "usual inputs", "it changes its input `x`"),
    "restored input": (
        code(RELU, before="volatile float *p = (float *)x; float kept = *p; *p = 1; *p = kept;"),
        "memory",
        "it writes to an input",
    ),
    "state": (code(f"static int calls; if (i == 0) ++calls; if (calls > 200) v += 1; {RELU}"), "state", "many calls"),
    "kept": (
        code(f"static float kept[{SIZE}]; static int n; if (n < {SIZE}) kept[n++] = v < 0 ? 0 : v; y[i] = kept[i];"),
        "state",
        "other inputs get the first answer again",
    ),
    "kept by a part": (
        code(
            RELU,
            before=f"static float k, kept[{SIZE}]; static int n; if (n && *x == k) "
            f"{{ for (int i = 0; i < {SIZE}; ++i) y[i] = kept[i]; return; }} n = 1; k = *x;",
            after=f"for (int i = 0; i < {SIZE}; ++i) kept[i] = y[i];",
        ),
        "state",
        "has changed",
    ),
    "crash": (code(RELU, after="__builtin_trap();"), "usual inputs", "crash: killed by SIGILL"),
    "type": (code(RELU).replace("float *s", "double *s"), "signature", "parameter 2 of `f` points to double"),
    "few": ("void f(const float *x, float *y) { }", "signature", "takes 2 pointers, and the kernel has 3 tensors"),
    "several": ("void g(float *x) { } void h(float *x) { }", "signature", "that are not static: g, h"),
    "language": (code("y[i] = unknown;"), "build", "unknown"),
}
SLOW = [name for name in WRONG if name not in ("NaN", "memory", "few")]


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.slow] * (name in SLOW)) for name in WRONG])
def test_a_wrong_kernel_is_refused_with_the_reason(
    place: tuple[WorkerEvaluator, Candidate], tmp_path: Path, name: str
) -> None:
    text, check, words = WRONG[name]
    file = tmp_path / "kernel.c"
    file.write_text(text)
    trial = judged(place, file)
    assert not trial.admitted and trial.times is None and trial.verdict == ""
    assert any(each.name == check and words in each.detail for each in trial.checks if not each.ok), trial.checks


def test_the_command_says_how_a_function_begins_and_which_kernels_there_are(
    network: Path, relax: Toolchain, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["try", "--for", str(network), "--toolchain", relax.name, "--kernel"]
    assert main([*words, "fused_add_relu"]) == 0
    assert f"/* {ROWS} x {COLUMNS} */" in capsys.readouterr().out
    assert main([*words, "fused_add"]) == 2
    assert "there is no kernel `fused_add`; the kernels are fused_add_relu" in capsys.readouterr().err


def test_what_is_no_kernel_is_refused_before_anything_runs(network: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is no kernel; give a file"):
        passsearch.try_kernel(tmp_path / "kernel.cu", network, kernel="fused_add_relu")
    with pytest.raises(UserError, match="Cannot read the kernel"):
        passsearch.try_kernel(tmp_path / "kernel.c", network, kernel="fused_add_relu")


def test_kernels_of_relay_cannot_be_replaced(network: Path, relay: Toolchain) -> None:
    with pytest.raises(UserError, match="cannot be replaced"):
        passsearch.try_kernel(None, network, kernel="fused_add_relu", toolchain=relay.name)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("suffix", "text"),
    [
        (".c", NAMED),
        (".c", "#include <omp.h>\n" + code(RELU)),
        (".cc", 'extern "C" ' + code(RELU)),
        (".py", SCRIPT),
    ],
)
def test_a_right_kernel_is_admitted_timed_and_exported(
    network: Path, relax: Toolchain, tmp_path: Path, suffix: str, text: str
) -> None:
    file, folder = tmp_path / f"kernel{suffix}", tmp_path / "deploy"
    file.write_text(text)
    trial = passsearch.try_kernel(file, network, kernel="fused_add_relu", to=folder, toolchain=relax.name, plans=SHORT)
    assert trial["admitted"] and all(check["ok"] for check in trial["checks"])
    assert trial["times"]["processes"] == SHORT.comparison_processes and trial["verdict"]
    assert "admitted: " in repr(trial)
    if trial["not_exported"]:
        assert trial["verdict"] != "faster" and not folder.exists()
        return
    record = json.loads((folder / "pipeline.json").read_text())
    assert record["passes"][-1]["name"] == "ReplaceKernel"
    [copy] = record["passes"][-1]["folders"].values()
    assert (folder / copy).read_text() == text
    # The script of the export, which has built it, reads that copy.
    assert (folder / "built" / "network.so").exists()
