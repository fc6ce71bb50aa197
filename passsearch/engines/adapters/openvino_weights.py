"""OpenVINO on the CPU with weights in fewer bits, as NNCF compresses them without data."""

from collections import Counter
from typing import Any

from passsearch.core.engine_environment import EngineEnvironment
from passsearch.engines.adapters.openvino import OpenVino
from passsearch.engines.contract import REQUIREMENTS, Inputs

ENVIRONMENT = EngineEnvironment("nncf", REQUIREMENTS, ("openvino", "nncf"), disk_bytes=1_000_000_000)
ENGINES: dict[str, dict[str, Any]] = {
    "openvino:int8-weights": {"mode": "INT8_SYM"},
    "openvino:int4-weights": {"mode": "INT4_SYM", "group_size": 32},
}
LOWERED = frozenset(ENGINES)
NARROW = frozenset({"i4", "u4", "i8", "u8"})


def open_engine(
    model: str, *, threads: int | None, inputs: Inputs, mode: str, group_size: int | None = None
) -> OpenVino:
    """Compress the weights of a model file, and compile it.

    OpenVINO chooses the type that it computes in: it may round activations as well, a group at a time, where that is
    faster.

    Raises:
        RuntimeError: NNCF leaves all weights as they are.
    """
    import nncf
    import openvino as ov

    options: dict[str, Any] = {}
    if group_size is not None:
        # Weights that no such group divides get 8 bits; otherwise NNCF refuses the whole network.
        parameters = nncf.AdvancedCompressionParameters(group_size_fallback_mode=nncf.GroupSizeFallbackMode.ADJUST)
        # Without `all_layers` embeddings and the last product have 8 bits with weights in 4.
        options = {"group_size": group_size, "all_layers": True, "advanced_parameters": parameters}
    network = ov.Core().read_model(model)
    before = _narrow_weights(network)
    compressed = nncf.compress_weights(network, mode=nncf.CompressWeightsMode[mode], **options)
    weights = _narrow_weights(compressed)
    if weights == before:
        raise RuntimeError("NNCF compresses no weights of this network, so it is the one that `openvino` runs")
    engine = OpenVino(compressed, threads=threads, inputs=inputs, dtype="")
    engine.versions["nncf"] = nncf.__version__
    engine.settings["weights"] = dict(weights)
    return engine


def _narrow_weights(network: Any) -> Counter[str]:
    """Return the number of constants in each type of few bits, without zero points."""
    constants = [node for node in network.get_ops() if node.get_type_name() == "Constant"]
    types = [(node, node.get_element_type().to_string()) for node in constants]
    return Counter(kind for node, kind in types if kind in NARROW and not _is_zero_point(node))


def _is_zero_point(node: Any) -> bool:
    users = [end for output in node.outputs() for end in output.get_target_inputs()]
    if any(end.get_node().get_type_name() == "Convert" for end in users):
        return all(_is_zero_point(end.get_node()) for end in users)
    return all(end.get_node().get_type_name() == "Subtract" and end.get_index() == 1 for end in users)
