"""Writes the networks of the corpus as ONNX, with random weights.

``python -m benchmarks.search.corpus_networks FOLDER NAME …`` needs ``torch``, ``timm`` and ``transformers``, and
nothing of passsearch.
"""

import sys
from pathlib import Path
from typing import Any

from benchmarks.speed.network_files import one_output

TIMM: dict[str, tuple[str, int]] = {
    "resnet18": ("resnet", 128),
    "vit_tiny_patch16_224": ("vit", 224),
    "mobilenetv2_050": ("mobilenet", 160),
    "convnext_atto": ("convnext", 128),
    "densenet121": ("densenet", 96),
    "mixer_s32_224": ("mixer", 224),
    "regnetx_002": ("regnet", 160),
    "swin_tiny_patch4_window7_224": ("swin", 112),
    "efficientnet_b0": ("efficientnet", 128),
    "ghostnet_050": ("ghostnet", 160),
    "pit_ti_224": ("pit", 224),
    "dla46x_c": ("dla", 128),
    "mobilevit_xxs": ("mobilevit", 128),
    "repvgg_a0": ("repvgg", 96),
    "poolformer_s12": ("poolformer", 96),
    "cspdarknet53": ("darknet", 64),
    "levit_128s": ("levit", 224),
    "xception41": ("xception", 64),
    "gmlp_ti16_224": ("gmlp", 224),
    "hrnet_w18_small": ("hrnet", 64),
    "pvt_v2_b0": ("pvt", 128),
    "inception_v3": ("inception", 96),
    "efficientvit_b0": ("efficientvit", 160),
    "ese_vovnet19b_dw": ("vovnet", 96),
    "cait_xxs24_224": ("cait", 112),
    "starnet_s1": ("starnet", 128),
    "rexnet_100": ("rexnet", 128),
    "coat_lite_tiny": ("coat", 112),
    "res2net50_14w_8s": ("res2net", 64),
    "edgenext_xx_small": ("edgenext", 160),
    "mobileone_s0": ("mobileone", 128),
    "resmlp_12_224": ("resmlp", 112),
    "fastvit_t8": ("fastvit", 128),
    "mixnet_s": ("mixnet", 128),
    "nf_regnet_b0": ("nfnet", 96),
    "tiny_vit_5m_224": ("tinyvit", 128),
    "selecsls42b": ("selecsls", 96),
    "caformer_s18": ("metaformer", 64),
    "skresnet18": ("sknet", 96),
    "mobilenetv3_small_100": ("mobilenet", 160),
    "xcit_nano_12_p16_224": ("xcit", 128),
    "resnest14d": ("resnest", 64),
    "crossvit_tiny_240": ("crossvit", 240),
    "lcnet_050": ("lcnet", 160),
    "inception_next_atto": ("inceptionnext", 128),
    "repvit_m0_9": ("repvit", 96),
    "gernet_s": ("gernet", 128),
    "twins_svt_small": ("twins", 64),
    "mnasnet_small": ("mnasnet", 160),
    "eva02_tiny_patch14_224": ("eva", 112),
    "seresnet18": ("senet", 96),
    "hgnetv2_b0": ("hgnet", 128),
    "focalnet_tiny_srf": ("focalnet", 64),
    "fbnetc_100": ("fbnet", 128),
    "visformer_tiny": ("visformer", 112),
    "dpn48b": ("dpn", 96),
    "convmixer_768_32": ("convmixer", 64),
    "mobilenetv4_conv_small": ("mobilenet", 160),
    "resnetv2_50": ("resnet", 64),
    "efficientformer_l1": ("efficientformer", 224),
    "tinynet_e": ("efficientnet", 106),
    "regnety_002": ("regnet", 160),
    "mobilevitv2_050": ("mobilevit", 128),
    "convnextv2_atto": ("convnext", 96),
    "gcresnext26ts": ("resnet", 64),
    "darknet17": ("darknet", 96),
    "deit_tiny_patch16_224": ("vit", 224),
    "repghostnet_050": ("ghostnet", 160),
    "cspresnet50": ("resnet", 96),
    "semnasnet_050": ("mnasnet", 160),
    "shvit_s1": ("shvit", 128),
    "efficientnet_lite0": ("efficientnet", 128),
    "davit_tiny": ("davit", 64),
    "resnext26ts": ("resnet", 96),
    "rdnet_tiny": ("densenet", 64),
}
"""Family and side of the image by name in ``timm``."""

TEXT, IMAGE = (1, 64), (1, 3, 128, 128)
_BERT = {"hidden_size": 256, "num_hidden_layers": 4, "num_attention_heads": 4, "intermediate_size": 1024}
_GPT = {"n_embd": 256, "n_layer": 4, "n_head": 4}
_LLAMA = {**_BERT, "num_key_value_heads": 2, "vocab_size": 8000}
TRANSFORMERS: dict[str, tuple[str, str, str, dict[str, Any], tuple[int, ...]]] = {
    "bert_mini": ("bert", "BertModel", "BertConfig", _BERT, TEXT),
    "gpt2_mini": ("gpt2", "GPT2Model", "GPT2Config", _GPT, TEXT),
    "t5_mini": (
        "t5",
        "T5EncoderModel",
        "T5Config",
        {"d_model": 256, "d_ff": 1024, "num_layers": 4, "num_heads": 4},
        TEXT,
    ),
    "llama_mini": ("llama", "LlamaModel", "LlamaConfig", _LLAMA, TEXT),
    "segformer_mini": ("segformer", "SegformerForSemanticSegmentation", "SegformerConfig", {}, IMAGE),
    "wav2vec2_mini": (
        "wav2vec2",
        "Wav2Vec2Model",
        "Wav2Vec2Config",
        {**_BERT, "num_hidden_layers": 2, "conv_dim": (64,) * 7},
        (1, 8000),
    ),
    "albert_mini": ("albert", "AlbertModel", "AlbertConfig", _BERT, TEXT),
    "distilbert_mini": (
        "bert",
        "DistilBertModel",
        "DistilBertConfig",
        {"dim": 256, "n_layers": 4, "n_heads": 4, "hidden_dim": 1024},
        TEXT,
    ),
    "qwen2_mini": ("llama", "Qwen2Model", "Qwen2Config", _LLAMA, TEXT),
    "electra_mini": ("bert", "ElectraModel", "ElectraConfig", {**_BERT, "embedding_size": 128}, (1, 128)),
    "roberta_mini": ("bert", "RobertaModel", "RobertaConfig", _BERT, (1, 16)),
    "clip_vision_mini": ("vit", "CLIPVisionModel", "CLIPVisionConfig", {**_BERT, "image_size": 128}, IMAGE),
    "opt_mini": ("gpt2", "OPTModel", "OPTConfig", {**_BERT, "ffn_dim": 1024, "word_embed_proj_dim": 256}, TEXT),
}
"""Family, class, configuration and shape of the input, tokens or an image or sound, by name."""
ZOO: dict[str, str] = {
    "zoo:resnet_tiny": "resnet",
    "zoo:unet_tiny": "unet",
    "zoo:llama_tiny_decode": "llama",
    "zoo:vgg_tiny": "vgg",
    "zoo:mobilenet_v2": "mobilenet",
    "zoo:bert_base_16": "bert",
    "zoo:bert_tiny": "bert",
    "zoo:ssd_mobilenet": "ssd",
    "zoo:vit_tiny": "vit",
    "zoo:gpt2_tiny": "gpt2",
    "zoo:llama_tiny": "llama",
}
"""Family by name of a network that passsearch has."""


def family(name: str) -> str:
    """Return the architecture family of a network."""
    return ZOO.get(name) or (TIMM.get(name) or TRANSFORMERS[name])[0]


def make(folder: Path, name: str) -> None:
    """Write a network as ONNX."""
    import torch

    torch.manual_seed(0)
    if name in TIMM:
        module, inputs = _vision(name)
    else:
        module, inputs = _transformer(name)
    file = folder / f"{name}.onnx"
    # The exporter of graphs takes seconds instead of a quarter of a minute, and has no `diff`, which masks need.
    settings = {"dynamo": False} if name in TIMM else {"dynamo": True, "external_data": False}
    with torch.no_grad():
        torch.onnx.export(module.eval(), (inputs,), str(file), opset_version=18, **settings)


def _vision(name: str) -> tuple[Any, Any]:
    import timm
    import torch

    _, side = TIMM[name]
    try:
        module = timm.create_model(name, pretrained=False, img_size=side)
    except TypeError:  # most convolutional networks take any size
        module = timm.create_model(name, pretrained=False)
    return module, torch.randn(1, 3, side, side)


def _transformer(name: str) -> tuple[Any, Any]:
    """Return a module with one output, and its inputs."""
    import torch
    import transformers

    _, kind, configuration, values, shape = TRANSFORMERS[name]
    inputs = torch.randint(0, 1000, shape) if len(shape) == 2 and shape[1] < 1000 else torch.randn(shape)
    config = getattr(transformers, configuration)(**values)
    config.use_cache = False
    return one_output(getattr(transformers, kind)(config)), inputs


if __name__ == "__main__":
    for each in sys.argv[2:]:
        try:
            make(Path(sys.argv[1]), each)
        except Exception as error:  # noqa: BLE001, PERF203 -- a network that cannot be written is left out, the others follow
            print(f"{each}: {type(error).__name__}: {str(error)[:300]}", file=sys.stderr)
