"""Files of networks that contain code, as another user could send them."""

import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from onnx import TensorProto, helper


def foreign_networks(folder: Path) -> Iterator[Path]:
    """Write one file or folder for each way in which a network contains code, and yield its path."""
    command = "__import__('os').system('true')"
    yield _program(folder / "operator.pt2", target="torch.os.system")
    yield _program(folder / "library.pt2", target="torch.ops.load_library")
    yield _program(folder / "size.pt2", size=command)
    yield _program(folder / "pickle.pt2", weight="opaque_obj_0")
    yield _archive(folder / "script.pt", {"m/code/__torch__.py": "torch.save(x, '/tmp/x')"})
    layers: dict[str, dict[str, Any]] = {
        "lambda": {"class_name": "Lambda", "config": {}},
        "import": {"class_name": "Popen", "module": "subprocess", "config": {}},
        "builtin": {"class_name": "function", "module": "builtins", "config": "eval"},
    }
    for name, layer in layers.items():
        yield _archive(folder / f"{name}.keras", {"config.json": json.dumps({"config": {"layers": [layer]}})})
    (folder / "saved").mkdir()
    (folder / "saved" / "saved_model.pb").write_bytes(b"\x12\x09WriteFile")
    yield folder / "saved"
    for number, name in enumerate(("tir.call_extern", "relax.call_pure_packed", r"tir.call_e\u0078tern")):
        (folder / f"module{number}.json").write_text(f'{{"root": 1, "nodes": [{{"repr_str": "{name}"}}]}}')
        yield folder / f"module{number}.json"
    yield _weights_elsewhere(folder / "weights.onnx")
    (folder / "pickle.pth").write_bytes(b"cos\nsystem\n(S'true'\ntR.")
    yield folder / "pickle.pth"


def _program(
    path: Path, *, target: str = "torch.ops.aten.relu.default", size: str = "s0", weight: str = "weight_0"
) -> Path:
    graph = {"nodes": [{"target": target}], "tensor_values": {"x": {"sizes": [{"as_expr": {"expr_str": size}}]}}}
    weights = {"config": {"w": {"path_name": weight}}}
    return _archive(path, {"m/models/model.json": json.dumps(graph), "m/data/weights/config.json": json.dumps(weights)})


def _archive(path: Path, entries: dict[str, str]) -> Path:
    with zipfile.ZipFile(path, "w") as file:
        for name, content in entries.items():
            file.writestr(name, content)
    return path


def _weights_elsewhere(path: Path) -> Path:
    weight = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[1], data_location=TensorProto.EXTERNAL)
    weight.external_data.add(key="location", value="../../etc/passwd")
    output = helper.make_tensor_value_info("out", TensorProto.FLOAT, None)
    graph = helper.make_graph([helper.make_node("Relu", ["w"], ["out"])], "../../g", [], [output], [weight])
    path.write_bytes(helper.make_model(graph).SerializeToString())
    return path
