"""Built-in networks: ONNX graphs with fixed random weights, built without a framework."""

from passsearch.frontends.zoo.networks import NETWORKS, build, describe, descriptions, nearest_name

__all__ = ["NETWORKS", "build", "describe", "descriptions", "nearest_name"]
