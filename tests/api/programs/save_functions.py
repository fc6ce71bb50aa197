"""Save a module with two functions, `prefill` of an open length and `decode` of length 1, to the file of the argument.

A script for an interpreter with Relay or Relax: ``test_weighted_cases.py`` runs it.
"""

import sys
from pathlib import Path

import numpy as np

WIDTH = 8
WEIGHTS = np.linspace(-1, 1, WIDTH * WIDTH, dtype="float32").reshape(WIDTH, WIDTH)


def relay_module():
    """Return the module in Relay."""
    import tvm
    from tvm import relay

    module = tvm.IRModule()
    for name, length in (("prefill", relay.Any()), ("decode", 1)):
        data = relay.var("x", shape=(length, WIDTH), dtype="float32")
        body = relay.nn.relu(relay.nn.dense(data, relay.const(WEIGHTS)))
        module[relay.GlobalVar(name)] = relay.Function([data], body)
    return relay.transform.InferType()(module)


def relax_module():
    """Return the module in Relax."""
    from tvm import relax, tirx

    builder, weights = relax.BlockBuilder(), relax.const(WEIGHTS)
    for name, length in (("prefill", tirx.Var("n", "int64")), ("decode", 1)):
        data = relax.Var("x", relax.TensorType((length, WIDTH), "float32"))
        with builder.function(name, [data]):
            with builder.dataflow():
                product = builder.emit(relax.op.matmul(data, weights))
                result = builder.emit_output(relax.op.nn.relu(product))
            builder.emit_func_output(result)
    return builder.get()


if __name__ == "__main__":
    dialect, path = sys.argv[1:]
    module = {"relay": relay_module, "relax": relax_module}[dialect]()
    import tvm

    Path(path).write_text(tvm.ir.save_json(module))
