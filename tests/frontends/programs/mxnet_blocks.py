"""A block becomes files that compute the same, and is not changed."""

import mxnet as mx
import numpy as np
from mxnet_network import DATA, TwoInputs, infer, make
from prelude import FOLDER, resolve

block, image = make(), mx.nd.random.normal(shape=(2, 3, 8, 8))
file = resolve(block, inputs=DATA, folder=FOLDER)
assert (file.format, file.name, dict(file.inputs)) == ("mxnet", "net", DATA), file
np.testing.assert_allclose(infer(file, image)[0].asnumpy(), block(image).asnumpy(), atol=1e-5)
for example in (image, image.asnumpy(), [image], {"data": image}):
    assert resolve(block, example_inputs=example, folder=FOLDER) == file
assert not block._active
block.hybridize()
block(image)
assert resolve(block, inputs=DATA, batch=2, folder=FOLDER) == file
two_inputs = TwoInputs()
two_inputs.initialize()
x, y = mx.nd.ones((2, 3)), mx.nd.ones((2, 3))
file = resolve(two_inputs, example_inputs=(x, y), folder=FOLDER)
assert list(file.inputs) == ["data0", "data1"]
assert list(resolve(two_inputs, example_inputs={"y": y, "x": x}, folder=FOLDER).inputs) == ["x", "y"]
outputs = infer(file, x, y)
expected = two_inputs(x, y)
for value, array in zip(outputs, (expected[0], *expected[1]), strict=True):
    np.testing.assert_allclose(value.asnumpy(), array.asnumpy(), atol=1e-5)
