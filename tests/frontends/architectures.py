"""Architectures that passsearch should take: small configurations with random weights, in the form that users have.

``benchmarks/import_networks.py`` tries each on both dialects and writes the table of ``docs/evidence/networks.md``;
tests take a few.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib.util import find_spec
from inspect import signature
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import onnx
import onnx_graphs

from passsearch.core import TensorType, read_inputs

Array: TypeAlias = npt.NDArray[Any]

SEED = 0


@dataclass(frozen=True)
class Network:
    """A network in the form in which a user has it, and the outputs that its framework computes.

    Attributes:
        model: A path or an object.
        outputs: Returns the framework's outputs for inputs by name.
        inputs: Input types that the user states.
        example_inputs: Inputs that the user gives to trace a module.
    """

    model: object
    outputs: Callable[[Mapping[str, Array]], Sequence[Array]]
    inputs: Mapping[str, TensorType] = field(default_factory=dict)
    example_inputs: object = None


@dataclass(frozen=True)
class Architecture:
    """An entry of the list.

    Attributes:
        name: Unique name.
        group: The kind of network, a heading of the table.
        needs: Packages without which the entry is skipped.
        make: Writes the network into a folder and returns it.
    """

    name: str
    group: str
    needs: tuple[str, ...]
    make: Callable[[Path], Network]

    @property
    def missing(self) -> str:
        """The reason why this entry is skipped here; empty where it is not."""
        missing = [name for name in self.needs if find_spec(name) is None]
        return f"needs {', '.join(missing)}" if missing else ""


# Names of sizes as they stand in most configurations.
WIDE: Mapping[str, Any] = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
TEXT = {**WIDE, "vocab_size": 99, "max_position_embeddings": 64}
IMAGE = {**WIDE, "image_size": 32, "patch_size": 8}
GROUPED = {**TEXT, "num_key_value_heads": 2}
SEQ2SEQ = {
    "vocab_size": 99,
    "d_model": 32,
    **dict.fromkeys(("encoder_layers", "decoder_layers", "encoder_attention_heads", "decoder_attention_heads"), 2),
    **dict.fromkeys(("encoder_ffn_dim", "decoder_ffn_dim", "max_position_embeddings"), 64),
}
TOKENS = "input_ids:int64[1,16]"
BOTH = f"{TOKENS} decoder_input_ids:int64[1,8]"
PIXELS = "pixel_values:float32[1,3,32,32]"
LARGER = "pixel_values:float32[1,3,64,64]"
WAVE = "input_values:float32[1,1600]"
SPEECH = {
    **WIDE,
    "vocab_size": 32,
    "conv_dim": [32, 32],
    "conv_stride": [5, 4],
    "conv_kernel": [10, 4],
    "num_feat_extract_layers": 2,
    "num_conv_pos_embeddings": 16,
    "num_conv_pos_embedding_groups": 2,
}
TWO_TOWERS = {"projection_dim": 16, "text_config": TEXT, "vision_config": IMAGE}

TRANSFORMERS: Mapping[str, Sequence[tuple[str, str, Mapping[str, Any]]]] = {
    "encoder": [
        ("BertForSequenceClassification", TOKENS, TEXT),
        ("RobertaForMaskedLM", TOKENS, TEXT),
        ("DistilBertModel", TOKENS, {"vocab_size": 99, "dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 320}),
        ("AlbertModel", TOKENS, {**TEXT, "embedding_size": 16}),
        ("ElectraForTokenClassification", TOKENS, {**TEXT, "embedding_size": 16}),
        ("DebertaV2Model", TOKENS, {**TEXT, "relative_attention": True, "pos_att_type": ["p2c", "c2p"]}),
        ("MPNetModel", TOKENS, TEXT),
        ("ModernBertModel", TOKENS, {**TEXT, "pad_token_id": 0, "global_attn_every_n_layers": 2, "local_attention": 8}),
        ("SqueezeBertModel", TOKENS, {**TEXT, "embedding_size": 32}),
        ("ConvBertModel", TOKENS, {**TEXT, "embedding_size": 32}),
        ("FNetModel", TOKENS, {**TEXT, "tpu_short_seq_length": 16}),
        ("RoFormerModel", TOKENS, {**TEXT, "embedding_size": 32}),
        ("XLNetModel", TOKENS, {"vocab_size": 99, "d_model": 32, "n_layer": 2, "n_head": 4, "d_inner": 64}),
        (
            "FunnelModel",
            TOKENS,
            {
                "vocab_size": 99,
                "d_model": 32,
                "n_head": 4,
                "d_head": 8,
                "d_inner": 64,
                "block_sizes": [1, 1],
                "num_decoder_layers": 1,
            },
        ),
    ],
    "decoder": [
        ("GPT2LMHeadModel", TOKENS, {"vocab_size": 99, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64}),
        ("GPTNeoXForCausalLM", TOKENS, TEXT),
        (
            "GPTJForCausalLM",
            TOKENS,
            {"vocab_size": 99, "n_embd": 32, "n_layer": 2, "n_head": 4, "rotary_dim": 4, "n_positions": 64},
        ),
        (
            "OPTForCausalLM",
            TOKENS,
            {
                "vocab_size": 99,
                "hidden_size": 32,
                "num_hidden_layers": 2,
                "ffn_dim": 64,
                "num_attention_heads": 4,
                "max_position_embeddings": 64,
                "word_embed_proj_dim": 32,
            },
        ),
        ("BloomForCausalLM", TOKENS, {"vocab_size": 99, "hidden_size": 32, "n_layer": 2, "n_head": 4}),
        ("FalconForCausalLM", TOKENS, {**TEXT, "new_decoder_architecture": True, "num_kv_heads": 2}),
        ("LlamaForCausalLM", TOKENS, GROUPED),
        ("MistralForCausalLM", TOKENS, {**GROUPED, "sliding_window": 8}),
        ("Qwen2ForCausalLM", TOKENS, GROUPED),
        ("Qwen3ForCausalLM", TOKENS, {**GROUPED, "head_dim": 8}),
        ("GemmaForCausalLM", TOKENS, {**GROUPED, "head_dim": 8}),
        ("PhiForCausalLM", TOKENS, TEXT),
        ("StableLmForCausalLM", TOKENS, GROUPED),
        ("MixtralForCausalLM", TOKENS, {**GROUPED, "num_local_experts": 4}),
        ("MambaForCausalLM", TOKENS, {"vocab_size": 99, "hidden_size": 32, "num_hidden_layers": 2, "state_size": 8}),
    ],
    "encoder-decoder": [
        (
            "T5ForConditionalGeneration",
            BOTH,
            {"vocab_size": 99, "d_model": 32, "num_layers": 2, "num_heads": 4, "d_kv": 8, "d_ff": 64},
        ),
        ("BartForConditionalGeneration", BOTH, SEQ2SEQ),
        ("MarianMTModel", BOTH, {**SEQ2SEQ, "pad_token_id": 0}),
        ("PegasusForConditionalGeneration", BOTH, SEQ2SEQ),
    ],
    "vision": [
        ("ViTForImageClassification", PIXELS, IMAGE),
        ("DeiTModel", PIXELS, IMAGE),
        ("BeitModel", PIXELS, IMAGE),
        ("Dinov2Model", PIXELS, {**IMAGE, "num_hidden_layers": 2}),
        (
            "SwinModel",
            PIXELS,
            {
                "image_size": 32,
                "patch_size": 2,
                "embed_dim": 16,
                "depths": [2, 2],
                "num_heads": [2, 2],
                "window_size": 4,
            },
        ),
        (
            "ConvNextForImageClassification",
            PIXELS,
            {"image_size": 32, "hidden_sizes": [8, 16, 16, 32], "depths": [1, 1, 1, 1]},
        ),
        ("ResNetForImageClassification", PIXELS, {"embedding_size": 16, "hidden_sizes": [16, 32], "depths": [1, 1]}),
        ("RegNetModel", PIXELS, {"embedding_size": 16, "hidden_sizes": [16, 32], "depths": [1, 1], "groups_width": 8}),
        ("MobileNetV1Model", PIXELS, {"image_size": 32, "depth_multiplier": 0.25}),
        ("MobileNetV2ForImageClassification", PIXELS, {"image_size": 32, "depth_multiplier": 0.25}),
        (
            "EfficientNetModel",
            PIXELS,
            {
                "image_size": 32,
                "width_coefficient": 0.25,
                "depth_coefficient": 0.25,
                "hidden_dim": 320,
                "initializer_range": 0.2,
            },
        ),
        (
            "MobileViTModel",
            LARGER,
            {
                "image_size": 64,
                "hidden_sizes": [16, 24, 32],
                "neck_hidden_sizes": [8] * 6 + [32],
                "num_attention_heads": 2,
                "initializer_range": 0.2,
            },
        ),
        (
            "SegformerForSemanticSegmentation",
            LARGER,
            {
                "hidden_sizes": [8, 16, 16, 32],
                "depths": [1] * 4,
                "num_attention_heads": [1, 2, 2, 4],
                "decoder_hidden_size": 32,
            },
        ),
        ("PoolFormerModel", LARGER, {"hidden_sizes": [8, 16, 16, 32], "depths": [1] * 4}),
        (
            "LevitModel",
            LARGER,
            {
                "image_size": 64,
                "hidden_sizes": [16, 24, 32],
                "depths": [1, 1, 1],
                "num_attention_heads": [2, 2, 2],
                "key_dim": [8, 8, 8],
            },
        ),
        ("CvtModel", LARGER, {"embed_dim": [8, 16, 32], "num_heads": [1, 2, 2], "depth": [1, 2, 3]}),
        ("YolosForObjectDetection", LARGER, {**IMAGE, "image_size": [64, 64], "num_detection_tokens": 5}),
        (
            "Swin2SRForImageSuperResolution",
            PIXELS,
            {"image_size": 32, "embed_dim": 16, "depths": [1, 1], "num_heads": [2, 2], "window_size": 4},
        ),
    ],
    "audio": [
        ("Wav2Vec2ForCTC", WAVE, SPEECH),
        ("HubertModel", WAVE, SPEECH),
        ("ASTModel", "input_values:float32[1,64,32]", {**WIDE, "max_length": 64, "num_mel_bins": 32}),
        (
            "WhisperForConditionalGeneration",
            "input_features:float32[1,16,64] decoder_input_ids:int64[1,8]",
            {
                **SEQ2SEQ,
                "num_mel_bins": 16,
                "max_source_positions": 32,
                "max_target_positions": 32,
                "pad_token_id": 0,
                "bos_token_id": 1,
                "eos_token_id": 2,
                "decoder_start_token_id": 1,
            },
        ),
    ],
    "multimodal": [
        ("CLIPModel", f"{TOKENS} {PIXELS}", TWO_TOWERS),
        ("SiglipModel", f"{TOKENS} {PIXELS}", {"text_config": TEXT, "vision_config": IMAGE}),
        ("ViltModel", f"{TOKENS} {PIXELS}", {**TEXT, **IMAGE}),
    ],
    "other sequences": [
        (
            "PatchTSTForPrediction",
            "past_values:float32[1,32,3]",
            {
                "num_input_channels": 3,
                "context_length": 32,
                "patch_length": 8,
                "patch_stride": 8,
                "d_model": 32,
                "num_attention_heads": 4,
                "ffn_dim": 64,
                "num_hidden_layers": 2,
                "prediction_length": 8,
            },
        ),
    ],
}
"""Models of transformers by group: class, the inputs a user states, and the configuration."""


def _transformers(name: str, inputs: str, settings: Mapping[str, Any], folder: Path) -> Network:
    """Save a model with random weights, as ``save_pretrained`` leaves it."""
    import torch
    import transformers

    kind = getattr(transformers, name)
    torch.manual_seed(SEED)
    model = kind(kind.config_class(**settings))
    model.save_pretrained(folder)
    types = read_inputs(inputs.split())
    # Attention as the front end asks for it: other implementations treat rows that a mask hides completely otherwise.
    eager = kind.from_pretrained(folder, attn_implementation="eager").eval()
    without_cache = {"use_cache": False} if "use_cache" in signature(eager.forward).parameters else {}
    return Network(folder, partial(_torch_outputs, partial(eager, **without_cache)), inputs=types)


def _torch_outputs(module: Any, inputs: Mapping[str, Array]) -> list[Array]:
    import torch
    from torch.utils._pytree import tree_leaves

    with torch.no_grad():
        results = tree_leaves(module(**{name: torch.from_numpy(array) for name, array in inputs.items()}))
    return [leaf.numpy() for leaf in results if isinstance(leaf, torch.Tensor)]


def _torch_module(make: str, example: Mapping[str, tuple[str, tuple[int, ...]]], _: Path) -> Network:
    """Return a module of ``torch_modules``, as a user holds it in memory."""
    import torch
    import torch_modules

    torch.manual_seed(SEED)
    module = getattr(torch_modules, make)()
    examples = {name: torch.zeros(shape, dtype=getattr(torch, dtype)) for name, (dtype, shape) in example.items()}
    return Network(module, partial(_torch_outputs, module.eval()), example_inputs=examples)


def _onnx(path: Path, sizes: str = "") -> Network:
    """Return an ONNX file, judged by ONNX's reference implementation."""

    def outputs(inputs: Mapping[str, Array]) -> list[Array]:
        return onnx_graphs.reference(onnx.load(str(path)), inputs)

    return Network(path, outputs, inputs=read_inputs(sizes.split()))


def _hand_made(name: str, folder: Path) -> Network:
    sizes = {"reshape-computed": "x:float32[2,3,4,4]", "expand-computed": "ids:int64[2,6]"}
    return _onnx(onnx_graphs.save(name, folder / f"{name}.onnx"), sizes.get(name, ""))


def _packaged(name: str, folder: Path) -> Network:
    """Return a network of ONNX's tests with random weights; the package has 0.02 for all, so inputs hardly count."""
    path = f"light_{name}.onnx"
    graph = (model := onnx.load(Path(onnx.__file__).parent / "backend" / "test" / "data" / "light" / path)).graph
    shapes = {each.name: tuple(onnx.numpy_helper.to_array(each)) for each in graph.initializer}
    numbers, nodes = np.random.default_rng(SEED), list(graph.node)
    del graph.node[:]
    for node in nodes:
        if node.op_type != "ConstantOfShape":
            graph.node.append(node)
            continue
        shape = shapes[node.input[0]]
        fan_in = math.prod(shape[1:])
        # Of one dimension are biases, and the scales and variances of normalisations, which are positive.
        values = numbers.normal(0, (2 / fan_in) ** 0.5, shape) if shape[1:] else numbers.uniform(*PACKAGED[name], shape)
        graph.initializer.append(onnx.numpy_helper.from_array(values.astype("float32"), node.output[0]))
    onnx.save(model, folder / path)
    return _onnx(folder / path)


def _keras(name: str, _: Path) -> Network:
    import tensorflow as tf

    tf.keras.utils.set_random_seed(SEED)
    model = getattr(tf.keras.applications, name)(
        weights=None, input_shape=(64, 64, 3), classes=10, classifier_activation=None
    )
    numbers = np.random.default_rng(SEED)
    for weight in model.weights:
        # With Keras's own random weights, little of the inputs reaches the outputs.
        shape = tuple(weight.shape)
        fan_in = math.prod(shape[:2] if "depthwise" in weight.name else shape[:-1])
        if shape[1:]:
            weight.assign(numbers.normal(0, (2 / fan_in) ** 0.5, shape))
    types = {model.inputs[0].name: TensorType((1, 64, 64, 3), "float32")}
    return Network(model, lambda inputs: [np.asarray(model(*inputs.values(), training=False))], inputs=types)


def _gluon(name: str, _: Path) -> Network:
    import gluoncv
    import mxnet

    mxnet.random.seed(SEED)
    block = gluoncv.model_zoo.get_model(name, pretrained=False)
    block.initialize(mxnet.init.Xavier())
    block(mxnet.nd.zeros((1, 3, 64, 64)))  # the first inference decides about the sizes of the parameters

    def outputs(inputs: Mapping[str, Array]) -> list[Array]:
        result = block(*map(mxnet.nd.array, inputs.values()))
        return [each.asnumpy() for each in (result if isinstance(result, tuple | list) else (result,))]

    return Network(block, outputs, inputs={"data": TensorType((1, 3, 64, 64), "float32")})


TORCH_MODULES: Mapping[str, Mapping[str, tuple[str, tuple[int, ...]]]] = {
    "DenselyConnected": {"image": ("float32", (1, 3, 32, 32))},
    "UNet": {"image": ("float32", (1, 3, 32, 32))},
    "ShuffleUnit": {"image": ("float32", (1, 16, 16, 16))},
    "Recurrent": {"tokens": ("int64", (1, 12))},
    "Recommender": {"numbers": ("float32", (4, 6)), "categories": ("int64", (4, 3))},
    "EncoderLayer": {"sequence": ("float32", (1, 10, 32))},
}
"""Example inputs of the modules in ``torch_modules``, by class."""

PACKAGED = {
    **dict.fromkeys(("squeezenet", "shufflenet", "resnet50", "inception_v1", "bvlc_alexnet"), (0.1, 0.3)),
    "densenet121": (0.5, 1.5),
}
"""Networks of ONNX's own tests, in full size, and the range of their random biases and scales, with which inputs reach
the outputs. The three others that it has are of the same kinds."""


def _entries() -> list[Architecture]:
    of_torch = ("torch", "transformers")
    entries = [
        Architecture(name, group, of_torch, partial(_transformers, name, inputs, settings))
        for group, models in TRANSFORMERS.items()
        for name, inputs, settings in models
    ]
    entries += [
        Architecture(name, "torch modules", ("torch",), partial(_torch_module, name, example))
        for name, example in TORCH_MODULES.items()
    ]
    entries += [
        Architecture(f"onnx-{name}", "networks of ONNX's tests", (), partial(_packaged, name)) for name in PACKAGED
    ]
    entries += [
        Architecture(f"onnx-{name}", "ONNX by hand", (), partial(_hand_made, name))
        for name in (*onnx_graphs.GRAPHS, "external-data")
    ]
    keras = ("ResNet50V2", "MobileNetV2", "EfficientNetB0")
    entries += [
        Architecture(f"keras-{name}", "Keras applications", ("tensorflow",), partial(_keras, name)) for name in keras
    ]
    entries += [
        Architecture(f"gluon-{name}", "gluoncv", ("gluoncv", "mxnet"), partial(_gluon, name))
        for name in ("resnet18_v1", "mobilenet1.0")
    ]
    return entries


ARCHITECTURES: Mapping[str, Architecture] = {entry.name: entry for entry in _entries()}
"""The list, by name."""
