"""Writes networks of ``timm`` and ``transformers`` as ONNX, with random weights.

``python benchmarks/speed/network_files.py NAME FILE`` needs ``torch``, ``timm``, ``transformers``, ``onnx`` and
``onnxscript``, and nothing of passsearch.
"""

import sys
from typing import Any

TIMM = (
    *("convnext_tiny", "densenet121", "edgenext_small", "efficientnet_b0", "ghostnet_100"),
    *("hrnet_w18_small", "coat_lite_mini", "mixer_s32_224", "mobilenetv3_large_100", "mobilevit_s", "poolformer_s12"),
    *("regnety_008", "repvgg_a2", "resnext50_32x4d", "rexnet_100", "swin_tiny_patch4_window7_224", "xception41"),
)
"""Names of networks in ``timm``."""

TOKENS, IMAGE = (1, 128), (1, 3, 224, 224)
ALBERT = {"hidden_size": 768, "num_attention_heads": 12, "intermediate_size": 3072}
T5 = {"d_model": 512, "d_ff": 2048, "num_layers": 6, "num_heads": 8}
WHISPER = {"d_model": 384, "encoder_layers": 4, "encoder_attention_heads": 6, "encoder_ffn_dim": 1536}
TRANSFORMERS: dict[str, tuple[str, str, dict[str, int], tuple[int, ...]]] = {
    "albert": ("AlbertModel", "AlbertConfig", ALBERT, TOKENS),
    "clip_vision": ("CLIPVisionModel", "CLIPVisionConfig", {}, IMAGE),
    "distilbert": ("DistilBertModel", "DistilBertConfig", {}, TOKENS),
    "segformer_b0": ("SegformerForSemanticSegmentation", "SegformerConfig", {}, (1, 3, 512, 512)),
    "t5_encoder": ("T5EncoderModel", "T5Config", T5, TOKENS),
    "wav2vec2": ("Wav2Vec2Model", "Wav2Vec2Config", {}, (1, 16000)),
    "whisper_encoder": ("WhisperEncoder", "WhisperConfig", WHISPER, (1, 80, 3000)),
}
"""Class, configuration and shape of the input, tokens or an image or sound, by name."""


def make(name: str, file: str) -> None:
    """Write a network as ONNX."""
    import torch

    module, inputs = module_of(name)
    with torch.no_grad():
        torch.onnx.export(module, (inputs,), file, dynamo=True, opset_version=18, external_data=False)


def module_of(name: str) -> tuple[Any, Any]:
    """Return a module in inference mode with random weights, and its inputs."""
    import torch

    torch.manual_seed(0)
    if name in TIMM:
        import timm

        module = timm.create_model(name, pretrained=False)
        inputs = torch.randn(1, *module.default_cfg["input_size"])
    else:
        module, inputs = _transformer(name)
    for weights in module.parameters():
        if not weights.any():  # a classifier of zeros has outputs that nothing can make wrong
            torch.nn.init.normal_(weights, std=0.02)
    return module.eval(), inputs


def one_output(module: Any) -> Any:
    """Return a module of transformers with its main output alone."""
    import torch

    class OneOutput(torch.nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.module = module

        def forward(self, inputs: Any) -> Any:
            outputs = self.module(inputs)
            return outputs.logits if "logits" in outputs else outputs.last_hidden_state

    return OneOutput()


def _transformer(name: str) -> tuple[Any, Any]:
    """Return a module with one output, and its inputs."""
    import torch
    import transformers
    from transformers.models.whisper import modeling_whisper

    kind, configuration, values, shape = TRANSFORMERS[name]
    inputs = torch.randint(0, 1000, shape) if shape == TOKENS else torch.randn(shape)
    maker = getattr(transformers, kind, None) or getattr(modeling_whisper, kind)
    return one_output(maker(getattr(transformers, configuration)(**values))), inputs


if __name__ == "__main__":
    make(*sys.argv[1:])
