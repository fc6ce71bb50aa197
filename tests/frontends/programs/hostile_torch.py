"""Write files of PyTorch that write another file when they are loaded or run; print the names of those that did write.

Arguments: the folder of the files, the folder that they write to.
"""

import re
import subprocess
import sys
import zipfile
from pathlib import Path

import torch

FOLDER, CANARY = map(Path, sys.argv[1:3])
LOAD = "import sys, torch; torch.jit.load(sys.argv[1])(torch.ones(2))"
LOAD_PROGRAM = "import sys, torch; torch.export.load(sys.argv[1])"
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


def program(name: str, *, entry: str = "models/model.json") -> None:
    """Write a program of ``torch.export`` whose open size is Python code, with its model in an entry of a name."""
    honest = torch.export.export(Network(), (torch.ones(2),), dynamic_shapes=({0: torch.export.Dim("n", max=64)},))
    torch.export.save(honest, FOLDER / "honest.pt2")
    code = f"__import__('pathlib').Path('{CANARY / name}').touch() or 2"
    with zipfile.ZipFile(FOLDER / "honest.pt2") as source, zipfile.ZipFile(FOLDER / f"{name}.pt2", "w") as target:
        for each in source.namelist():
            content = source.read(each)
            if each.endswith("models/model.json"):
                content = re.sub(rb"Symbol\('\w+', positive=True, integer=True\)", code.encode(), content)
            target.writestr(each.replace("models/model.json", entry), content)
    (FOLDER / "honest.pt2").unlink()


def main() -> None:
    """Write all files, and load each in a process of its own."""
    FOLDER.mkdir()
    CANARY.mkdir()
    for name, line in LINES.items():
        script(name, line.format(path=CANARY / name))
    program("size")
    program("ending", entry="models/model-json")
    for path in sorted(FOLDER.iterdir()):
        before = set(CANARY.iterdir())
        code = LOAD if path.suffix == ".pt" else LOAD_PROGRAM
        subprocess.run([sys.executable, "-c", code, path], check=False, capture_output=True)
        if set(CANARY.iterdir()) - before:
            print(path.name)


if __name__ == "__main__":
    main()
