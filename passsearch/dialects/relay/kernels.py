"""The kernels that a build lowered a network to. Two builds with the same kernels in the same order run alike."""

import hashlib
import json
from typing import Any

import tvm

_AFTER_LOWERING = "tir.BindTarget"
"""The first pass over all kernels together, after they are lowered and before code is generated."""


@tvm.instrument.pass_instrument
class LoweredKernels:
    """Pass instrument that records the structural hash of every lowered function during a build."""

    def __init__(self) -> None:
        self.hashes: dict[str, int] = {}

    def run_before_pass(self, module: tvm.IRModule, info: Any) -> None:
        """Record the functions of the module; TVM calls this before every pass."""
        if info.name != _AFTER_LOWERING:
            return
        for variable, function in module.functions.items():
            if isinstance(function, tvm.tir.PrimFunc) and variable.name_hint not in self.hashes:
                # A function's name is an attribute as well, and differs between builds of equal kernels.
                plain = function.without_attr("global_symbol") if "global_symbol" in function.attrs else function
                self.hashes[variable.name_hint] = tvm.ir.structural_hash(plain) & 0xFFFFFFFFFFFFFFFF


def kernels_digest(graph_json: str, hashes: dict[str, int]) -> str:
    """Return a digest of the kernel calls in order, with their memory slots and shapes.

    Names of kernels and nodes and values of parameters do not change it. Empty if the hash of a kernel is missing;
    such a build equals no other.
    """
    graph = json.loads(graph_json)
    calls: list[Any] = []
    for node in graph["nodes"]:
        kernel = node.get("attrs", {}).get("func_name", node["op"])
        if node["op"] != "null" and kernel != "__nop" and kernel not in hashes:
            return ""
        calls.append([hashes.get(kernel, kernel), node["inputs"]])
    plan = [graph["attrs"][name] for name in ("storage_id", "shape", "dltype")]
    return hashlib.sha256(json.dumps([calls, plan, graph["heads"], graph["arg_nodes"]]).encode()).hexdigest()


def kernel_hashes(graph_json: str, hashes: dict[str, int]) -> dict[str, str]:
    """Return the hash of each kernel that the graph calls, by its name."""
    called = {node.get("attrs", {}).get("func_name") for node in json.loads(graph_json)["nodes"]}
    return {name: f"{value:016x}" for name, value in hashes.items() if name in called}
