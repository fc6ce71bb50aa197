"""Blocks without a graph, values or inputs are refused."""

import numpy as np
from mxnet import gluon
from mxnet_network import DATA, make
from prelude import refusal

assert "does not name its inputs; give inputs or example_inputs" in refusal(make())
assert "has parameters without values" in refusal(make(initialize=False), inputs=DATA)
assert "is no HybridBlock" in refusal(gluon.nn.Sequential(), inputs=DATA)
assert "has no graph with the inputs data0, data1" in refusal(make(), example_inputs=(np.ones(2), np.ones(2)))
assert "Example input `data` is a `int`" in refusal(make(), example_inputs=3)
assert "Batch 3 does not fit" in refusal(make(), inputs=DATA, batch=3)
