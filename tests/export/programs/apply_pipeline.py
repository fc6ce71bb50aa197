"""Apply an exported pipeline in an interpreter that has TVM: ``apply_pipeline.py FOLDER PACKAGES``."""

import json
import sys
from pathlib import Path

import tvm
from tvm import relay

# After the packages of this interpreter, so that TVM keeps its own versions of what both have.
sys.path.append(sys.argv[2])

import passsearch
import passsearch.errors

folder = Path(sys.argv[1])
module = relay.transform.InferType()(tvm.ir.load_json((folder / "network.json").read_text()))
after = passsearch.load_pipeline(folder).apply(module)
actual = f"{tvm.ir.structural_hash(after) & 0xFFFFFFFFFFFFFFFF:016x}"
assert actual == json.loads((folder / "pipeline.json").read_text())["states"][-1]

other = relay.transform.InferType()(relay.transform.SimplifyInference()(module))
assert passsearch.load_pipeline(folder / "pipeline.json").apply(other) is not None, "another module has no record"

record = json.loads((folder / "pipeline.json").read_text())
record["states"][2] = "0" * 16
(folder / "pipeline.json").write_text(json.dumps(record))
try:
    passsearch.load_pipeline(folder).apply(module)
except passsearch.errors.UserError as error:
    print(error)
