"""A winner in the user's own process, which needs PyTorch and the run's TVM there."""

import subprocess
import sys
from pathlib import Path

import pytest

import passsearch
from passsearch.errors import UserError
from passsearch.toolchain import Toolchain

SCRIPT = """
import sys
import passsearch, torch

class Small(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.convolution = torch.nn.Conv2d(3, 8, 3, padding=1)
        self.dense = torch.nn.Linear(8, 5)

    def forward(self, image, scale):
        mean = torch.relu(self.convolution(image)).mean((2, 3))
        return {"scores": self.dense(mean) * scale, "mean": mean}

torch.manual_seed(0)
module, example = Small().eval(), (torch.randn(2, 3, 8, 8), torch.randn(2, 1))
passes = ["LegalizeOps", "FuseTIR", "ScheduleCPU"]
result = passsearch.tune(module, example, toolchain=sys.argv[1], trials=3, confirm=0, passes=passes, out=sys.argv[2])
inputs = (torch.randn(2, 3, 8, 8), torch.randn(2, 1, requires_grad=True))
wanted = module(*inputs)
for found in (result.compiled(*inputs), passsearch.TuneResult.read(sys.argv[2]).compiled(*inputs)):
    assert all(isinstance(each, torch.Tensor) for each in found)
    for name, each in zip(wanted, found, strict=True):
        torch.testing.assert_close(each, wanted[name].detach(), rtol=1e-4, atol=1e-5)
crooked = [torch.empty(each.numel() + 1)[1:].reshape(each.shape).copy_(each.detach()) for each in inputs]
torch.testing.assert_close(result.compiled(*crooked)[0], result.compiled(*inputs)[0])
arrays = [each.detach().numpy() for each in inputs]
assert type(result.compiled(*arrays)[0]).__name__ == "ndarray"
"""


def test_the_winner_is_a_function_of_torch_tensors(relax: Toolchain, tmp_path: Path) -> None:
    asked = "import torch, optuna, onnx, typer"
    if subprocess.run([str(relax.python), "-c", asked], capture_output=True).returncode:
        pytest.skip("the toolchain's interpreter has not both PyTorch and what passsearch needs")
    command = [str(relax.python), "-c", SCRIPT, relax.name, str(tmp_path / "run")]
    done = subprocess.run(command, capture_output=True, text=True, cwd=Path(passsearch.__file__).parents[1])
    assert done.returncode == 0, done.stdout + done.stderr


def test_an_interpreter_without_that_tvm_is_told_how_to_get_it(
    relax: Toolchain, small_network: Path, tmp_path: Path
) -> None:
    if Path(sys.executable) == relax.python:
        pytest.skip("this interpreter has it")
    result = passsearch.tune(
        small_network, toolchain=relax.name, trials=1, confirm=0, passes=["LegalizeOps"], out=tmp_path / "run"
    )
    with pytest.raises(UserError, match=r"pip install 'passsearch\[relax\]'"):
        result.compiled  # noqa: B018, a property
