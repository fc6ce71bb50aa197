"""Built-in networks: ONNX graphs with fixed random weights, made without a framework."""

from passsearch.frontends.zoo.networks import NETWORKS, build, describe

__all__ = ["NETWORKS", "build", "describe"]
