"""The networks of ``source_proofs.py``: small configurations of transformers and timm, and modules by hand."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional

sys.path.insert(0, str(Path(__file__).parents[2] / "tests" / "frontends"))

from architectures import ARCHITECTURES, TORCH_MODULES, Architecture, Network

TRANSFORMERS = (
    *("BertForSequenceClassification", "RobertaForMaskedLM", "DistilBertModel", "AlbertModel", "DebertaV2Model"),
    *("FNetModel", "XLNetModel", "GPT2LMHeadModel", "LlamaForCausalLM", "MistralForCausalLM", "Qwen3ForCausalLM"),
    *("MixtralForCausalLM", "MambaForCausalLM", "T5ForConditionalGeneration", "BartForConditionalGeneration"),
    *("ViTForImageClassification", "SwinModel", "ConvNextForImageClassification", "Swin2SRForImageSuperResolution"),
    *("SegformerForSemanticSegmentation", "YolosForObjectDetection", "Wav2Vec2ForCTC", "ASTModel"),
    *("WhisperForConditionalGeneration", "CLIPModel", "ViltModel", "PatchTSTForPrediction"),
)
# Not those whose random weights let nothing of the input reach the outputs, such as `mixer_s32_224`.
TIMM = (
    *("mobilenetv3_small_050", "mobilenetv4_conv_small_050", "resnet10t", "regnetx_002", "ghostnet_050"),
    *("convnext_atto", "vit_tiny_patch16_224", "edgenext_xx_small", "mobilevit_xxs", "mobilevitv2_050", "repvgg_a0"),
    *("dla46_c", "xcit_nano_12_p16_224", "skresnet18", "mnasnet_small", "pit_ti_224", "resnest14d", "selecsls42"),
)
OF_ONNX = ("onnx-squeezenet", "onnx-shufflenet")


class WaveStack(nn.Module):
    """Dilated causal convolutions with gates over a waveform (WaveNet)."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv1d(1, 16, 1)
        self.gated = nn.ModuleList(nn.Conv1d(16, 32, 2, dilation=2**depth) for depth in range(4))
        self.last = nn.Conv1d(16, 8, 1)

    def forward(self, wave: torch.Tensor) -> torch.Tensor:
        value = self.first(wave)
        for depth, layer in enumerate(self.gated):
            filtered, gate = layer(functional.pad(value, (2**depth, 0))).chunk(2, 1)
            value = value + torch.tanh(filtered) * torch.sigmoid(gate)
        return self.last(value)


class KeywordSpotter(nn.Module):
    """Separable convolutions over a spectrogram, then a GRU."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(1, 16, (10, 4), stride=2, padding=(5, 1)), nn.BatchNorm2d(16), nn.ReLU6())
        self.deep = nn.Sequential(nn.Conv2d(16, 16, 3, padding=1, groups=16), nn.Conv2d(16, 16, 1), nn.PReLU(16))
        self.recurrent, self.classes = nn.GRU(16, 12, batch_first=True), nn.Linear(12, 5)

    def forward(self, spectrogram: torch.Tensor) -> torch.Tensor:
        frames = self.deep(self.stem(spectrogram)).mean(3).transpose(1, 2)
        return self.classes(self.recurrent(frames)[1][-1]).log_softmax(1)


class FactorizationMachine(nn.Module):
    """First and second order terms of categories, and a deep part (DeepFM)."""

    def __init__(self) -> None:
        super().__init__()
        self.weights, self.vectors = nn.Embedding(60, 1), nn.Embedding(60, 8)
        self.deep = nn.Sequential(nn.Linear(40, 32), nn.LayerNorm(32), nn.SELU(), nn.Linear(32, 1))
        self.register_buffer("offsets", torch.tensor([0, 10, 20, 30, 40]))

    def forward(self, categories: torch.Tensor) -> torch.Tensor:
        places = categories + self.offsets
        vectors = self.vectors(places)
        second = 0.5 * (vectors.sum(1).square() - vectors.square().sum(1)).sum(1, keepdim=True)
        return torch.sigmoid(self.weights(places).sum(1) + second + self.deep(vectors.flatten(1)))


class TwoTowers(nn.Module):
    """The similarity of a user's history, weighted by attention, and several items."""

    def __init__(self) -> None:
        super().__init__()
        self.items, self.query = nn.Embedding(50, 16, padding_idx=0), nn.Linear(16, 1)

    def forward(self, history: torch.Tensor, items: torch.Tensor) -> torch.Tensor:
        seen = self.items(history)
        weights = self.query(seen).squeeze(-1).masked_fill(history == 0, -1e4).softmax(1)
        user = functional.normalize((weights.unsqueeze(-1) * seen).sum(1), dim=-1)
        return torch.einsum("bd,bnd->bn", user, functional.normalize(self.items(items), dim=-1))


class GraphNetwork(nn.Module):
    """Two layers over a dense adjacency matrix, normalised by degrees."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(8, 16), nn.Linear(16, 4)

    def forward(self, nodes: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
        near = edges.abs() + torch.eye(12)
        scale = near.sum(-1).rsqrt()
        near = scale.unsqueeze(-1) * near * scale.unsqueeze(-2)
        return near @ self.second(functional.leaky_relu(near @ self.first(nodes), 0.2))


class Field(nn.Module):
    """Frequencies of coordinates through a perceptron (NeRF)."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(27, 32), nn.Softplus(), nn.Linear(32, 32), nn.Mish(), nn.Linear(32, 4))
        self.register_buffer("frequencies", 2.0 ** torch.arange(4))

    def forward(self, points: torch.Tensor) -> torch.Tensor:
        phases = (points.unsqueeze(-1) * self.frequencies).flatten(1)
        return self.layers(torch.cat([points, phases.sin(), phases.cos()], 1))


class Detector(nn.Module):
    """A feature pyramid of two levels with heads for boxes and classes."""

    def __init__(self) -> None:
        super().__init__()
        self.low, self.high = nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.Conv2d(8, 16, 3, stride=2, padding=1)
        self.across, self.norm = nn.Conv2d(16, 8, 1), nn.GroupNorm(2, 8)
        self.boxes, self.classes = nn.Conv2d(8, 4, 3, padding=1), nn.Conv2d(8, 3, 3, padding=1)

    def forward(self, image: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        low = functional.silu(self.low(image))
        high = self.across(functional.gelu(self.high(low)))
        levels = self.norm(low + functional.interpolate(high, scale_factor=2.0, mode="nearest")), high
        boxes, classes = ([head(level).flatten(2) for level in levels] for head in (self.boxes, self.classes))
        return torch.cat(boxes, 2).transpose(1, 2).exp(), torch.cat(classes, 2).transpose(1, 2).sigmoid()


Shapes = Mapping[str, tuple[str, tuple[int, ...]]]

BY_HAND: Mapping[type[nn.Module], Shapes] = {
    WaveStack: {"wave": ("float32", (1, 1, 256))},
    KeywordSpotter: {"spectrogram": ("float32", (1, 1, 49, 10))},
    FactorizationMachine: {"categories": ("int64", (4, 5))},
    TwoTowers: {"history": ("int64", (2, 10)), "items": ("int64", (2, 6))},
    GraphNetwork: {"nodes": ("float32", (1, 12, 8)), "edges": ("float32", (1, 12, 12))},
    Field: {"points": ("float32", (64, 3))},
    Detector: {"image": ("float32", (1, 3, 64, 64))},
}
"""Example inputs of the modules above."""


def _module(kind: type[nn.Module], example: Shapes, _: Path) -> Network:
    torch.manual_seed(0)
    module = kind().eval()
    inputs = {name: torch.zeros(shape, dtype=getattr(torch, dtype)) for name, (dtype, shape) in example.items()}
    return Network(module, lambda _: [], example_inputs=inputs)


def _timm(name: str, _: Path) -> Network:
    """Return an image network for 64 by 64 pixels, whose default build takes seconds and not minutes."""
    import timm

    torch.manual_seed(0)
    options: dict[str, Any] = {"pretrained": False, "num_classes": 10}
    try:
        module = timm.create_model(name, img_size=64, **options)
    except TypeError:  # convolutions take any size
        module = timm.create_model(name, **options)
    return Network(module.eval(), lambda _: [], example_inputs=torch.zeros(1, 3, 64, 64))


def _entries() -> Iterator[Architecture]:
    """Yield the networks of all kinds in turns, so that a part of the list has them all."""
    by_hand = [
        *(ARCHITECTURES[name] for name in (*TORCH_MODULES, *OF_ONNX)),
        *(
            Architecture(kind.__name__, "by hand", (), partial(_module, kind, example))
            for kind, example in BY_HAND.items()
        ),
    ]
    of_timm = [Architecture(f"timm-{name}", "timm", ("timm",), partial(_timm, name)) for name in TIMM]
    of_transformers = [ARCHITECTURES[name] for name in TRANSFORMERS]
    for turn in zip_longest(by_hand, of_timm, of_transformers):
        yield from filter(None, turn)


NETWORKS: Mapping[str, Architecture] = {entry.name: entry for entry in _entries()}
"""The list, by name."""
