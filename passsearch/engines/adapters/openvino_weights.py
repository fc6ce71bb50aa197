"""OpenVINO on the CPU with weights in fewer bits, as NNCF compresses them without data."""

from functools import partial
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


def open_engine(
    model: str, *, threads: int | None, inputs: Inputs, mode: str, group_size: int | None = None
) -> OpenVino:
    """Compress the weights of a model file, and compile it.

    OpenVINO chooses the type that it computes in: it may round activations as well, a group at a time, where that is
    faster.
    """
    import nncf
    import openvino as ov

    compress = partial(nncf.compress_weights, mode=nncf.CompressWeightsMode[mode])
    # Without `all_layers` embeddings and the last product have 8 bits with weights in 4.
    options = {} if group_size is None else {"group_size": group_size, "all_layers": True}
    compressed = compress(ov.Core().read_model(model), **options)
    engine = OpenVino(compressed, threads=threads, inputs=inputs, dtype="")
    engine.versions["nncf"] = nncf.__version__
    engine.settings["weights"] = mode
    return engine
