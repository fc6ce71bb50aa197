"""Write `data/*.json.gz`, the summaries of real networks that `test_networks.py` reads.

torch and TVM do not share an environment, so there are two steps. The second runs in a Relay toolchain:

    python tests/analysis/make_summaries.py export FOLDER       needs torch, transformers, onnx
    python tests/analysis/make_summaries.py summarize FOLDER    needs TVM with Relay, onnx; run with PYTHONPATH=.
"""

import gzip
import json
import sys
from pathlib import Path

DATA = Path(__file__).parent / "data"


def export(folder: Path) -> None:
    """Write every network of `networks.py` as ONNX, through TorchScript."""
    import torch
    from networks import LATER_OPSET, NETWORKS

    folder.mkdir(parents=True, exist_ok=True)
    # The fast path is one fused operator that has no ONNX form.
    torch.backends.mha.set_fastpath_enabled(False)
    for name, (build, inputs) in NETWORKS.items():
        torch.manual_seed(0)
        path = str(folder / f"{name}.onnx")
        opset = 14 if name in LATER_OPSET else 13
        torch.onnx.export(build().eval().requires_grad_(False), inputs(), path, dynamo=False, opset_version=opset)


def summarize(folder: Path) -> None:
    """Import the ONNX files into Relay and write the summaries that a worker would send to the analyzer."""
    from passsearch.dialects.contract import ModelSource
    from passsearch.dialects.relay import importer
    from passsearch.dialects.relay.summary import summarize as summary_of

    DATA.mkdir(exist_ok=True)
    for path in sorted(folder.glob("*.onnx")):
        module = importer.load(ModelSource(path, "onnx", {}, None, None))
        text = json.dumps(summary_of(module).to_json(), separators=(",", ":"))
        # Without a time stamp in the header, equal summaries give equal files.
        (DATA / f"{path.stem}.json.gz").write_bytes(gzip.compress(text.encode(), mtime=0))


if __name__ == "__main__":
    {"export": export, "summarize": summarize}[sys.argv[1]](Path(sys.argv[2]))
