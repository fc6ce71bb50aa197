"""What compiling without fast math costs on a GPU: ``python benchmarks/fast_math.py resnet50 bert_base``.

Each network is built twice by TVM's default pipeline: with the options that TVM gives to NVRTC, and without
``--use_fast_math``, as passsearch compiles. Every timing process loads both builds and times them in turns. A row has
the ratio of the time without to the time with fast math, and the share of the outputs that are not finite with it.
Needs a GPU, and an interpreter with passsearch and TVM. ``benchmarks/results/gpu/fast_math.json`` has the rows.
"""

import argparse
import json
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "gpu" / "fast_math.json"
MODES = ("with", "without")
ROUNDS, RUNS = 20, 20
"""Turns of each build in a process, and inferences in a turn."""


def main() -> None:
    """Build and time every network; write the JSON after each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("networks", nargs="*", default=("resnet50", "bert_base", "mobilenet_v2"), help="of the zoo")
    parser.add_argument("--processes", type=int, default=6, help="that time each network (%(default)s)")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--build", nargs=4, metavar=("MODEL", "MODE", "LIBRARY", "ARCH"), help=argparse.SUPPRESS)
    parser.add_argument("--time", nargs=3, metavar=("MODEL", "LIBRARY", "LIBRARY"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    sys.path.insert(0, str(ROOT))
    if options.build:
        build(*options.build)
    elif options.time:
        print(json.dumps(time_builds(*options.time)))
    else:
        compare(options)


def compare(options: argparse.Namespace) -> None:
    """Build all networks at once, then time one after the other."""
    from passsearch.frontends import resolve
    from passsearch.measure import probe, process_ratio
    from passsearch.toolchain import cache_folder

    device = dict(probe("cuda:0").device)
    models = {name: resolve(f"zoo:{name}", folder=cache_folder() / "models").path for name in options.networks}
    rows: dict[str, Any] = {}
    with TemporaryDirectory(prefix="passsearch-") as folder:
        libraries = {(name, mode): str(Path(folder) / f"{name}-{mode}.so") for name in models for mode in MODES}
        with ThreadPoolExecutor() as threads:
            for text in threads.map(
                lambda item: _run("--build", models[item[0][0]], item[0][1], item[1], device["arch"]), libraries.items()
            ):
                print(text, end="", file=sys.stderr, flush=True)
        for name, model in models.items():
            pair = [libraries[name, mode] for mode in MODES]
            processes = [json.loads(_run("--time", model, *pair).splitlines()[-1]) for _ in range(options.processes)]
            ratio = process_ratio([(each["seconds"]["without"], each["seconds"]["with"]) for each in processes])
            rows[name] = {
                "time_without_of_with": ratio.value,
                "interval": [ratio.interval.low, ratio.interval.high],
                "processes": len(processes),
                "fastest_s": {mode: min(min(each["seconds"][mode]) for each in processes) for mode in MODES},
                "finite": processes[0]["finite"],
                "largest_difference": processes[0]["largest_difference"],
            }
            print(name, json.dumps(rows[name]), flush=True)
            document = {"date": date.today().isoformat(), "device": device, "networks": rows}
            options.out.write_text(json.dumps(document, indent=1) + "\n")


def _run(*arguments: Any) -> str:
    command = [sys.executable, __file__, *map(str, arguments)]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def build(model: str, mode: str, library: str, arch: str) -> None:
    """Write the library of a network, compiled by TVM's default pipeline with or without fast math."""
    from passsearch.standalone.relax.deployment import cuda_libraries

    cuda_libraries.prepare("cc")
    if mode == "with":
        import os

        from cuda.bindings import nvrtc

        os.environ.pop("TVM_CUDA_NVCC_NO_FAST_MATH")
        nvrtc.nvrtcCompileProgram = nvrtc.nvrtcCompileProgram.args[0]  # TVM's options again
    import onnx
    import tvm
    from tvm import relax
    from tvm.relax.frontend.onnx import from_onnx

    from passsearch.standalone.relax.deployment.lowering import target_options

    start_s = time.perf_counter()
    module = from_onnx(onnx.load(model), keep_params_in_input=False)
    with tvm.target.Target(target_options(f"cuda -arch={arch}")) as target:
        relax.build(module, target).export_library(library)
    print(f"{Path(model).parent.name} {mode} fast math: {time.perf_counter() - start_s:.1f} s")


def time_builds(model: str, *libraries: str) -> dict[str, Any]:
    """Return the seconds of an inference in each turn, by build, and how the outputs of both differ."""
    import numpy as np
    import onnx
    import tvm
    from tvm import relax

    from passsearch.dialects.case_inputs import random_inputs
    from passsearch.standalone.relax.deployment import cuda_libraries

    cuda_libraries.load_runtime("cc")
    device = tvm.cuda(0)
    types = {each.name: _type(each) for each in onnx.load(model, load_external_data=False).graph.input}
    inputs = [tvm.runtime.tensor(value, device) for value in random_inputs(types, seed=0).values()]
    machines = {
        mode: relax.VirtualMachine(tvm.runtime.load_module(library), device)
        for mode, library in zip(MODES, libraries, strict=True)
    }
    outputs = {mode: _flat(machine["main"](*inputs)) for mode, machine in machines.items()}
    both = np.isfinite(outputs["with"]) & np.isfinite(outputs["without"])
    difference = np.abs(outputs["with"] - outputs["without"])[both]
    seconds: dict[str, list[float]] = {mode: [] for mode in MODES}
    for _ in range(ROUNDS):
        for mode, machine in machines.items():
            main_function = machine["main"]
            main_function(*inputs)
            device.sync()
            start_s = time.perf_counter()
            for _ in range(RUNS):
                main_function(*inputs)
            device.sync()
            seconds[mode].append((time.perf_counter() - start_s) / RUNS)
    return {
        "seconds": seconds,
        "finite": {mode: float(np.isfinite(value).mean()) for mode, value in outputs.items()},
        "largest_difference": float(difference.max()) if difference.size else None,
    }


def _type(value: Any) -> Any:
    import onnx

    from passsearch.core import TensorType

    tensor = value.type.tensor_type
    shape = tuple(each.dim_value for each in tensor.shape.dim)
    return TensorType(shape, str(onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)))


def _flat(outputs: Any) -> Any:
    import numpy as np

    tensors = [outputs] if hasattr(outputs, "numpy") else list(outputs)
    return np.concatenate([np.ravel(each.numpy()).astype("float64") for each in tensors])


if __name__ == "__main__":
    main()
