"""A symbol with its parameters becomes files that compute the same."""

import mxnet as mx
import numpy as np
from mxnet_network import DATA, infer, make
from prelude import FOLDER, refusal, resolve

block = make()
block.hybridize()
block(mx.nd.zeros((2, 3, 8, 8)))
block.export(str(FOLDER / "exported"), epoch=7)
symbol, args, aux = mx.model.load_checkpoint(str(FOLDER / "exported"), 7)
options = {"inputs": DATA, "folder": FOLDER}
file = resolve((symbol, args, aux), **options)
prefixed = mx.nd.load(str(FOLDER / "exported-0007.params"))
plain = {name: value.asnumpy() for name, value in {**args, **aux}.items()}
for params in (prefixed, plain):
    assert resolve((symbol, params), **options).sha256 == file.sha256
image = mx.nd.random.normal(shape=(2, 3, 8, 8))
for network in (file, resolve(FOLDER / "exported-symbol.json", **options)):
    assert dict(network.inputs) == DATA
np.testing.assert_allclose(infer(file, image)[0].asnumpy(), block(image).asnumpy(), atol=1e-5)
assert "is a symbol without its parameters; give (symbol, params)" in refusal(symbol)
assert "is a symbol without its parameters; give (symbol, params)" in refusal((symbol, 3))
assert "Parameter `net_conv0_weight` is a `str`" in refusal((symbol, {**plain, "net_conv0_weight": "x"}))
assert "does not say the shape of `data`" in refusal((symbol, plain))
