"""The table of built-in networks.

The builders need `onnx`; they are imported when a network is built, so that the table can be read without it.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from passsearch.errors import UserError

if TYPE_CHECKING:
    import onnx


MOST_ITEMS = 2**63 - 1
"""Largest batch size; ONNX stores sizes in 64 bits."""


@dataclass(frozen=True)
class Network:
    """One built-in network.

    Attributes:
        name: The name users type.
        make: Builds the graph for a batch size.
        inputs: Names, types and shapes of the inputs at batch size 1, as text.
        summary: The kind of network and its size, in one line.
    """

    name: str
    make: Callable[[int], onnx.ModelProto]
    inputs: str
    summary: str


def build(name: str, *, batch: int = 1) -> onnx.ModelProto:
    """Return the ONNX graph of a built-in network.

    The same arguments give the same bytes under the same versions of `numpy` and `onnx`.

    Args:
        name: A key of `NETWORKS`.
        batch: Size of the first dimension of every input and output.

    Returns:
        A network with static shapes, opset 13, float32 weights and fixed random values.

    Raises:
        UserError: The name is unknown, the batch size is below 1, or `onnx` is not installed.
    """
    network = _find(name)
    if batch < 1:
        raise UserError(f"Batch size must be 1 or more, got {batch}; give for example batch=1")
    if batch > MOST_ITEMS:
        raise UserError(f"Batch size must be {MOST_ITEMS} or less, got {batch}; give for example batch=1")
    try:
        return network.make(batch)
    except ModuleNotFoundError as error:
        raise UserError(
            f"Built-in networks need `{error.name}`, which is not installed; run: pip install onnx"
        ) from error


def describe(name: str) -> str:
    """Describe a built-in network in one line, without building it.

    Raises:
        UserError: The name is unknown.
    """
    network = _find(name)
    return f"{network.name}: {network.summary}; inputs {network.inputs}"


def _find(name: str) -> Network:
    if name in NETWORKS:
        return NETWORKS[name]
    if match := _REPEATED.fullmatch(name):
        return _repeated(match["block"], int(match["times"]))
    near = difflib.get_close_matches(name, NETWORKS, n=1, cutoff=0.0)[0]
    raise UserError(
        f"Unknown network `{name}`; did you mean `{near}`? Built-in networks: {', '.join(NETWORKS)}, {REPEATED}. "
        "See: passsearch zoo"
    )


def descriptions() -> list[dict[str, str]]:
    """Return name, summary and inputs of the built-in networks."""
    repeated = Network(REPEATED, _repeated("residual", 1).make, "features", "one block N times, and nothing else")
    return [
        {"name": each.name, "summary": each.summary, "inputs": each.inputs} for each in (*NETWORKS.values(), repeated)
    ]


def nearest_name(text: str) -> str:
    """Return the built-in network whose name is like a text, empty if there is none."""
    name = text.lower().replace("-", "_")
    return next(iter(difflib.get_close_matches(name, NETWORKS, n=1)), "")


def _repeated(block: str, times: int) -> Network:
    def make(batch: int) -> onnx.ModelProto:
        from passsearch.frontends.zoo.repeats import repeated_block

        return repeated_block(block, times, batch=batch)

    return Network(f"{block}_x{times}", make, "features", f"{times} times the {block} block, and nothing else")


def _resnet(depth: int, **options: int) -> Callable[[int], onnx.ModelProto]:
    def make(batch: int) -> onnx.ModelProto:
        from passsearch.frontends.zoo.resnet import resnet

        return resnet(depth, batch=batch, **options)

    return make


def _vgg(depth: int, **options: int) -> Callable[[int], onnx.ModelProto]:
    def make(batch: int) -> onnx.ModelProto:
        from passsearch.frontends.zoo.vgg import vgg

        return vgg(depth, batch=batch, **options)

    return make


def _bert(**options: Any) -> Callable[[int], onnx.ModelProto]:
    def make(batch: int) -> onnx.ModelProto:
        from passsearch.frontends.zoo.transformer import bert

        return bert(batch=batch, **options)

    return make


def _gpt2(**options: int) -> Callable[[int], onnx.ModelProto]:
    def make(batch: int) -> onnx.ModelProto:
        from passsearch.frontends.zoo.transformer import gpt2

        return gpt2(batch=batch, **options)

    return make


def _unet(**options: int) -> Callable[[int], onnx.ModelProto]:
    def make(batch: int) -> onnx.ModelProto:
        from passsearch.frontends.zoo.unet import unet

        return unet(batch=batch, **options)

    return make


def _vit(**options: int) -> Callable[[int], onnx.ModelProto]:
    def make(batch: int) -> onnx.ModelProto:
        from passsearch.frontends.zoo.vit import vit

        return vit(batch=batch, **options)

    return make


def _llama(**options: int) -> Callable[[int], onnx.ModelProto]:
    def make(batch: int) -> onnx.ModelProto:
        from passsearch.frontends.zoo.llama import llama

        return llama(batch=batch, **options)

    return make


def _mobilenet_v2(batch: int) -> onnx.ModelProto:
    from passsearch.frontends.zoo.mobilenet import mobilenet_v2

    return mobilenet_v2(batch=batch)


def _ssd_resnet50(batch: int) -> onnx.ModelProto:
    from passsearch.frontends.zoo.ssd import ssd_resnet50

    return ssd_resnet50(batch=batch)


def _ssd_mobilenet(batch: int) -> onnx.ModelProto:
    from passsearch.frontends.zoo.ssd import ssd_mobilenet

    return ssd_mobilenet(batch=batch)


def _image(size: int) -> str:
    return f"image: float32[1, 3, {size}, {size}]"


def _text(length: int) -> str:
    return f"{_tokens(length)}, attention_mask: int64[1, {length}]"


def _tokens(length: int) -> str:
    return f"input_ids: int64[1, {length}]"


def _token_and_cache(*, layers: int, shape: list[int]) -> str:
    names = [f"past_{kind}_{layer}" for layer in range(layers) for kind in ("keys", "values")]
    return ", ".join([_tokens(1), *(f"{name}: float32{shape}" for name in names)])


_TINY = {"layers": 2, "hidden": 64, "heads": 2, "sequence": 16, "vocabulary": 100}
_TINY_VIT = {"layers": 2, "hidden": 64, "heads": 2, "size": 32, "patch": 8, "classes": 10}
_TINY_LLAMA = {"layers": 2, "hidden": 64, "heads": 4, "key_heads": 2, "intermediate": 176, "vocabulary": 100}
_ONE_TOKEN = {"sequence": 1, "cached": 127}

LARGE_LLAMA = {
    "layers": 24,
    "hidden": 896,
    "heads": 14,
    "key_heads": 2,
    "intermediate": 4864,
    "vocabulary": 151936,
}
"""The sizes of Qwen2-0.5B (Yang et al., "Qwen2 Technical Report", 2024)."""

_ALL = (
    Network("resnet18", _resnet(18), _image(224), "ResNet-18 image classifier, 11.7 M parameters"),
    Network("resnet34", _resnet(34), _image(224), "ResNet-34 image classifier, 21.8 M parameters"),
    Network("resnet50", _resnet(50), _image(224), "ResNet-50 v1.5 image classifier, 25.6 M parameters"),
    Network("vgg19", _vgg(19), _image(224), "VGG19 image classifier, 143.7 M parameters"),
    Network("mobilenet_v2", _mobilenet_v2, _image(224), "MobileNetV2 image classifier, 3.5 M parameters"),
    Network("ssd_resnet50", _ssd_resnet50, _image(300), "SSD300 object detector on ResNet-50, 22.9 M parameters"),
    Network("ssd_mobilenet", _ssd_mobilenet, _image(300), "SSD300 object detector on MobileNetV1, 6.8 M parameters"),
    Network("unet", _unet(), _image(256), "U-Net that labels pixels, 32 to 512 channels, 7.8 M parameters"),
    Network("bert_base", _bert(), _text(128), "BERT-base for question answering, 108.9 M parameters"),
    Network("bert_base_16", _bert(sequence=16), _text(16), "BERT-base on 16 tokens, 108.9 M parameters"),
    Network("vit", _vit(), _image(224), "ViT-B/16 image classifier, 197 tokens, 86.6 M parameters"),
    Network("gpt2", _gpt2(), _tokens(128), "GPT-2 small on 128 tokens, logits of all positions, 124.4 M parameters"),
    Network("llama", _llama(), _tokens(128), "decoder as in Llama that reads 128 tokens, 100.1 M parameters"),
    Network(
        "llama_decode",
        _llama(**_ONE_TOKEN),
        _token_and_cache(layers=12, shape=[1, 4, 127, 64]),
        "decoder as in Llama that reads token 128, 100.1 M parameters",
    ),
    Network(
        "llama_large_decode",
        _llama(**LARGE_LLAMA, **_ONE_TOKEN),
        _token_and_cache(layers=24, shape=[1, 2, 127, 64]),
        "decoder in the sizes of Qwen2-0.5B that reads token 128, 494.0 M parameters",
    ),
    Network("resnet_tiny", _resnet(18, width=8, size=32, classes=10), _image(32), "ResNet-18 at width 8, for tests"),
    Network("vgg_tiny", _vgg(11, width=8, size=32, hidden=64, classes=10), _image(32), "VGG11 at width 8, for tests"),
    Network("unet_tiny", _unet(size=32, width=8), _image(32), "U-Net at width 8, for tests"),
    Network("bert_tiny", _bert(**_TINY), _text(16), "BERT with 2 layers of width 64, for tests"),
    Network("vit_tiny", _vit(**_TINY_VIT), _image(32), "ViT with 2 layers of width 64 on 17 tokens, for tests"),
    Network("gpt2_tiny", _gpt2(**_TINY), _tokens(16), "GPT-2 with 2 layers of width 64, for tests"),
    Network(
        "llama_tiny", _llama(**_TINY_LLAMA, sequence=16), _tokens(16), "Llama with 2 layers of width 64, for tests"
    ),
    Network(
        "llama_tiny_decode",
        _llama(**_TINY_LLAMA, **_ONE_TOKEN),
        _token_and_cache(layers=2, shape=[1, 2, 127, 16]),
        "Llama with 2 layers of width 64 that reads token 128, for tests",
    ),
)

REPEATED = "residual_xN, depthwise_xN, encoder_xN"
"""Names of networks that are one block N times, in words."""

_REPEATED = re.compile(r"(?P<block>residual|depthwise|encoder)_x(?P<times>[1-9][0-9]{0,2})")
"""Names of networks that consist of one block, repeated."""

NETWORKS: Mapping[str, Network] = MappingProxyType({network.name: network for network in _ALL})
