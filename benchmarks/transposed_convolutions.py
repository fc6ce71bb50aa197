"""Measures what ``SubpixelConvolution`` gives networks whose maps grow by transposed convolutions.

``python benchmarks/transposed_convolutions.py FOLDER`` writes the networks there, and measures a sequence of the
catalog with and without the pass, ONNX Runtime and OpenVINO in turns. Without a folder it prints the JSON. It takes
four minutes.

* ``unet``: ``zoo:unet``, with transposed convolutions of 2 by 2 and stride 2.
* ``generator``: the generator of DCGAN for images of 64 by 64, five transposed convolutions of 4 by 4, four of them of
  stride 2 (Radford et al., 2016, figure 1).
"""

from pathlib import Path

import onnx
import with_and_without

from passsearch.frontends.zoo import build
from passsearch.frontends.zoo.builder import GraphBuilder

RESULTS = Path(__file__).parent / "results" / "relax" / "transposed_convolutions.json"


def unet() -> onnx.ModelProto:
    """Return the U-Net of the zoo."""
    return build("unet")


def generator(*, noise: int = 100, width: int = 128, size: int = 64) -> onnx.ModelProto:
    """Return a generator whose maps grow from 4 by 4."""
    graph = GraphBuilder("generator")
    x = graph.input("image", (1, noise, 1, 1))
    x = graph.conv_transpose(x, 8 * width, kernel=4, stride=1)
    while x.shape[2] < size // 2:
        x = graph.relu(graph.batch_norm(x))
        x = graph.conv_transpose(x, x.shape[1] // 2, kernel=4, stride=2, padding=1)
    x = graph.conv_transpose(graph.relu(graph.batch_norm(x)), 3, kernel=4, stride=2, padding=1)
    graph.output(graph.node("Tanh", [x], shape=x.shape), "result")
    return graph.finish()


NETWORKS = {"unet": (unet, "winograd-schedule-cpu"), "generator": (generator, "nhwc-schedule-cpu")}


if __name__ == "__main__":
    with_and_without.main(__doc__.splitlines()[0], NETWORKS, without="SubpixelConvolution", results=RESULTS)
