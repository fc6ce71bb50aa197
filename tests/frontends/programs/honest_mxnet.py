"""Write files of MXNet that only compute. Argument: their folder."""

import sys
from pathlib import Path

import mxnet
from mxnet.gluon import nn
from mxnet.gluon.model_zoo import vision

FOLDER = Path(sys.argv[1])


def main() -> None:
    """Write all files."""
    dense = nn.HybridSequential()
    dense.add(nn.Conv2D(4, 3), nn.BatchNorm(), nn.LeakyReLU(0.1), nn.GlobalAvgPool2D(), nn.Flatten(), nn.Dense(3))
    networks = {"dense": dense, "mobilenet": vision.mobilenet_v2_0_25(), "squeezenet": vision.squeezenet1_1()}
    for name, network in networks.items():
        network.initialize()
        network.hybridize()
        network(mxnet.nd.ones((1, 3, 224, 224)))
        network.export(str(FOLDER / name))


if __name__ == "__main__":
    main()
