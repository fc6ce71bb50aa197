"""The same as ``bad_passes`` for Relax."""

import ctypes
import time

import numpy as np
import tvm
from tvm import relax


def _pass(name, change):
    return tvm.transform.module_pass(lambda module, _context: change(module), opt_level=0, name=name)


def crash():
    return _pass("Crash", lambda _: ctypes.string_at(0))


def hang():
    return _pass("Hang", lambda _: time.sleep(3600))


def refuse():
    def change(_):
        raise ValueError("this pass refuses")

    return _pass("Refuse", change)


@relax.expr_functor.mutator
class _Lie(relax.PyExprMutator):
    def visit_call_(self, call):
        new = super().visit_call_(call)
        return relax.op.tanh(new.args[0]) if str(getattr(new.op, "name", "")) == "relax.nn.relu" else new


def _lied(module):
    changed = module.clone()
    changed.update_func(module.get_global_var("main"), _Lie(module).visit_expr(module["main"]))
    return changed


def lie():
    return _pass("Lie", _lied)


def in_place():
    def change(module):
        module.update_func(module.get_global_var("main"), _Lie(module).visit_expr(module["main"]))
        return module

    return _pass("InPlace", change)


def restless():
    def change(module):
        drawn = np.random.default_rng().standard_normal(()).astype("float32")
        return _appended(module, [relax.const(drawn)])

    return _pass("Restless", change)


def twins(shared):
    one, other = (relax.const(np.ones((1, 5), "float32")) for _ in range(2))
    return _pass("Twins", lambda module: _appended(module, [one, one if shared else other]))


def part_twins():
    """Gives the last operator a constant of its own, with the same array."""

    def change(module):
        main = module["main"]
        *blocks, block = main.body.blocks
        *bindings, last = block.bindings
        left, shared = last.value.args
        added = relax.Call(last.value.op, [left, tvm.ir.GenericConst(shared.value, shared.ty)], last.value.attrs)
        changed = relax.BindingBlock([*bindings, relax.VarBinding(last.var, added)])
        return _rebuilt(module, [*blocks, changed], main.body.body)

    return _pass("PartTwins", change)


def _appended(module, constants):
    """The module with arrays added to what main returns."""
    main = module["main"]
    bindings, result = [], main.body.body
    for number, constant in enumerate(constants):
        variable = relax.Var(f"added{number}", result.ty)
        bindings.append(relax.VarBinding(variable, relax.op.add(result, constant)))
        result = variable
    return _rebuilt(module, [*main.body.blocks, relax.BindingBlock(bindings)], result)


def _rebuilt(module, blocks, result):
    main = module["main"]
    function = relax.Function(main.params, relax.SeqExpr(blocks, result), main.ret_ty, main.is_pure, main.attrs)
    normal = relax.transform.Normalize()(tvm.IRModule({"main": function}))
    changed = module.clone()
    changed.update_func(module.get_global_var("main"), normal["main"])
    return changed
