"""What changed from one version of an engine to another: ``python -m benchmarks.measurement.version_pairs``.

Compares versions of ONNX Runtime, releases of TVM by their own pipeline, which schedules nothing, on small networks,
and TVM's Relay with its Relax, on eight networks each by ``regress``. Names after the
command choose pairs; what is in ``version_pairs.json`` is not compared again. ``--table`` prints Markdown.
"""

from collections.abc import Mapping
from typing import Any

import passsearch
from benchmarks.common import RESULTS, markdown, network_session, note, options, ratio_text, read_rows, write_row
from passsearch.errors import PassSearchError

FILE = RESULTS / "version_pairs.json"
NETWORKS = ("resnet18", "mobilenet_v2", "unet", "vit", "bert_base_16", "gpt2", "llama_decode", "vgg19")
SMALL = (
    *("resnet_tiny", "vgg_tiny", "unet_tiny", "bert_tiny", "vit_tiny", "gpt2_tiny", "llama_tiny_decode"),
    "mobilenet_v2",
)
TVM = "apache-tvm"
PAIRS = {
    "ONNX Runtime 1.24.4 to 1.28.0": ("onnxruntime==1.24.4", "onnxruntime==1.28.0"),
    "ONNX Runtime 1.28.0 to 1.32.0": ("onnxruntime==1.28.0", "onnxruntime==1.32.0"),
    "TVM 0.25 to 0.26": (f"{TVM}==0.25.0.post1", f"{TVM}==0.26.0"),
    "TVM 0.26 to 0.27": (f"{TVM}==0.26.0", f"{TVM}==0.27.0.post1"),
    "TVM 0.16 (Relay) to 0.27 (Relax)": ("relay:O3", "relax:schedule-cpu"),
}
KEPT = ("verdict", "ratios", "confirmation", "named", "no_kernels", "notes", "seconds")


def row_of(network: str, pair: str, seconds: float) -> dict[str, Any]:
    """Return what ``regress`` says, or why it refused."""
    before, after = PAIRS[pair]
    try:
        document = passsearch.regress(f"zoo:{network}", before=before, after=after, seconds=seconds)
    except PassSearchError as error:
        return {"verdict": "refused", "reason": str(error)[:400]}
    return {**{key: document.get(key) for key in KEPT}, "kernels": (document["kernels"] or [])[:4]}


def _cells(name: str, row: Mapping[str, Any]) -> tuple[object, ...]:
    ratios = row.get("ratios") or {}
    named = (row.get("named") or {}).get("kernel")
    return name, ratio_text(ratios.get("fastest")), ratio_text(ratios.get("medians")), row["verdict"], named or "–"


def main() -> None:
    """Compare what is not in the file yet, and print all rows."""
    arguments = options(__doc__, ("pairs", tuple(PAIRS)), seconds=150.0, table=False)
    for pair in () if arguments.table else arguments.pairs:
        for network in SMALL if PAIRS[pair][0].startswith(TVM) else NETWORKS:
            name = f"{network}, {pair}"
            if name not in read_rows(FILE, "pairs"):
                note(name)
                row = row_of(network, pair, arguments.seconds)
                write_row(FILE, "pairs", name=name, row=row, session=network_session(f"zoo:{network}", "relax"))
    rows = [_cells(name, row) for name, row in read_rows(FILE, "pairs").items()]
    print(markdown(("network, versions", "times the time", "by medians", "verdict", "kernel"), rows))


if __name__ == "__main__":
    main()
