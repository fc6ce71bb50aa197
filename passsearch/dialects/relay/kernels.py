"""What a build has lowered a network to: two builds with the same kernels in the same order run alike."""

import hashlib
import json
from typing import Any

import tvm

_LAST = "tir.BindTarget"
"""The first pass over all kernels together, once they are lowered and before code is generated."""


@tvm.instrument.pass_instrument
class LoweredKernels:
    """Notes the structural hash of every lowered function while a build runs."""

    def __init__(self) -> None:
        self.hashes: dict[str, int] = {}

    def run_before_pass(self, module: tvm.IRModule, info: Any) -> None:
        """TVM calls this before every pass."""
        if info.name != _LAST:
            return
        for variable, function in module.functions.items():
            if isinstance(function, tvm.tir.PrimFunc) and variable.name_hint not in self.hashes:
                plain = function.without_attr("global_symbol") if "global_symbol" in function.attrs else function
                self.hashes[variable.name_hint] = tvm.ir.structural_hash(plain) & 0xFFFFFFFFFFFFFFFF


def kernels_digest(graph_json: str, hashes: dict[str, int]) -> str:
    """A digest of the calls in order: which kernel, on which slots of the memory plan, of which shapes.

    The names of kernels and nodes and the values of parameters have no part in it. Empty where a kernel is not known:
    such a build is like no other.
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
