"""Write files of PyTorch that only compute: scripts, traces, quantized modules, programs. Argument: their folder."""

import sys
import warnings
from pathlib import Path

import torch

warnings.simplefilter("ignore")
FOLDER = Path(sys.argv[1])


class Network(torch.nn.Module):
    """A network with submodules, a buffer, a loop, a branch and a method of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution, self.norm = torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4)
        self.recurrent, self.last = torch.nn.LSTM(4, 5), torch.nn.ModuleList([torch.nn.Linear(5, 5)])
        self.register_buffer("offsets", torch.arange(5))

    def double(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2

    def forward(self, x: torch.Tensor):
        y = self.norm(self.convolution(x)).relu().flatten(2).permute(2, 0, 1)
        y, _ = self.recurrent(y)
        if y.sum() > 0:
            y = self.double(y)
        for layer in self.last:
            y = layer(y)
        assert y.shape[0] > 0, "bad"
        return torch.softmax(y + self.offsets, -1), {"first": y[..., :2]}


def main() -> None:
    """Write all files."""
    image = torch.ones(2, 3, 8, 8)
    network = Network().eval()
    torch.jit.script(network).save(FOLDER / "script.pt")
    torch.jit.trace(network, image, strict=False, check_trace=False).save(FOLDER / "trace.pt")
    torch.jit.freeze(torch.jit.script(network)).save(FOLDER / "frozen.pt")
    linear = torch.nn.Sequential(torch.nn.Linear(4, 4))
    quantized = torch.ao.quantization.quantize_dynamic(linear, {torch.nn.Linear})
    torch.jit.trace(quantized, torch.ones(1, 4)).save(FOLDER / "quantized.pt")
    layer = torch.nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
    encoder = torch.nn.TransformerEncoder(layer, 1, enable_nested_tensor=False).eval()
    torch.jit.script(encoder).save(FOLDER / "encoder.pt")
    torch.export.save(torch.export.export(encoder, (torch.ones(2, 5, 16),)), FOLDER / "encoder.pt2")
    pool = torch.nn.AdaptiveAvgPool2d(1)
    images = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), pool, torch.nn.Flatten()).eval()
    sizes = ({0: torch.export.Dim("n", max=64)},)
    torch.export.save(torch.export.export(images, (image,), dynamic_shapes=sizes), FOLDER / "open.pt2")
    torch.export.save(torch.export.export(images, (image,)), FOLDER / "fixed.pt2")


if __name__ == "__main__":
    main()
