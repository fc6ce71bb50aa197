"""Write files of PyTorch that write another file when they are loaded or run; print the names of those that did write.

Arguments: the folder of the files, the folder that they write to.
"""

import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

FOLDER, CANARY = map(Path, sys.argv[1:3])
LOAD = "import sys, torch; torch.jit.load(sys.argv[1])(torch.ones(2))"
LOAD_PROGRAM = "import sys, torch; torch.export.load(sys.argv[1]).module()(torch.ones(2))"
LINES = {
    "operator": "torch.save(x, '{path}')",
    "alias": "f = torch.save\n    f(x, '{path}')",
    "method": "x.save('{path}')",
    "namespace": "ops.aten.save(x, '{path}')",
}


class Network(torch.nn.Module):
    """A network that a hostile line is written into."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x)


def script(name: str, line: str) -> None:
    """Write TorchScript with one more line in ``forward``."""
    torch.jit.script(Network()).save(FOLDER / "honest")
    with zipfile.ZipFile(FOLDER / "honest") as source, zipfile.ZipFile(FOLDER / f"{name}.pt", "w") as target:
        for entry in source.namelist():
            content = source.read(entry)
            if entry.endswith("__torch__.py"):
                content = content.replace(b"    return", f"    {line}\n    return".encode(), 1)
            target.writestr(entry, content)
    (FOLDER / "honest").unlink()


def program(name: str, change: Callable[[dict[str, Any], str], None], *, entry: str = "models/model.json") -> None:
    """Write a program of ``torch.export`` whose model, in an entry of a name, is changed to hold Python code."""
    honest = torch.export.export(Network(), (torch.ones(2),), dynamic_shapes=({0: torch.export.Dim("n", max=64)},))
    torch.export.save(honest, FOLDER / "honest.pt2")
    with zipfile.ZipFile(FOLDER / "honest.pt2") as source, zipfile.ZipFile(FOLDER / f"{name}.pt2", "w") as target:
        for each in source.namelist():
            content = source.read(each)
            if each.endswith("models/model.json"):
                model = json.loads(content)
                change(model, f"__import__('pathlib').Path('{CANARY / name}').touch()")
                content = json.dumps(model).encode()
            target.writestr(each.replace("models/model.json", entry), content)
    (FOLDER / "honest.pt2").unlink()


def in_size(model: dict[str, Any], code: str) -> None:
    """Put code into the open size of the input."""
    size = model["graph_module"]["graph"]["tensor_values"]["x"]["sizes"][0]["as_expr"]
    size["expr_str"] = f"{code} or 2"


def in_guard(model: dict[str, Any], code: str) -> None:
    """Put code into a guard."""
    model["guards_code"] = [f"{code} is None"]


def in_name(model: dict[str, Any], code: str) -> None:
    """Put code into the name of the input, as the value that it has where it is not given."""
    graph, name = model["graph_module"]["graph"], f"x=[{code}]"
    graph["inputs"] = [{"as_tensor": {"name": name}}]
    graph["nodes"][0]["inputs"][0]["arg"] = {"as_tensor": {"name": name}}
    graph["tensor_values"][name] = graph["tensor_values"].pop("x")


def in_argument(model: dict[str, Any], code: str) -> None:
    """Make the only operator one that calls another, which maps a file and creates it."""
    path = code.split("'")[3]
    values = [{"as_bool": True}, {"as_operator": "torch.ops.aten.from_file.default"}, {"as_string": path}]
    arguments = [{"name": "", "arg": each, "kind": 1} for each in (*values, {"as_bool": True}, {"as_int": 4096})]
    node = {**model["graph_module"]["graph"]["nodes"][0], "inputs": arguments}
    node |= {"target": "torch.ops.higher_order.wrap_with_set_grad_enabled", "is_hop_single_tensor_return": True}
    model["graph_module"]["graph"]["nodes"] = [node]


def in_key(model: dict[str, Any], code: str) -> None:
    """Name a module that is imported for the key of an input; it is found in the folder of the other files."""
    (CANARY.parent / "imported.py").write_text(f"{code}\n")
    (signature,) = (each["signature"] for each in model["graph_module"]["module_call_graph"])
    spec = json.loads(signature["in_spec"])
    spec[1]["children_spec"][1]["context"] = '[{"__enum__": true, "fqn": "imported:x", "name": "y"}]'
    signature["in_spec"] = json.dumps(spec)


def main() -> None:
    """Write all files, and load each in a process of its own."""
    FOLDER.mkdir()
    CANARY.mkdir()
    for name, line in LINES.items():
        script(name, line.format(path=CANARY / name))
    for change in (in_size, in_guard, in_name, in_argument, in_key):
        program(change.__name__, change)
    program("ending", in_size, entry="models/model-json")
    for path in sorted(FOLDER.iterdir()):
        before = set(CANARY.iterdir())
        code = LOAD if path.suffix == ".pt" else LOAD_PROGRAM
        settings = {**os.environ, "PYTHONPATH": str(CANARY.parent), "TORCH_FORCE_WEIGHTS_ONLY_LOAD": "1"}
        subprocess.run([sys.executable, "-c", code, path], check=False, capture_output=True, env=settings)
        if set(CANARY.iterdir()) - before:
            print(path.name)


if __name__ == "__main__":
    main()
