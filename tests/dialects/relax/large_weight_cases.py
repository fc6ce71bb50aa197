"""Large weights in files, run by the toolchain's interpreter: the argument is an empty folder."""

import json
import os
import re
import resource
import sys
from pathlib import Path
from unittest.mock import patch

import numpy as np
import onnx
import tvm
import tvm_ffi
from onnx import TensorProto, helper
from tvm import relax

from passsearch.core import BuildOptions
from passsearch.dialects import constant_table
from passsearch.dialects.contract import Artifact, ModelSource
from passsearch.dialects.relax.bridge import RelaxBridge
from passsearch.dialects.relax.separate_weights import weight_bytes
from passsearch.standalone.relax.cpu_schedules import ScheduleCPU, constants
from passsearch.standalone.relax.deployment import separate_weights
from passsearch.standalone.relax.deployment.lowering import target_options
from passsearch.standalone.relax.deployment.network_file import read_network
from passsearch.worker.state_cache import StateCache

SIDE = 1024


def main() -> None:
    """Print what holds."""
    constant_table.RELEASED_BYTES = constants.PAGED_BYTES = 1  # else a test needs weights of 16 MiB
    folder, bridge = Path(sys.argv[1]), RelaxBridge("llvm")
    states = StateCache(bridge, budget_bytes=1 << 40, folder=folder / "states")
    network, weights = write_network(folder)
    module = bridge.load(ModelSource(network, "onnx", {}))
    identity, _ = states.add(module)
    own = states.get(identity)
    assert own is not None
    bridge.save(module, folder / "network.json")
    saved = bridge.load(ModelSource(folder / "network.json", "ir", {}))
    separate_weights.LEAST_BYTES = 1  # else a test needs 256 MB
    outputs = []
    for name in ("first", "second"):
        artifact = bridge.build(own, BuildOptions(opt_level=3), folder / name)
        inputs = {"x": np.ones((1, SIDE), "float32")}
        outputs.append(bridge.open(Artifact(artifact.folder, 0, None), "cpu").run(inputs)[0])
    with patch.object(os, "link", side_effect=OSError("no links")):
        bridge.build(own, BuildOptions(opt_level=3), folder / "third")
    files = [next((folder / name / "constants").iterdir()) for name in ("first", "second")]
    state = next((folder / "states" / "constants").iterdir())
    expected = np.ones((1, SIDE), "float32") @ weights + 1
    packed, without_room = schedule(own), schedule_without_room(own)
    read_bytes = resident_bytes(folder / "states")
    states.release()
    answer = {
        "case": "large weights",
        "packed in a file": in_files(packed, "(deleted)"),
        "packed without room": bool(tvm_ffi.structural_equal(packed, without_room)),
        "given back": resident_bytes(folder / "states") == 0 < read_bytes,
        "mapped": in_files(own, str(folder / "states")),
        "equal": bool(tvm_ffi.structural_equal(module, own)),
        "saved": bool(tvm_ffi.structural_equal(module, saved)),
        "saved is mapped beside its file": in_files(saved, str(folder)),
        "saved where nothing can be written": in_files(read_without_folder(folder / "network.json"), "(deleted)"),
        "saved without room": bool(tvm_ffi.structural_equal(module, read_without_room(folder / "network.json"))),
        "right": [bool(np.allclose(each, expected, atol=1e-2)) for each in outputs],
        "one file": len({file.stat().st_ino for file in (*files, state)}) == 1,
        "without links": weight_bytes(folder / "third") > weights.nbytes,
        "library is small": (folder / "first" / "network.so").stat().st_size < weights.nbytes,
        "equal digests": bridge.digest(Artifact(folder / "first", 0, None))
        == bridge.digest(Artifact(folder / "second", 0, None)),
    }
    print(json.dumps(answer))


def write_network(folder: Path) -> tuple[Path, np.ndarray]:  # type: ignore[type-arg]
    """Write a product with a large weight in another file, at an offset that is not aligned, and a small one."""
    weights = np.random.default_rng(0).standard_normal((SIDE, SIDE), dtype="float32")
    small = np.ones(1, "float32")
    (folder / "weights.bin").write_bytes(small.tobytes() + weights.tobytes())
    places = {"w": ([SIDE, SIDE], 4, weights.nbytes), "one": ([1], 0, 4)}
    tensors = []
    for name, (dims, offset, length) in places.items():
        tensor = TensorProto(name=name, dims=dims, data_type=1, data_location=TensorProto.EXTERNAL)
        for key, value in {"location": "weights.bin", "offset": offset, "length": length}.items():
            tensor.external_data.add(key=key, value=str(value))
        tensors.append(tensor)
    nodes = [helper.make_node("MatMul", ["x", "w"], ["p"]), helper.make_node("Add", ["p", "one"], ["y"])]
    kinds = [helper.make_tensor_value_info(name, 1, [1, SIDE]) for name in ("x", "y")]
    graph = helper.make_graph(nodes, "g", kinds[:1], kinds[1:], tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path = folder / "network.onnx"
    path.write_bytes(model.SerializeToString())
    onnx.checker.check_model(str(path))
    return path, weights


def read_without_folder(path: Path) -> tvm.IRModule:
    """Read a network by a path in whose folder no file can be made, not even by root."""
    with path.open("rb") as file:
        return read_network(Path(f"/proc/self/fd/{file.fileno()}"))


def schedule(module: tvm.IRModule) -> tvm.IRModule:
    """Schedule a network, which packs its weights."""
    with tvm.target.Target(target_options("llvm -mcpu=x86-64-v3")), tvm.transform.PassContext(opt_level=4):
        return tvm.transform.Sequential([relax.transform.LegalizeOps(), ScheduleCPU()])(module)


def schedule_without_room(module: tvm.IRModule) -> tvm.IRModule:
    """Schedule a network where a file cannot hold its large weight."""
    with patch.object(os, "posix_fallocate", side_effect=OSError("no room")):
        return schedule(module)


def resident_bytes(folder: Path) -> int:
    """Return the size of the pages of files in a folder that are in the memory of this process."""
    is_of_folder, total = False, 0
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if re.match("[0-9a-f]+-[0-9a-f]+ ", line):
            is_of_folder = str(folder) in line
        elif is_of_folder and line.startswith("Rss:"):
            total += 1024 * int(line.split()[1])
    return total


def read_without_room(path: Path) -> tvm.IRModule:
    """Read a network where a file cannot hold its large constant."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (SIDE, limits[1]))
    try:
        return read_network(path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def in_files(module: tvm.IRModule, folder: str) -> bool:
    """Return whether the large constants of a module are on pages of files in a folder."""
    large: list[int] = []

    def visit(constant: tvm.ir.GenericConst) -> None:
        if np.prod(constant.value.shape) > SIDE:
            large.append(np.from_dlpack(constant.value).ctypes.data)

    tvm_ffi.structural_walk(module["main"], (tvm.ir.GenericConst, visit))
    rows = [line.split(maxsplit=5) for line in Path("/proc/self/maps").read_text().splitlines()]
    mapped = [tuple(int(end, 16) for end in row[0].split("-")) for row in rows if folder in row[-1]]
    return bool(large) and all(any(low <= each < high for low, high in mapped) for each in large)


if __name__ == "__main__":
    main()
