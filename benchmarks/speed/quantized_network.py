"""Writes a network with random weights that ONNX Runtime quantised: ``python quantized_network.py NETWORK FILE``.

A script for an interpreter with PyTorch, torchvision, transformers and onnxruntime; ``integer_networks`` runs it.
Behind the name of a network, ``-unsigned`` asks for activations without a sign, and ``-narrow`` for weights of 7 bits.
"""

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process

TOKENS, SAMPLES = 64, 4
IMAGE = {"ssdlite320_mobilenet_v3_large": 320}


def network(name: str) -> tuple[Any, Any]:
    """Return a network and an input."""
    torch.manual_seed(0)
    if name == "bert_base":
        from transformers import BertConfig, BertModel

        bert = BertModel(BertConfig(attn_implementation="eager"), add_pooling_layer=False)

        class States(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.bert = bert

            def forward(self, tokens: Any) -> Any:
                return self.bert(input_ids=tokens).last_hidden_state

        return States().eval(), torch.randint(0, 30000, (1, TOKENS))
    import torchvision

    if name.startswith("ssd"):
        # The heads' numbers; selecting boxes is no part of what is quantised.
        detector = torchvision.models.detection.ssdlite320_mobilenet_v3_large(weights=None, weights_backbone=None)

        class Heads(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.detector = detector

            def forward(self, images: Any) -> Any:
                heads = self.detector.head(list(self.detector.backbone(images).values()))
                return torch.cat([heads["bbox_regression"], heads["cls_logits"]], -1)

        made: Any = Heads()
    else:
        made = getattr(torchvision.models, name)(weights=None)
    size = IMAGE.get(name, 224)
    _normalise(made, size)
    return made.eval(), torch.randn(1, 3, size, size)


def _normalise(made: Any, size: int) -> None:
    """Give batch norms the statistics of random images, without which random weights make outputs of biases alone."""
    for module in made.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.momentum = None  # the mean of all batches
            module.reset_running_stats()
    made.train()
    with torch.no_grad():
        for _ in range(SAMPLES):
            made(torch.randn(8, 3, size, size))


class Samples(CalibrationDataReader):  # type: ignore[misc]
    """Random inputs by which the quantiser finds ranges."""

    def __init__(self, example: Any) -> None:
        self._samples = self._made(example)

    def _made(self, example: Any) -> Iterator[dict[str, Any]]:
        random = np.random.default_rng(1)
        for _ in range(SAMPLES):
            if example.is_floating_point():
                yield {"x": random.standard_normal(example.shape).astype("float32")}
            else:
                yield {"x": random.integers(0, 30000, example.shape)}

    def get_next(self) -> dict[str, Any] | None:
        return next(self._samples, None)


def main(name: str, path: Path) -> None:
    name, *kinds = name.split("-")
    made, example = network(name)
    activations = QuantType.QUInt8 if "unsigned" in kinds else QuantType.QInt8
    with tempfile.TemporaryDirectory() as folder:
        plain, inferred = Path(folder) / "plain.onnx", Path(folder) / "inferred.onnx"
        torch.onnx.export(made, (example,), str(plain), dynamo=False, opset_version=17, input_names=["x"])
        quant_pre_process(str(plain), str(inferred), skip_symbolic_shape=True)
        quantize_static(
            str(inferred),
            str(path),
            Samples(example),
            quant_format=QuantFormat.QDQ,
            per_channel=True,
            activation_type=activations,
            reduce_range="narrow" in kinds,
        )


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
