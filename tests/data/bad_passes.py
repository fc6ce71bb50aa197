"""Passes that do to a compiler what passes sometimes do."""

import ctypes
import time

import numpy as np
import tvm
from tvm import relay


@tvm.ir.transform.module_pass(opt_level=0, name="Crash")
def _crash(module, context):
    ctypes.string_at(0)


@tvm.ir.transform.module_pass(opt_level=0, name="Hang")
def _hang(module, context):
    time.sleep(3600)


@tvm.ir.transform.module_pass(opt_level=0, name="Refuse")
def _refuse(module, context):
    raise ValueError("this pass refuses")


class _Lie(relay.ExprMutator):
    def visit_call(self, call):
        new = super().visit_call(call)
        return relay.tanh(new.args[0]) if call.op == relay.op.get("nn.relu") else new


@tvm.ir.transform.module_pass(opt_level=0, name="Lie")
def _lie(module, context):
    return tvm.IRModule({"main": _Lie().visit(module["main"])})


@tvm.ir.transform.module_pass(opt_level=0, name="InPlace")
def _in_place(module, context):
    module["main"] = _Lie().visit(module["main"])
    return module


def in_place():
    return _in_place


def crash():
    return _crash


def hang():
    return _hang


def refuse():
    return _refuse


def lie():
    return _lie


@tvm.ir.transform.module_pass(opt_level=0, name="Restless")
def _restless(module, context):
    function = module["main"]
    drawn = relay.const(np.random.default_rng().standard_normal(()).astype("float32"))
    body = relay.add(function.body, drawn)
    return tvm.IRModule({"main": relay.Function(function.params, body)})


def restless():
    return _restless


def twins(shared):
    @tvm.ir.transform.module_pass(opt_level=0, name="Twins")
    def _twins(module, context):
        function = module["main"]
        one, other = (relay.const(np.ones((1, 5), "float32")) for _ in range(2))
        body = relay.add(relay.add(function.body, one), one if shared else other)
        return tvm.IRModule({"main": relay.Function(function.params, body)})

    return _twins


def part_twins():
    """Gives the last operator a constant of its own, with the same array."""

    @tvm.ir.transform.module_pass(opt_level=0, name="PartTwins")
    def _part(module, context):
        function = module["main"]
        left, shared = function.body.args
        body = relay.add(left, relay.Constant(shared.data))
        return tvm.IRModule({"main": relay.Function(function.params, body)})

    return _part
