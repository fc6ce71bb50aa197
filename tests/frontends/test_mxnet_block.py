"""Tests of gluon blocks and MXNet symbols as files; each program runs in a process of its own."""

import pytest

SETUP = """
import mxnet as mx
from mxnet import gluon
DATA = {"data": TensorType((2, 3, 8, 8), "float32")}

def make(initialized=True):
    mx.random.seed(0)
    block = gluon.nn.HybridSequential(prefix="net_")
    with block.name_scope():
        block.add(gluon.nn.Conv2D(4, 3), gluon.nn.BatchNorm(), gluon.nn.Dropout(0.5), gluon.nn.Dense(3))
    if initialized:
        block.initialize()
        block(mx.nd.zeros((1, 3, 8, 8)))
    return block

class Several(gluon.HybridBlock):
    def __init__(self):
        super().__init__()
        with self.name_scope():
            self.dense = gluon.nn.Dense(2, in_units=3)

    def hybrid_forward(self, F, x, y):
        return self.dense(x), [F.exp(y), x + y]

def infer(file, *arrays):
    params = file.path.with_name(file.path.name.replace("-symbol.json", "-0000.params"))
    block = gluon.SymbolBlock.imports(str(file.path), list(file.inputs), str(params))
    answer = block(*arrays)
    return answer if isinstance(answer, list) else [answer]
"""

BLOCKS = """
block, image = make(), mx.nd.random.normal(shape=(2, 3, 8, 8))
file = resolve(block, inputs=DATA, folder=folder)
assert (file.format, file.name, dict(file.inputs)) == ("mxnet", "net", DATA), file
np.testing.assert_allclose(infer(file, image)[0].asnumpy(), block(image).asnumpy(), atol=1e-5)
for example in (image, image.asnumpy(), [image], {"data": image}):
    assert resolve(block, example_inputs=example, folder=folder) == file
assert not block._active
block.hybridize()
block(image)
assert resolve(block, inputs=DATA, batch=2, folder=folder) == file
several = Several()
several.initialize()
x, y = mx.nd.ones((2, 3)), mx.nd.ones((2, 3))
file = resolve(several, example_inputs=(x, y), folder=folder)
assert list(file.inputs) == ["data0", "data1"]
assert list(resolve(several, example_inputs={"y": y, "x": x}, folder=folder).inputs) == ["x", "y"]
got = infer(file, x, y)
expected = several(x, y)
for value, wanted in zip(got, (expected[0], *expected[1]), strict=True):
    np.testing.assert_allclose(value.asnumpy(), wanted.asnumpy(), atol=1e-5)
"""

REFUSED_BLOCKS = """
assert "does not name its inputs; give inputs or example_inputs" in refused(make())
assert "has parameters without values" in refused(make(initialized=False), inputs=DATA)
assert "is no HybridBlock" in refused(gluon.nn.Sequential(), inputs=DATA)
assert "has no graph with the inputs data0, data1" in refused(make(), example_inputs=(np.ones(2), np.ones(2)))
assert "Example input `data` is a `int`" in refused(make(), example_inputs=3)
assert "Batch 3 does not fit" in refused(make(), inputs=DATA, batch=3)
"""

SYMBOLS = """
block = make()
block.hybridize()
block(mx.nd.zeros((2, 3, 8, 8)))
block.export(str(folder / "exported"), epoch=7)
symbol, args, aux = mx.model.load_checkpoint(str(folder / "exported"), 7)
given = {"inputs": DATA, "folder": folder}
file = resolve((symbol, args, aux), **given)
prefixed = mx.nd.load(str(folder / "exported-0007.params"))
plain = {name: value.asnumpy() for name, value in {**args, **aux}.items()}
for params in (prefixed, plain):
    assert resolve((symbol, params), **given).sha256 == file.sha256
image = mx.nd.random.normal(shape=(2, 3, 8, 8))
for each in (file, resolve(folder / "exported-symbol.json", **given)):
    assert dict(each.inputs) == DATA
np.testing.assert_allclose(infer(file, image)[0].asnumpy(), block(image).asnumpy(), atol=1e-5)
assert "is a symbol without its parameters; give (symbol, params)" in refused(symbol)
assert "is a symbol without its parameters; give (symbol, params)" in refused((symbol, 3))
assert "Parameter `net_conv0_weight` is a `str`" in refused((symbol, {**plain, "net_conv0_weight": "x"}))
assert "does not say the shape of `data`" in refused((symbol, plain))
"""


@pytest.mark.parametrize("program", [BLOCKS, REFUSED_BLOCKS, SYMBOLS])
def test_mxnet(run_with, program):
    run_with("mxnet", SETUP + program)
