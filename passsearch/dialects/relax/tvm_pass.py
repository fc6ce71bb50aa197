"""A pipeline as one pass of TVM, in an interpreter that has TVM."""

from collections.abc import Mapping
from typing import Any

from passsearch.core import PassSpec, Pipeline
from passsearch.dialects.contract import CompileError
from passsearch.dialects.relax.bridge import RelaxBridge  # before TVM, which it imports faster

import tvm  # isort: skip

from passsearch.standalone.relax.deployment.lowering import lower


def as_pass(steps: Pipeline, factories: Mapping[str, str]) -> tvm.transform.Pass:
    """Return one pass of TVM for all steps of a pipeline and the lowering.

    Args:
        steps: The passes in order.
        factories: ``module:function`` by pass name.
    """

    def convert(module: tvm.IRModule, _context: Any) -> tvm.IRModule:
        target = tvm.target.Target.current(allow_none=True)
        if target is None:
            raise ValueError("a pipeline is for one processor: give tvm.compile its target, such as llvm")
        bridge = RelaxBridge(str(target))
        for step in steps.passes:
            module = _applied(bridge, module, step, factory=factories[step.name])
        return lower(module, level=0, target=target)

    return tvm.transform.module_pass(convert, opt_level=0, name="passsearch.pipeline")


def _applied(bridge: RelaxBridge, module: tvm.IRModule, step: PassSpec, *, factory: str) -> tvm.IRModule:
    try:
        return bridge.apply(module, step, factory=factory)
    except CompileError as error:
        # TVM hands on errors of Python's own kinds alone.
        raise ValueError(f"{step} fails on this module: {error}") from error
