"""The catalog's sequences on many networks, each reached through shared states and in a process of its own.

``python -m benchmarks.search.sequence_states FILE.onnx …`` checks every sequence for the host on built-in networks and
on the files, and writes what differs. A network that the result has already is not checked again. Half a minute to some
minutes a network.
"""

import json
import time
from pathlib import Path
from typing import Any

from benchmarks.common import RESULTS, options, read, today, write
from passsearch.api.catalog import check_catalog_sequences
from passsearch.errors import PassSearchError
from passsearch.toolchain import get_toolchain

BUILT_IN = (
    *("resnet_tiny", "vgg_tiny", "unet_tiny", "bert_tiny", "vit_tiny", "gpt2_tiny", "llama_tiny", "llama_tiny_decode"),
    *("resnet18", "mobilenet_v2", "residual_x3", "depthwise_x3", "encoder_x2"),
)


def check(model: str, toolchain: str) -> dict[str, Any]:
    """Return what the check of one network found, and its wall time in seconds."""
    start = time.monotonic()
    try:
        rows = [row.to_json() for row in check_catalog_sequences(model, toolchain)]
    except PassSearchError as error:
        return {"refusal": str(error)}
    return {
        "sequences": len(rows),
        "differing": [row for row in rows if row["problem"]],
        "refused": [row["name"] for row in rows if row["refusal"]],
        "seconds": round(time.monotonic() - start, 1),
    }


def main() -> None:
    arguments = options(__doc__, ("files", ()), toolchain="relax", out=RESULTS / "sequence_states.json")
    toolchain, document = arguments.toolchain, read(arguments.out)
    networks = document.setdefault(toolchain, {})
    models = {Path(file).stem: file for file in arguments.files} | {name: f"zoo:{name}" for name in BUILT_IN}
    for name in [name for name in models if name not in networks]:
        networks[name] = check(models[name], toolchain)
        print(name, json.dumps(networks[name]), flush=True)
        document.setdefault("tvm", {})[toolchain] = get_toolchain(toolchain).tvm_version
        write(arguments.out, {**document, "date": today()})


if __name__ == "__main__":
    main()
