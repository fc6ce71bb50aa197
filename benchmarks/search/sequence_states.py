"""The catalog's sequences on many networks, each reached through shared states and in a process of its own.

``python -m benchmarks.search.sequence_states FILE.onnx … --out RESULT.json`` checks every sequence for the host on
built-in networks and on the files, and writes what differs. A network that the result has already is not checked again.
Half a minute to some minutes a network."""

import argparse
import json
import time
from datetime import date
from pathlib import Path
from typing import Any

from passsearch.api.catalog import check_catalog_sequences
from passsearch.errors import PassSearchError
from passsearch.toolchain import get_toolchain

BUILT_IN = (
    "resnet_tiny",
    "vgg_tiny",
    "unet_tiny",
    "bert_tiny",
    "vit_tiny",
    "gpt2_tiny",
    "llama_tiny",
    "llama_tiny_decode",
    "resnet18",
    "mobilenet_v2",
    "residual_x3",
    "depthwise_x3",
    "encoder_x2",
)
RESULTS = Path(__file__).parents[1] / "results" / "sequence_states.json"


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
    """Check the networks that the result lacks."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="*", type=Path, help="ONNX files")
    parser.add_argument("--toolchain", default="relax")
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    document = json.loads(arguments.out.read_text()) if arguments.out.exists() else {}
    networks = document.setdefault(arguments.toolchain, {})
    files = [(file.stem, str(file)) for file in arguments.files]
    for name, model in [*files, *((name, f"zoo:{name}") for name in BUILT_IN)]:
        if name not in networks:
            networks[name] = check(model, arguments.toolchain)
            print(name, json.dumps(networks[name]), flush=True)
            version = get_toolchain(arguments.toolchain).tvm_version
            document |= {
                "date": date.today().isoformat(),
                "tvm": {**document.get("tvm", {}), arguments.toolchain: version},
            }
            arguments.out.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
