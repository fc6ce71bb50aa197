"""Plants ten faults in networks and reduces them: ``python -m benchmarks.faults.reduced_faults [NAME…]``.

``reduced_faults.json`` has, for each, the sizes before and after, the minutes, and whether anything of the original's
weights or names is in the result. Four faults are slowdowns.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import onnx
from onnx import helper, numpy_helper

import passsearch
from benchmarks.common import RESULTS, network_session, note, options, provenance, read, write
from passsearch.frontends import resolve
from passsearch.toolchain import cache_folder

CATALOG = Path(__file__).with_name("planted_passes.yaml")
FILE = RESULTS / "reduced_faults.json"
LEAST_NAME = 6
"""Fewest characters of a name that no file has by chance."""

FUSED = 'LegalizeOps,AnnotateTIROpPattern,FoldConstant{evaluator="numpy"},FuseOps{fuse_opt_level=2},FuseTIR'


@dataclass(frozen=True)
class Planted:
    """A planted fault.

    Attributes:
        kind: What ``reproduce`` should call it.
        network: The network.
        pipeline: The faulty pipeline.
        against: What a slow one is compared with.
        unsupported: Operator that replaces every activation, and that TVM's importer lacks.
    """

    kind: str
    network: str
    pipeline: str = "default"
    against: str | None = None
    unsupported: str = ""


PLANTED = {
    "import": Planted("refusal", "zoo:resnet_tiny", unsupported="Celu"),
    "refusal": Planted("refusal", "zoo:bert_tiny", "FoldConstant,Refuses,LegalizeOps"),
    "crash": Planted("crash", "zoo:mobilenet_v2", "FoldConstant,Crashes,LegalizeOps"),
    "dropped": Planted("wrong result", "zoo:resnet_tiny", "FoldConstant,Drops,LegalizeOps"),
    "swapped": Planted("wrong result", "zoo:bert_tiny", "Swaps,LegalizeOps,FuseOps,FuseTIR"),
    "lost": Planted("wrong result", "zoo:mobilenet_v2", 'Drops{operator="relax.clip"},LegalizeOps'),
    "repeated": Planted("slowdown", "zoo:resnet_tiny", f"Repeats,{FUSED}", FUSED),
    "unscheduled": Planted("slowdown", "zoo:resnet_tiny", "default-passes", "schedule-cpu"),
    "unfused": Planted("slowdown", "zoo:bert_tiny", "LegalizeOps,ScheduleCPU", "schedule-cpu"),
    "runtime": Planted("slowdown", "zoo:mobilenet_v2", "default", "onnxruntime"),
}


def main() -> None:
    """Reduce the faults and write a row of each."""
    arguments = options(__doc__, ("names", tuple(PLANTED)), toolchain="relax", timeout=600.0)
    for name in arguments.names:
        note(f"reducing {name}")
        with TemporaryDirectory() as folder:
            row = _reduced(PLANTED[name], Path(folder), arguments.toolchain, arguments.timeout)
        origin = provenance(network_session(PLANTED[name].network, arguments.toolchain))
        write(FILE, {**read(FILE), name: {**origin, **row}})


def _reduced(planted: Planted, folder: Path, toolchain: str, timeout_s: float) -> dict[str, Any]:
    model = onnx.load(str(resolve(planted.network, folder=cache_folder() / "models").path))
    _make_secret(model, planted.unsupported)
    onnx.save(model, folder / "network.onnx")
    report = passsearch.reproduce(
        folder / "network.onnx",
        out=folder / "fault",
        pipeline=planted.pipeline,
        against=planted.against,
        toolchain=toolchain,
        catalogs=[CATALOG],
        timeout=timeout_s,
    )
    row = {key: report[key] for key in ("kind", "seen", "seconds")}
    if not report["kind"]:
        return row
    keys = ("shown", "confirmed", "before", "after", "pipelines", "kept", "runs", "time_is_over")
    content = b"".join(file.read_bytes() for file in (folder / "fault").iterdir() if file.name != "planted_passes.py")
    lines = len((folder / "fault" / "reproduce.py").read_text().splitlines())
    found = survivors(model, content, report["kept"])
    return {**row, "expected": planted.kind, **{key: report[key] for key in keys}, "lines": lines, "survivors": found}


def _make_secret(model: onnx.ModelProto, unsupported: str) -> None:
    """Give a network notes, and an operator that is not supported."""
    model.producer_name = model.doc_string = "a confidential note"
    helper.set_model_props(model, {"confidential": "a confidential property"})
    for node in model.graph.node:
        node.doc_string = "a confidential note"
        node.op_type = unsupported if unsupported and node.op_type == "Relu" else node.op_type


def survivors(model: onnx.ModelProto, content: bytes, kept: Mapping[str, Any]) -> list[str]:
    """Return the names, notes and weights of a network that are found in the bytes of a result."""
    names = {name for node in model.graph.node for name in (node.name, *node.input, *node.output)}
    names |= {"confidential", *(value.name for value in (*model.graph.input, *model.graph.output))}
    # A name such as `softmax` is an operator's too.
    known = {node.op_type.lower() for node in model.graph.node}
    texts = [name for name in names if len(name) >= LEAST_NAME and name.lower() not in known]
    found = [name for name in texts if re.search(rb"\b" + re.escape(name.encode()) + rb"\b", content)]
    for tensor in model.graph.initializer:
        array = numpy_helper.to_array(tensor)
        pieces = {array.tobytes()[place : place + 16] for place in range(0, array.nbytes - 15, 4 * 97)}
        if array.dtype.kind == "f" and any(piece in content for piece in pieces if len(set(piece)) > 4):
            found.append(tensor.name)
    return sorted(found)


if __name__ == "__main__":
    main()
