"""Tests of transformers' models, by configuration and by folder."""

import json

import onnx
import pytest
from onnx.reference import ReferenceEvaluator

from passsearch.core import TensorType
from passsearch.errors import UserError
from passsearch.frontends import resolve

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

IDS = {"input_ids": TensorType((2, 8), "int64")}
SMALL = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}


def bert(**options):
    return transformers.BertConfig(vocab_size=50, **SMALL, **options)


def vit(size):
    return transformers.ViTConfig(image_size=size, patch_size=8, **SMALL)


def resnet():
    return transformers.ResNetConfig(embedding_size=8, hidden_sizes=[8, 8], depths=[1, 1])


def graph_inputs(file):
    values = onnx.load(str(file.path)).graph.input
    return {value.name: tuple(size.dim_value for size in value.type.tensor_type.shape.dim) for value in values}


def test_a_text_network_gets_the_inputs_that_belong_to_tokens(tmp_path):
    file = resolve(bert(architectures=["BertForQuestionAnswering"]), inputs=IDS, batch=2, folder=tmp_path)
    assert (file.format, file.name) == ("onnx", "BertForQuestionAnswering")
    assert graph_inputs(file) == dict.fromkeys(("input_ids", "attention_mask", "token_type_ids"), (2, 8))
    config = transformers.DistilBertConfig(vocab_size=50, dim=16, n_layers=1, n_heads=2, hidden_dim=16)
    assert set(graph_inputs(resolve(config, inputs=IDS, folder=tmp_path))) == {"input_ids", "attention_mask"}


@pytest.mark.parametrize(
    ("size", "batch", "shape"), [(16, None, (1, 3, 16, 16)), ((16, 24), None, (1, 3, 16, 24)), (16, 3, (3, 3, 16, 16))]
)
def test_a_vision_network_gets_images_of_the_configured_size(tmp_path, size, batch, shape):
    assert graph_inputs(resolve(vit(size), batch=batch, folder=tmp_path)) == {"pixel_values": shape}


def test_sizes_that_the_configuration_leaves_open_are_requested(tmp_path):
    with pytest.raises(UserError, match=r"leaves the sizes of `input_ids.*--input input_ids:int64.1,384."):
        resolve(bert(), batch=2, folder=tmp_path)
    with pytest.raises(UserError, match=r"sizes of `pixel_values.*--input pixel_values:float32.1,3,224,224."):
        resolve(resnet(), folder=tmp_path)
    inputs = {"pixel_values": TensorType((2, 3, 32, 32), "float32")}
    assert graph_inputs(resolve(resnet(), inputs=inputs, folder=tmp_path)) == {"pixel_values": (2, 3, 32, 32)}


@pytest.mark.parametrize(
    ("inputs", "batch", "message"),
    [
        ({"input_id": IDS["input_ids"], **IDS}, None, "Unknown input `input_id`; did you mean `input_ids`"),
        (IDS, 3, "Dimension `batch` cannot be both 2 and 3"),
        ({**IDS, "attention_mask": TensorType((2, 9), "int64")}, None, "Dimension `sequence` cannot be both 8 and 9"),
        ({"input_ids": TensorType((1, 600), "int64")}, None, "Cannot trace `BertModel` with these example inputs"),
    ],
)
def test_inputs_that_do_not_fit_are_refused(tmp_path, inputs, batch, message):
    with pytest.raises(UserError, match=message):
        resolve(bert(), inputs=inputs, batch=batch, folder=tmp_path)


def test_a_mask_may_have_one_matrix_per_head(tmp_path):
    config = transformers.GPT2Config(vocab_size=50, n_embd=16, n_layer=1, n_head=2)
    mask = {"attention_mask": TensorType((2, 1, 8, 8), "float32")}
    file = resolve(config, inputs=IDS | mask, folder=tmp_path)
    assert graph_inputs(file) == {"input_ids": (2, 8), "attention_mask": (2, 1, 8, 8)}
    assert len(onnx.load(str(file.path)).graph.output) == 1


def test_equal_configurations_give_equal_networks_and_are_not_changed(tmp_path):
    config, state = bert(), torch.get_rng_state()
    before = config.to_dict(), config._attn_implementation
    first = resolve(config, inputs=IDS, folder=tmp_path)
    torch.rand(3)
    assert resolve(config, inputs=IDS, folder=tmp_path).sha256 == first.sha256
    assert (config.to_dict(), config._attn_implementation) == before
    torch.set_rng_state(state)
    resolve(config, inputs=IDS, folder=tmp_path)
    assert torch.equal(torch.get_rng_state(), state)


def decoder(**options):
    return transformers.LlamaConfig(vocab_size=50, num_key_value_heads=1, **SMALL, **options)


def whisper():
    sizes = dict.fromkeys(("encoder_layers", "decoder_layers", "encoder_attention_heads", "decoder_attention_heads"), 1)
    widths = dict.fromkeys(("d_model", "encoder_ffn_dim", "decoder_ffn_dim"), 16)
    tokens = dict.fromkeys(("pad_token_id", "bos_token_id", "eos_token_id", "decoder_start_token_id"), 1)
    return transformers.WhisperConfig(
        vocab_size=50, num_mel_bins=8, max_source_positions=8, max_target_positions=8, **sizes, **widths, **tokens
    )


SPEECH = {"input_features": TensorType((1, 8, 16), "float32"), "decoder_input_ids": TensorType((1, 4), "int64")}
SLIDING = {"sliding_window": 3, "use_sliding_window": True, "max_window_layers": 0}


@pytest.mark.parametrize(
    ("config", "inputs"),
    [
        (decoder(), IDS),
        (transformers.Qwen2Config(vocab_size=50, num_key_value_heads=1, **SMALL, **SLIDING), IDS),
        (whisper(), SPEECH),
    ],
    ids=["causal", "sliding window", "packed positions"],
)
def test_a_decoder_is_exported_with_its_masks_and_keeps_its_settings(tmp_path, config, inputs):
    torch.manual_seed(0)
    model = transformers.AutoModel.from_config(config)
    before = model.config._attn_implementation, model.config.use_cache
    file = resolve(model, inputs=inputs, folder=tmp_path)
    assert file.format == "onnx"
    assert (model.config._attn_implementation, model.config.use_cache) == before
    values = {name: torch.ones(kind.shape, dtype=getattr(torch, kind.dtype)) for name, kind in inputs.items()}
    if "attention_mask" in graph_inputs(file):
        values["attention_mask"] = torch.tensor([[0, 0, 1, 1, 1, 1, 1, 1], [1] * 8])
    arrays = {name: value.numpy() for name, value in values.items()}
    output = ReferenceEvaluator(str(file.path)).run(None, arrays)[0]
    with torch.no_grad():
        expected = model.eval()(**values, use_cache=False).last_hidden_state
    # What a mask hides completely may differ: rows without a token to attend to.
    rows = slice(2, None) if "attention_mask" in values else slice(None)
    assert output[:, rows] == pytest.approx(expected[:, rows].numpy(), abs=1e-4)


def test_a_folder_with_weights_gives_a_network_with_these(tmp_path):
    config = resnet()
    config.architectures = ["ResNetForImageClassification"]
    inputs = {"pixel_values": TensorType((1, 3, 32, 32), "float32")}
    torch.manual_seed(7)
    model = transformers.ResNetForImageClassification(config)
    config.save_pretrained(tmp_path / "random")
    model.save_pretrained(tmp_path / "stored")
    random, stored = (
        resolve(tmp_path / name, inputs=inputs, folder=tmp_path / "files") for name in ("random", "stored")
    )
    assert random.sha256 == resolve(config, inputs=inputs, folder=tmp_path / "files").sha256
    assert random.name == stored.name == "ResNetForImageClassification"
    image = torch.randn(1, 3, 32, 32)
    (output,) = ReferenceEvaluator(str(stored.path)).run(None, {"pixel_values": image.numpy()})
    assert output == pytest.approx(model.eval()(image).logits.detach().numpy(), abs=1e-4)


def test_a_model_is_traced_with_derived_inputs_or_examples(tmp_path):
    model = transformers.ViTModel(vit(16))
    derived = resolve(model, folder=tmp_path)
    from_example = resolve(model, example_inputs={"pixel_values": torch.ones(1, 3, 16, 16)}, folder=tmp_path)
    assert derived.sha256 == from_example.sha256
    assert derived.source.endswith(".ViTModel")
    assert model.training


def test_folders_without_a_model_are_refused_in_one_line(tmp_path):
    cases = {
        "unknown": ({"model_type": "nope"}, b""),
        "untyped": ({}, b""),
        "foreign": ({"model_type": "bert", "architectures": ["NoSuchModel"]}, b""),
        "broken": ({"model_type": "bert"}, b"no weights"),
    }
    for name, (config, weights) in cases.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text(json.dumps(config))
        if weights:
            (tmp_path / name / "model.safetensors").write_bytes(weights)
        with pytest.raises(UserError, match=r"Cannot make a transformers model of `.*` .*save_pretrained") as refusal:
            resolve(tmp_path / name, inputs=IDS, folder=tmp_path / "files")
        assert "\n" not in str(refusal.value)
        assert len(str(refusal.value)) < 500
