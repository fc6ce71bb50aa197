"""Twenty kernels before the referee: ``python -m benchmarks.faults.refereed_kernels [NAME…] [--processes 5]``.

Twelve are wrong or cheat; those that a comparison of the network's outputs refuses too have ``network`` among
``refused_by``. ``refereed_kernels.json`` has what the referee said of each, and the ratio of times only where it is
certain.
"""

import re
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import passsearch
from benchmarks.common import RESULTS, note, options, provenance, read, write
from passsearch.core import Candidate
from passsearch.evaluate import MeasurementPlans, WorkerEvaluator
from passsearch.search import analyze_network, recommended_sequences
from passsearch.studies import FASTER, SLOWER, KernelQuestion, try_foreign_kernel

FILE = RESULTS / "refereed_kernels.json"
ROWS, DEPTH, COLUMNS = 60, 192, 256
PRODUCT_NAME, SOFTMAX_NAME = "fused_matmul_add_relu", "softmax"

HEAD = """
#include <math.h>
#include <string.h>
{sizes}
static float product(const float *x, const float *w, const float *b, int i, int j) {{
  float sum = 0.0f;
  for (int k = 0; k < K; ++k) sum += x[i * K + k] * w[(j / L * K + k) * L + j % L];
  return sum + b[j];
}}
#define EACH for (int i = 0; i < M; ++i) for (int j = 0; j < N; ++j)
"""
SIGNATURE = "void f(const float *restrict x, const float *restrict w, const float *restrict b, float *restrict y)"
PRODUCT = SIGNATURE + " {{ {} }}"
RELU = "y[i * N + j] = v < 0 ? 0 : v;"
VALUE = "float v = product(x, w, b, i, j);"
PLAIN = f"EACH {{ {VALUE} {RELU} }}"
SOFTMAX = "void f(const float *restrict x, float *restrict y) {{ for (int i = 0; i < M; ++i) {{ {} }} }}"
STABLE = """const float *r = x + i * N; float top = r[0]; {type} sum = 0;
  for (int j = 0; j < N; ++j) top = r[j] > top || r[j] != r[j] ? r[j] : top;
  for (int j = 0; j < N; ++j) sum += y[i * N + j] = expf(r[j] - top);
  for (int j = 0; j < N; ++j) y[i * N + j] /= sum;"""
TILED = """for (int i = 0; i < M; ++i) for (int j = 0; j < N; j += L) { float s[L];
  for (int l = 0; l < L; ++l) s[l] = 0;
  for (int k = 0; k < K; ++k) for (int l = 0; l < L; ++l) s[l] += x[i * K + k] * w[(j / L * K + k) * L + l];
  for (int l = 0; l < L; ++l) { float v = s[l] + b[j + l]; y[i * N + j + l] = v < 0 ? 0 : v; } }"""
SCRIPT = """
from tvm.script import tirx as T
@T.prim_func(private=True, s_tir=True)
def kernel(x: T.Buffer(({rows}, {K}), "float32"), w: T.Buffer(({B}, {K}, {L}), "float32"),
           b: T.Buffer(({N},), "float32"), y: T.Buffer(({rows}, {N}), "float32")):
    for i in T.parallel({rows}):
        for j in range({B}):
            for l in T.vectorized({L}):
                y[i, j * {L} + l] = T.float32(0)
            for k in range({K}):
                for l in T.vectorized({L}):
                    y[i, j * {L} + l] = y[i, j * {L} + l] + x[i, k] * w[j, k, l]
            for l in T.vectorized({L}):
                y[i, j * {L} + l] = T.max(T.float32(0), y[i, j * {L} + l] + b[j * {L} + l])
"""
ROUNDED = """static float cut(float v) { unsigned u; memcpy(&u, &v, 4); u &= 0xffffe000u; memcpy(&v, &u, 4); return v; }
static float narrow(const float *x, const float *w, const float *b, int i, int j) { float sum = 0.0f;
  for (int k = 0; k < K; ++k) sum += cut(x[i * K + k]) * cut(w[(j / L * K + k) * L + j % L]); return sum + b[j]; }
"""

RIGHT = {
    "plain loops": PRODUCT.format(PLAIN),
    "OpenMP": PRODUCT.format('_Pragma("omp parallel for") ' + PLAIN),
    "tiled": PRODUCT.format(TILED),
    "other order of sums": PRODUCT.format(
        "EACH { float p[4] = {0}; for (int k = 0; k < K; ++k) "
        "p[k % 4] += x[i * K + k] * w[(j / L * K + k) * L + j % L]; "
        f"float v = p[0] + p[1] + (p[2] + p[3]) + b[j]; {RELU} }}"
    ),
    "C++": 'extern "C" ' + PRODUCT.format(PLAIN).replace("restrict", "__restrict__"),
    "TVMScript": SCRIPT.replace("{rows}", str(ROWS)),
    "softmax": SOFTMAX.format(STABLE.replace("{type}", "float")),
    "softmax in float64": SOFTMAX.format(STABLE.replace("{type}", "double")),
}
WRONG = {
    "cached by first values": PRODUCT.format(
        "static float kept[M * N], xs[8], ws[8], bs[8]; static int has; "
        "if (!has || memcmp(xs, x, 32) || memcmp(ws, w, 32) || memcmp(bs, b, 32)) { "
        f"{PLAIN} memcpy(kept, y, sizeof kept); memcpy(xs, x, 32); memcpy(ws, w, 32); memcpy(bs, b, 32); has = 1; }} "
        "memcpy(y, kept, sizeof kept);"
    ),
    "only the first rows": SOFTMAX.replace("i < M", "i < M - 1").format(STABLE.replace("{type}", "float")),
    "reads beyond the end": PRODUCT.format(f"EACH {{ {VALUE} v += 0 * x[M * K + j]; {RELU} }}"),
    "writes beyond the end": PRODUCT.format(f"{PLAIN} y[M * N] = 0;"),
    "negative zeros": PRODUCT.format(f"EACH {{ {VALUE} y[i * N + j] = v > 0 ? v : v * 0; }}"),
    "NaN": PRODUCT.format(f"EACH {{ {VALUE} y[i * N + j] = v > 0 ? v : 0; }}"),
    "rows by threads": "int omp_get_max_threads(void);"
    + PRODUCT.format(
        "int t = omp_get_max_threads(), c = M / t; "
        '_Pragma("omp parallel for") for (int q = 0; q < t; ++q) for (int i = q * c; i < q * c + c; ++i) '
        f"for (int j = 0; j < N; ++j) {{ {VALUE} {RELU} }}"
    ),
    "precision dropped": ROUNDED + PRODUCT.format(PLAIN.replace("product(", "narrow(")),
    "dependent on threads": PRODUCT.format(
        'EACH { float v = b[j]; _Pragma("omp parallel for reduction(+:v)") '
        f"for (int k = 0; k < K; ++k) v += x[i * K + k] * w[(j / L * K + k) * L + j % L]; {RELU} }}"
    ),
    "cached by all values": PRODUCT.format(
        "static float kept[M * N], xs[M * K], ws[K * N], bs[N]; static int has; "
        "if (!has || memcmp(xs, x, sizeof xs) || memcmp(ws, w, sizeof ws) || memcmp(bs, b, sizeof bs)) { "
        f"{PLAIN} memcpy(kept, y, sizeof kept); has = 1; memcpy(xs, x, sizeof xs); memcpy(ws, w, sizeof ws); "
        "memcpy(bs, b, sizeof bs); } memcpy(y, kept, sizeof kept);"
    ),
    "weights kept": PRODUCT.format(
        "static float kept[N * K], *at; if (!at) { memcpy(kept, w, sizeof kept); at = kept; } "
        + PLAIN.replace(" w,", " kept,")
    ),
    "large values": SOFTMAX.format(
        "float sum = 0; for (int j = 0; j < N; ++j) sum += y[i * N + j] = expf(x[i * N + j]);"
        " for (int j = 0; j < N; ++j) y[i * N + j] /= sum;"
    ),
}


def network(path: Path) -> None:
    """Write a product with bias and activation, and a softmax of it."""
    rng = np.random.default_rng(0)
    shapes = {"w": (DEPTH, COLUMNS), "b": (COLUMNS,)}
    weights = {name: rng.standard_normal(shape).astype("float32") / 8 for name, shape in shapes.items()}
    steps = (("MatMul", "x", "w"), ("Add", "MatMul", "b"), ("Relu", "Add"), ("Softmax", "Relu"))
    nodes = [helper.make_node(kind, [*inputs], [kind]) for kind, *inputs in steps]
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [ROWS, size])
        for name, size in (("x", DEPTH), ("Softmax", COLUMNS))
    ]
    tensors = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, "two", ends[:1], ends[1:], tensors)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def judge(
    name: str, folder: Path, evaluator: WorkerEvaluator, candidate: Candidate, *, is_timed: bool
) -> dict[str, Any]:
    """Return what the referee says of one kernel."""
    code = (RIGHT | WRONG)[name]
    kernel = SOFTMAX_NAME if code.startswith(SOFTMAX.partition("{")[0]) else PRODUCT_NAME
    # The product's weights are packed, for this processor.
    weights = try_foreign_kernel(evaluator, KernelQuestion(candidate, PRODUCT_NAME), progress=_quiet).document.tried
    [blocks, _, lanes] = map(int, re.findall(r"/\* (\d+) x (\d+) x (\d+) \*/", weights.prototype)[0])
    sizes = {"M": ROWS, "K": DEPTH, "N": COLUMNS, "B": blocks, "L": lanes}
    suffix = ".py" if "tvm.script" in code else ".cc" if "extern" in code else ".c"
    if suffix == ".py":
        for key, value in sizes.items():
            code = code.replace(f"{{{key}}}", str(value))
    else:
        code = HEAD.format(sizes="\n".join(f"#define {key} {value}" for key, value in sizes.items())) + code
    file = folder / f"{name.replace(' ', '_')}{suffix}"
    file.write_text(code)
    question = KernelQuestion(candidate, kernel, file, file.name, sha256(code.encode()).hexdigest(), is_timed)
    said = try_foreign_kernel(evaluator, question, progress=_quiet).document.to_json()
    note(f"{name}: {said['verdict'] or said['reason'] or 'right'}")
    kept = ("admitted", "reason", "verdict", "seconds")
    certain = said["times"]["kernel"] if said["verdict"] in (FASTER, SLOWER) else None
    refused = [check["name"] for check in said["checks"] if not check["ok"]]
    return {"right": name in RIGHT, "refused_by": refused, "kernel": certain, **{key: said[key] for key in kept}}


def _quiet(text: str, done: int, total: int) -> None:
    """Show no progress."""


def main() -> None:
    """Judge the kernels and write what was said."""
    given = options(__doc__, ("names", tuple(RIGHT | WRONG)), processes=5, toolchain="relax", untimed=False)
    usual, rows = MeasurementPlans(comparison_processes=given.processes), dict[str, Any]()
    # The network takes a tenth of a millisecond.
    rounds, places = replace(usual.final_rounds, run_s=0.005), replace(usual.places, longest_s=0.5, attempts=1)
    plans = replace(usual, final_rounds=rounds, places=places)
    with TemporaryDirectory() as scratch:
        folder = Path(scratch)
        network(folder / "two.onnx")
        how: Any = {"toolchain": given.toolchain, "plans": plans, "remember": False}
        with passsearch.session(folder / "two.onnx", **how) as evaluator:
            session = evaluator.session
            candidate = recommended_sequences(session, analyze_network(session, evaluator.network.summary))[0]
            for name in given.names:
                rows = {
                    **read(FILE).get("kernels", {}),
                    name: judge(name, folder, evaluator, candidate, is_timed=not given.untimed),
                }
                write(FILE, {**provenance(session), "kernels": rows})
    wrong = [name for name, row in rows.items() if row["right"] != row["admitted"]]
    note(f"{len(rows)} kernels, judged wrongly: {', '.join(wrong) or 'none'}")


if __name__ == "__main__":
    main()
