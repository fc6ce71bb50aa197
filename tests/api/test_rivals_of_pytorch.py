"""A network of PyTorch beside PyTorch, which runs the network as it is."""

import sys
from pathlib import Path
from typing import Any

import pytest

import passsearch
from passsearch.api import rivals
from passsearch.api.common import model_file
from passsearch.core import NetworkOptions
from passsearch.engines import engine_spec
from passsearch.toolchain import Toolchain

torch = pytest.importorskip("torch", reason="needs PyTorch in this interpreter")


def layers(*own: Any) -> Any:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), *own).eval()


class Cube(torch.nn.Module):
    """An operator that PyTorch's exporter to ONNX does not have."""

    def forward(self, image: Any) -> Any:
        return torch.special.bessel_j0(image)


@pytest.mark.parametrize(("own", "engines"), [(torch.nn.ReLU, {"torch", "onnxruntime"}), (Cube, {"torch"})])
def test_pytorch_runs_the_module_and_not_its_onnx_file(
    own: type, engines: set[str], relax: Toolchain, tmp_path: Path
) -> None:
    model = model_file(layers(own()), torch.zeros(1, 3, 16, 16), NetworkOptions(toolchain=relax.name))
    assert (model.format == "onnx") == ("onnxruntime" in engines)
    spec = engine_spec("torch", model.path, python=Path(sys.executable))
    file = rivals._with_own_file(spec, model, folder=tmp_path)
    assert file.model.suffix == ".pt2" and file.modules == ("torch",)


def test_a_module_is_compared_with_itself(relax: Toolchain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rivals, "PROCESSES", 1)
    monkeypatch.setattr(rivals, "ROUNDS", 2)
    compiled = passsearch.compile(
        layers(torch.nn.ReLU()),
        torch.zeros(1, 3, 16, 16),
        to=tmp_path / "deploy",
        toolchain=relax.name,
        rivals=["torch"],
    )
    assert compiled["rivals"]["torch"]["ratio"]["ratio"] > 0
    assert "times the throughput of PyTorch" in repr(compiled).splitlines()[0]
