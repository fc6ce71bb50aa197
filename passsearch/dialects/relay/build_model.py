# ruff: noqa: B905
"""Build a network with exactly the passes of pipeline.json; check the IR after each pass, then the outputs.

Reads pipeline.json, network.json and the passes' sources beside this file; needs TVM and numpy only. Once
every check has passed, --out gets kernels.so, graph.json and parameters.bin for TVM's graph executor.
Exits with 1 where the IR or the outputs are not the recorded ones.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import importlib.util
import json
import math
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from tvm import relay
from tvm.contrib import graph_executor

HERE = Path(__file__).resolve().parent
KERNELS, GRAPH, PARAMETERS = "kernels.so", "graph.json", "parameters.bin"


def main() -> None:
    """Load, apply, build, check, write."""
    options = parse_arguments()
    record = json.loads((HERE / "pipeline.json").read_text())
    target = tvm.target.Target(options.target or record["target"])
    note = introduce(record, options.target)
    module = relay.transform.InferType()(tvm.ir.load_json((HERE / "network.json").read_text()))
    check_state(module, record["states"][0], place="the network as loaded, before any pass", note=note)
    module, apply_s = apply_passes(module, record, target=target, note=note)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "built"
        folder.mkdir()
        build_s = build(module, record["build"], target=target, folder=folder)
        check_outputs(run(folder, record, target=target), record, note=note)
        print(f"compile time: {apply_s + build_s:.2f} s (passes {apply_s:.2f} s, build {build_s:.2f} s)")
        if not options.check_only:
            shutil.copytree(folder, options.out, dirs_exist_ok=True)
            print(f"written to {options.out}: {KERNELS}, {GRAPH}, {PARAMETERS}")


def parse_arguments() -> Any:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Build the network with the recorded passes and check it.")
    parser.add_argument("--target", help="TVM target to use in place of the recorded one")
    parser.add_argument("--out", type=Path, default=HERE / "built", help="folder to write to (%(default)s)")
    parser.add_argument("--check-only", action="store_true", help="check everything, write nothing")
    return parser.parse_args()


def introduce(record: Any, target: str | None) -> str:
    """Say what is built; returns what is not as it was recorded, for a failure to repeat."""
    print(f"{record['model']['name']} for {target or record['target']}")
    notes = []
    if tvm.__version__ != record["tvm_version"]:
        notes.append(f"this is TVM {tvm.__version__}, recorded with {record['tvm_version']}")
    if target and target != record["target"]:
        notes.append(f"the target is not the recorded `{record['target']}`")
    if notes:
        print(f"note: {'; '.join(notes)}")
    return "".join(f" ({note})" for note in notes)


def apply_passes(module: Any, record: Any, *, target: Any, note: str) -> Any:
    """Apply every pass as it was recorded; returns the module and the seconds the passes took."""
    total_s = 0.0
    for number, step in enumerate(record["passes"], start=1):
        place = f"pass {number} of {len(record['passes'])}, {step['name']}"
        print(f"{place} {json.dumps(step['arguments'])}: ", end="", flush=True)
        start = time.perf_counter()
        transform = load_factory(step)(**step["arguments"])
        with target, tvm.transform.PassContext(opt_level=4):
            module = relay.transform.InferType()(transform(module))
        seconds = time.perf_counter() - start
        total_s += seconds
        check_state(module, record["states"][number], place=place, note=note)
        print(f"hash ok, {seconds:.2f} s")
    return module, total_s


def load_factory(step: Any) -> Any:
    """The function that makes a pass: TVM's own, or from a source file beside this one."""
    name, _, function = step["factory"].partition(":")
    if step["file"] is None:
        return getattr(importlib.import_module(name), function)
    spec: Any = importlib.util.spec_from_file_location(Path(step["file"]).stem, HERE / step["file"])
    if spec.name not in sys.modules:
        sys.modules[spec.name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[spec.name])
    return getattr(sys.modules[spec.name], function)


def check_state(module: Any, expected: str, *, place: str, note: str) -> None:
    """Compare the IR's structural hash with the recorded one; where they differ, say so and end."""
    got = f"{tvm.ir.structural_hash(module) & 0xFFFFFFFFFFFFFFFF:016x}"
    if got != expected.rstrip("+"):
        sys.exit(f"\nThe IR diverged at {place}: expected {expected}, got {got}{note}")


def build(module: Any, options: Any, *, target: Any, folder: Path) -> float:
    """Compile into the folder; returns the seconds it took."""
    compiler = next(filter(None, map(shutil.which, ("c++", "g++", "cc", "gcc", "clang"))), None)
    if compiler is None:
        sys.exit("No C compiler found to link kernels; install gcc or clang.")
    context = tvm.transform.PassContext(
        opt_level=options["opt_level"],
        required_pass=options["required"],
        disabled_pass=options["disabled"],
        config=options["config"],
    )
    start = time.perf_counter()
    with context:
        library = relay.build(module, target)
    library.get_lib().export_library(str(folder / KERNELS), cc=compiler)
    (folder / GRAPH).write_text(library.get_graph_json())
    (folder / PARAMETERS).write_bytes(relay.save_param_dict(library.get_params()))
    seconds = time.perf_counter() - start
    print(f"build at opt_level {options['opt_level']}: {seconds:.2f} s")
    return seconds


def run(folder: Path, record: Any, *, target: Any) -> list[Any]:
    """Outputs of the built network on the recorded inputs."""
    device = tvm.device(target.kind.name, 0)
    kernels = tvm.runtime.load_module(str(folder / KERNELS))
    executor = graph_executor.create((folder / GRAPH).read_text(), kernels, device)
    executor.load_params((folder / PARAMETERS).read_bytes())
    for name, array in make_inputs(record).items():
        if executor.get_input_index(name) >= 0:
            executor.set_input(name, array)
    executor.run()
    return [executor.get_output(index).numpy() for index in range(executor.get_num_outputs())]


def make_inputs(record: Any) -> dict[str, Any]:
    """The inputs the recorded outputs were made with: normal floats, integers and booleans of 0 and 1."""
    rng = np.random.default_rng(record["seed"])
    values = {}
    for name, (shape, dtype) in record["inputs"].items():
        shape = [1 if size is None else size for size in shape]
        is_float = dtype.startswith(("float", "bfloat"))
        values[name] = (rng.standard_normal(shape) if is_float else rng.integers(0, 2, shape)).astype(dtype)
    return values


def check_outputs(outputs: list[Any], record: Any, *, note: str) -> None:
    """Compare with the recorded outputs; where they differ by more than the tolerance, say so and end."""
    expected, tolerance = record["expected"], record["tolerance"]
    if len(outputs) != len(expected):
        sys.exit(f"The network has {len(outputs)} outputs, recorded were {len(expected)}.")
    if all(same_bits(*pair) for pair in zip(outputs, expected)):
        print("outputs ok: bit-identical")
        return
    deviation = max(deviation_of(*pair) for pair in zip(outputs, expected))
    if not deviation <= tolerance:
        sys.exit(
            f"The outputs diverged though the IR is the recorded one after every pass: they deviate by "
            f"{deviation:.2g} of the largest value, {tolerance:.2g} is allowed{note}"
        )
    print(f"outputs ok: they deviate by {deviation:.2g} of the largest value, {tolerance:.2g} is allowed")


def same_type(output: Any, expected: Any) -> bool:
    """Whether an output has the recorded shape and dtype."""
    return [list(output.shape), str(output.dtype)] == [expected["shape"], expected["dtype"]]


def same_bits(output: Any, expected: Any) -> bool:
    """Whether an output is the recorded one to the last bit."""
    return same_type(output, expected) and hashlib.sha256(output.tobytes()).hexdigest() == expected["sha256"]


def deviation_of(output: Any, expected: Any) -> float:
    """Largest deviation from the recorded values, as a share of the largest; infinite where none may be."""
    if same_bits(output, expected):
        return 0.0
    if not same_type(output, expected) or not np.issubdtype(output.dtype, np.floating):
        return math.inf
    values, last = np.array(expected["values"], dtype="float64"), output.size - 1
    places = [index * last // max(len(values) - 1, 1) for index in range(len(values))]
    finite = np.abs(output[np.isfinite(output)].astype("float64"))
    got = np.append(output.ravel()[places].astype("float64"), finite.max(initial=0.0))
    wanted = np.append(values, expected["max_abs"])
    both = np.isfinite(got) & np.isfinite(wanted)
    if not np.array_equal(got[~both], wanted[~both], equal_nan=True):
        return math.inf
    return float(np.abs(got[both] - wanted[both]).max() / max(expected["max_abs"], 1e-30))


if __name__ == "__main__":
    main()
