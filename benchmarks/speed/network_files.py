"""Writes networks of ``timm`` and ``transformers`` as ONNX, with random weights.

``python -m benchmarks.speed.network_files NAME FILE`` needs ``torch``, ``timm``, ``transformers``, ``onnx`` and
``onnxscript``, and nothing of passsearch.
"""

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

TIMM = (
    *("convnext_tiny", "densenet121", "edgenext_small", "efficientnet_b0", "ghostnet_100"),
    *("hrnet_w18_small", "coat_lite_mini", "mixer_s32_224", "mobilenetv3_large_100", "mobilevit_s", "poolformer_s12"),
    *("regnety_008", "repvgg_a2", "resnext50_32x4d", "rexnet_100", "swin_tiny_patch4_window7_224", "xception41"),
)
"""Names of networks in ``timm``."""

TRANSFORMERS = ("albert", "clip_vision", "distilbert", "segformer_b0", "t5_encoder", "wav2vec2", "whisper_encoder")


def make(name: str, file: Path) -> None:
    """Write a network as ONNX; needs the packages of the interpreter with the engines."""
    import torch

    torch.manual_seed(0)
    module, inputs = _image_network(name) if name in TIMM else _transformer(name)
    with torch.no_grad():
        torch.onnx.export(module.eval(), (inputs,), file, dynamo=True, opset_version=18, external_data=False)


def _image_network(name: str) -> tuple[Any, Any]:
    import timm
    import torch

    module = timm.create_model(name, pretrained=False)
    return module, torch.randn(1, *module.default_cfg["input_size"])


def _transformer(name: str) -> tuple[Any, Any]:
    """Return a module with one output, and its inputs."""
    import torch
    import transformers
    from transformers.models.whisper.modeling_whisper import WhisperEncoder

    class OneOutput(torch.nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self, module: Any, output: str) -> None:
            super().__init__()
            self.module, self.output = module, output

        def forward(self, inputs: Any) -> Any:
            return getattr(self.module(inputs), self.output)

    tokens, states = torch.randint(0, 1000, (1, 128)), "last_hidden_state"
    t5 = {"d_model": 512, "d_ff": 2048, "num_layers": 6, "num_heads": 8}
    albert = {"hidden_size": 768, "num_attention_heads": 12, "intermediate_size": 3072}
    whisper = {"d_model": 384, "encoder_layers": 4, "encoder_attention_heads": 6, "encoder_ffn_dim": 1536}
    makers: Mapping[str, Callable[[], tuple[Any, Any, str]]] = {
        "albert": lambda: (transformers.AlbertModel(transformers.AlbertConfig(**albert)), tokens, states),
        "clip_vision": lambda: (
            transformers.CLIPVisionModel(transformers.CLIPVisionConfig()),
            torch.randn(1, 3, 224, 224),
            states,
        ),
        "distilbert": lambda: (transformers.DistilBertModel(transformers.DistilBertConfig()), tokens, states),
        "segformer_b0": lambda: (
            transformers.SegformerForSemanticSegmentation(transformers.SegformerConfig()),
            torch.randn(1, 3, 512, 512),
            "logits",
        ),
        "t5_encoder": lambda: (transformers.T5EncoderModel(transformers.T5Config(**t5)), tokens, states),
        "wav2vec2": lambda: (transformers.Wav2Vec2Model(transformers.Wav2Vec2Config()), torch.randn(1, 16000), states),
        "whisper_encoder": lambda: (
            WhisperEncoder(transformers.WhisperConfig(**whisper)),
            torch.randn(1, 80, 3000),
            states,
        ),
    }
    module, inputs, output = makers[name]()
    return OneOutput(module, output), inputs


if __name__ == "__main__":
    make(sys.argv[1], Path(sys.argv[2]))
