"""MXNet networks for the programs of this folder."""

import mxnet as mx
from mxnet import gluon

from passsearch.core import TensorType

DATA = {"data": TensorType((2, 3, 8, 8), "float32")}


def make(initialize=True):
    """A hybrid block with one input."""
    mx.random.seed(0)
    block = gluon.nn.HybridSequential(prefix="net_")
    with block.name_scope():
        block.add(gluon.nn.Conv2D(4, 3), gluon.nn.BatchNorm(), gluon.nn.Dropout(0.5), gluon.nn.Dense(3))
    if initialize:
        block.initialize()
        block(mx.nd.zeros((1, 3, 8, 8)))
    return block


class TwoInputs(gluon.HybridBlock):
    """A block with two inputs and nested outputs."""

    def __init__(self):
        super().__init__()
        with self.name_scope():
            self.dense = gluon.nn.Dense(2, in_units=3)

    def hybrid_forward(self, operators, x, y):
        return self.dense(x), [operators.exp(y), x + y]


def infer(file, *arrays):
    """The outputs that MXNet computes from the files of a network."""
    params = file.path.with_name(file.path.name.replace("-symbol.json", "-0000.params"))
    block = gluon.SymbolBlock.imports(str(file.path), list(file.inputs), str(params))
    outputs = block(*arrays)
    return outputs if isinstance(outputs, list) else [outputs]
