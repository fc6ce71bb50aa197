"""Tune a PyTorch module and call its winner in this process: ``python compiled_winner.py TOOLCHAIN RUN``."""

import sys

import torch

import passsearch


class Small(torch.nn.Module):
    """A convolution and a dense layer with a dictionary of two outputs."""

    def __init__(self):
        super().__init__()
        self.convolution = torch.nn.Conv2d(3, 8, 3, padding=1)
        self.dense = torch.nn.Linear(8, 5)

    def forward(self, image, scale):
        mean = torch.relu(self.convolution(image)).mean((2, 3))
        return {"scores": self.dense(mean) * scale, "mean": mean}


def misaligned(tensor):
    """Return a copy of a tensor that begins in the middle of its memory."""
    return torch.empty(tensor.numel() + 1)[1:].reshape(tensor.shape).copy_(tensor.detach())


toolchain, run = sys.argv[1:]
torch.manual_seed(0)
module, example = Small().eval(), (torch.randn(2, 3, 8, 8), torch.randn(2, 1))
passes = ["LegalizeOps", "FuseTIR", "ScheduleCPU"]
options = {"trials": 3, "confirm": 0, "passes": passes, "rivals": []}
result = passsearch.tune(module, example, toolchain=toolchain, out=run, **options)

inputs = (torch.randn(2, 3, 8, 8), torch.randn(2, 1, requires_grad=True))
expected = module(*inputs)
for outputs in (result.compiled(*inputs), passsearch.TuneResult.read(run).compiled(*inputs)):
    assert all(isinstance(output, torch.Tensor) for output in outputs)
    for name, output in zip(expected, outputs, strict=True):
        torch.testing.assert_close(output, expected[name].detach(), rtol=1e-4, atol=1e-5)
copies = [misaligned(tensor) for tensor in inputs]
torch.testing.assert_close(result.compiled(*copies)[0], result.compiled(*inputs)[0])
arrays = [tensor.detach().numpy() for tensor in inputs]
assert type(result.compiled(*arrays)[0]).__name__ == "ndarray"
for array in arrays:
    array.flags.writeable = False
torch.testing.assert_close(torch.from_numpy(result.compiled(*arrays)[0]), result.compiled(*inputs)[0])
