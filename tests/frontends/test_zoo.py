"""Tests of the built-in networks."""

from __future__ import annotations

import functools
import sys

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

from passsearch.errors import UserError
from passsearch.frontends.zoo import NETWORKS, build, describe
from passsearch.frontends.zoo.llama import llama
from passsearch.frontends.zoo.mobilenet import mobilenet_v2
from passsearch.frontends.zoo.resnet import resnet
from passsearch.frontends.zoo.ssd import ssd_resnet50
from passsearch.frontends.zoo.transformer import bert, gpt2
from passsearch.frontends.zoo.unet import unet
from passsearch.frontends.zoo.vgg import vgg
from passsearch.frontends.zoo.vit import vit

TINY = ("resnet_tiny", "vgg_tiny", "unet_tiny", "bert_tiny", "vit_tiny", "gpt2_tiny", "llama_tiny", "llama_tiny_decode")
HEAVY = ("vgg19", "vit", "bert_base", "bert_base_16", "gpt2", "llama", "llama_decode", "llama_large_decode")
LIGHT = tuple(name for name in NETWORKS if name not in HEAVY)


@functools.cache
def network(name):
    return build(name)


def feeds(model, seed=0):
    """Random images, random tokens, and a mask that hides the last quarter of each sequence."""
    random = np.random.default_rng(seed)
    values = {}
    for value in model.graph.input:
        shape = input_shape(value)
        if value.name == "attention_mask":
            values[value.name] = np.tile(np.arange(shape[1]) < shape[1] * 3 // 4, (shape[0], 1)).astype(np.int64)
        elif value.name == "image" or value.name.startswith("past_"):
            values[value.name] = random.standard_normal(shape, dtype=np.float32)
        else:
            values[value.name] = random.integers(0, 2, shape)
    return values


def input_shape(value):
    return tuple(dim.dim_value for dim in value.type.tensor_type.shape.dim)


def output_shapes(model):
    return {value.name: input_shape(value) for value in model.graph.output}


def parameter_count(model):
    """Trained values: float arrays, without constants and running statistics."""
    statistics = {name for node in model.graph.node if node.op_type == "BatchNormalization" for name in node.input[3:]}
    return sum(
        int(np.prod(array.dims))
        for array in model.graph.initializer
        if array.data_type == onnx.TensorProto.FLOAT and array.dims and array.name not in statistics
    )


@pytest.mark.parametrize("name", [*TINY, "mobilenet_v2"])
def test_same_arguments_give_the_same_bytes(name):
    assert build(name).SerializeToString() == build(name).SerializeToString()


def test_bytes_do_not_depend_on_the_hash_seed(run_program):
    digests = {run_program("zoo_digest.py", PYTHONHASHSEED=seed) for seed in ("1", "2")}
    assert len(digests) == 1


def test_another_seed_gives_other_weights():
    first, second = (resnet(18, width=8, size=32, seed=seed) for seed in (0, 1))
    assert first.SerializeToString() != second.SerializeToString()


@pytest.mark.parametrize("name", LIGHT)
def test_passes_the_onnx_checker_with_shape_inference(name):
    onnx.checker.check_model(network(name), full_check=True)


@pytest.mark.parametrize("name", TINY)
@pytest.mark.parametrize("batch", [1, 3])
def test_outputs_are_finite_and_spread(name, batch):
    model = build(name, batch=batch)
    outputs = ReferenceEvaluator(model).run(None, feeds(model))
    for output, shape in zip(outputs, output_shapes(model).values(), strict=True):
        assert output.shape == shape
        assert output.dtype == np.float32
        assert np.isfinite(output).all()
        assert output.std() > 0.1


@pytest.mark.parametrize("name", TINY)
def test_outputs_depend_on_the_input(name):
    model = network(name)
    evaluator = ReferenceEvaluator(model)
    first, second = (evaluator.run(None, feeds(model, seed=seed))[0] for seed in (0, 1))
    assert np.abs(first - second).max() > 0.1


def test_activations_neither_vanish_nor_explode_with_depth():
    model = resnet(101, width=4, size=32, classes=10)
    for node in model.graph.node:
        if node.op_type == "Relu":
            model.graph.output.add().name = node.output[0]
    activations = ReferenceEvaluator(model).run(None, feeds(model))[1:]
    deviations = [activation.std() for activation in activations]
    assert len(deviations) == 100
    assert min(deviations) > 0.05
    assert max(deviations) < 20


# Llama answers for its last token only; its own tests are below.
@pytest.mark.parametrize("name", [name for name in TINY if "llama" not in name])
def test_hidden_or_later_tokens_and_batch_neighbours_do_not_change_a_result(name):
    model = build(name, batch=2)
    values = feeds(model)
    changed = {key: value.copy() for key, value in values.items()}
    if "image" in changed:
        changed["image"][1] += 1.0
    else:
        changed["input_ids"][0, 12:] = 7
    # Only the unmasked or earlier tokens of the first sequence, or the first image, are compared.
    part = (0, slice(0, 12)) if "input_ids" in changed else 0
    evaluator = ReferenceEvaluator(model)
    before, after = evaluator.run(None, values)[0], evaluator.run(None, changed)[0]
    np.testing.assert_allclose(before[part], after[part], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("name", "published"),
    # The counts that torchvision's documentation gives for the same networks.
    [("resnet18", 11_689_512), ("resnet34", 21_797_672), ("resnet50", 25_557_032), ("mobilenet_v2", 3_504_872)],
)
def test_parameter_count_of_classifiers(name, published):
    assert parameter_count(network(name)) == published


@pytest.mark.parametrize(("name", "tokens"), [("bert_base", 128), ("bert_base_16", 16)])
def test_bert_base_is_valid_and_has_the_published_size(name, tokens):
    model = build(name)
    assert parameter_count(model) == pytest.approx(109_482_240, rel=0.01)
    assert output_shapes(model) == {"start_logits": (1, tokens), "end_logits": (1, tokens)}
    onnx.checker.check_model(model)


def test_vgg19_has_the_published_size():
    model = build("vgg19")
    # The count of torchvision's documentation.
    assert parameter_count(model) == 143_667_240
    assert output_shapes(model) == {"logits": (1, 1000)}
    onnx.checker.check_model(model)


def test_vit_is_valid_and_has_the_published_size():
    model = build("vit")
    # The count of torchvision's documentation for ViT-B/16.
    assert parameter_count(model) == 86_567_656
    assert output_shapes(model) == {"logits": (1, 1000)}
    onnx.checker.check_model(model)


def test_gpt2_is_valid_and_has_the_published_size():
    model = build("gpt2")
    assert parameter_count(model) == 124_439_808
    assert output_shapes(model) == {"logits": (1, 128, 50257)}
    onnx.checker.check_model(model)


def test_llama_is_valid_and_has_the_size_that_its_table_states():
    model = build("llama")
    assert parameter_count(model) == pytest.approx(100_100_000, rel=0.002)
    assert output_shapes(model)["logits"] == (1, 1, 32000)
    onnx.checker.check_model(model)


def test_llama_continues_a_prompt_with_its_cache():
    sizes = {"layers": 2, "hidden": 32, "heads": 4, "key_heads": 2, "intermediate": 48, "vocabulary": 40}
    tokens = np.random.default_rng(0).integers(0, 40, (1, 8))
    whole = ReferenceEvaluator(llama(**sizes, sequence=8)).run(None, {"input_ids": tokens})
    _, *state = ReferenceEvaluator(llama(**sizes, sequence=7)).run(None, {"input_ids": tokens[:, :7]})
    step = llama(**sizes, sequence=1, cached=7)
    names = [value.name for value in step.graph.input]
    continued = ReferenceEvaluator(step).run(None, dict(zip(names, [tokens[:, 7:], *state], strict=True)))
    for expected, found in zip(whole, continued, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_llama_refuses_heads_that_do_not_divide():
    with pytest.raises(UserError, match="4 heads and 3 heads of keys"):
        llama(layers=1, hidden=32, heads=4, key_heads=3)


def test_gpt2_reads_its_tokens_and_writes_its_logits_by_one_table():
    model = gpt2(layers=1, hidden=32, heads=2, sequence=8, vocabulary=40)
    sizes = [tuple(array.dims) for array in model.graph.initializer]
    assert sizes.count((40, 32)) == 1
    assert (32, 40) not in sizes


@pytest.mark.parametrize("name", LIGHT)
def test_batch_is_the_first_dimension_of_inputs_and_outputs(name):
    model = build(name, batch=2)
    values = [*model.graph.input, *model.graph.output]
    assert {input_shape(value)[0] for value in values} == {2}


@pytest.mark.parametrize(("name", "boxes", "classes"), [("ssd_resnet50", 8732, 81), ("ssd_mobilenet", 1917, 91)])
def test_detectors_give_boxes_and_scores(name, boxes, classes):
    assert output_shapes(network(name)) == {"boxes": (1, boxes, 4), "scores": (1, boxes, classes)}


def test_detector_runs():
    model = ssd_resnet50(width=4, classes=5)
    boxes, scores = ReferenceEvaluator(model).run(None, feeds(model))
    assert boxes.std() > 0.1
    np.testing.assert_allclose(scores.sum(axis=-1), 1.0, rtol=1e-4)


def test_mobilenet_width_multiplier_changes_the_channels():
    model = mobilenet_v2(width_multiplier=0.35, size=32, classes=10)
    outputs = ReferenceEvaluator(model).run(None, feeds(model))
    assert parameter_count(model) < parameter_count(network("mobilenet_v2")) / 2
    assert np.isfinite(outputs[0]).all()


def test_token_types_can_be_an_input():
    options = {"layers": 1, "hidden": 32, "heads": 2, "sequence": 8, "vocabulary": 20}
    model = bert(token_types=True, **options)
    assert [value.name for value in model.graph.input] == ["input_ids", "attention_mask", "token_type_ids"]
    onnx.checker.check_model(model, full_check=True)


@pytest.mark.parametrize("name", LIGHT)
def test_described_inputs_are_those_of_the_graph(name):
    kinds = {onnx.TensorProto.FLOAT: "float32", onnx.TensorProto.INT64: "int64"}
    inputs = [
        f"{value.name}: {kinds[value.type.tensor_type.elem_type]}{list(input_shape(value))}"
        for value in network(name).graph.input
    ]
    assert NETWORKS[name].inputs == ", ".join(inputs)
    assert describe(name).startswith(name)


@pytest.mark.parametrize("call", [build, describe])
def test_unknown_name_suggests_the_nearest(call):
    with pytest.raises(UserError, match="`resnet5O`; did you mean `resnet50`") as refusal:
        call("resnet5O")
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: build("resnet_tiny", batch=0), "Batch size must be 1 or more, got 0"),
        (lambda: resnet(20), "Unknown ResNet depth 20; choose one of 18, 34, 50, 101"),
        (lambda: vgg(12), "Unknown VGG depth 12; choose one of 11, 13, 16, 19"),
        (lambda: bert(hidden=10, heads=3), "Hidden size must be a multiple of heads, got 10 and 3"),
        (lambda: bert(sequence=513), "Sequence length must be 1 to 512, got 513"),
        (lambda: unet(size=250), "Image size must be a multiple of 16, got 250; give for example 256"),
        (lambda: vit(size=225), "Image size must be a multiple of 16, got 225; give for example 128"),
        (lambda: vit(heads=7), "Hidden size must be a multiple of 7, got 768; give for example 56"),
        (lambda: gpt2(sequence=1025), "Sequence length must be 1 to 1024, got 1025"),
    ],
)
def test_impossible_sizes_are_refused(call, message):
    with pytest.raises(UserError, match=message):
        call()


def test_without_onnx_the_table_is_read_and_building_says_what_to_install(monkeypatch):
    for module in list(sys.modules):
        if module.startswith("passsearch.frontends.zoo."):
            monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "onnx", None)
    from passsearch.frontends.zoo.networks import build as fresh_build
    from passsearch.frontends.zoo.networks import describe as fresh_describe

    assert "float32" in fresh_describe("resnet18")
    with pytest.raises(UserError, match="need `onnx`, which is not installed; run: pip install onnx"):
        fresh_build("resnet_tiny")


@pytest.mark.parametrize("block", ["residual", "depthwise", "encoder"])
def test_a_repeated_block_is_that_often_in_the_network(block):
    one, three = (build(f"{block}_x{times}") for times in (1, 3))
    assert len(three.graph.node) == 3 * len(one.graph.node)
    assert input_shape(three.graph.input[0]) == input_shape(three.graph.output[0])
    (result,) = ReferenceEvaluator(three).run(
        None, {"features": np.ones(input_shape(three.graph.input[0]), np.float32)}
    )
    assert np.isfinite(result).all()


def test_no_block_is_repeated_no_times():
    with pytest.raises(UserError, match="residual_xN"):
        build("residual_x0")
