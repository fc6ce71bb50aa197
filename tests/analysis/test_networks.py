"""Tests on whole networks as real exporters write them; `make_summaries.py` produces the summaries."""

import gzip
import json
from functools import cache
from pathlib import Path

import pytest
import yaml

from passsearch.analysis import ClassRule, classify, compute_fingerprint, feature_names
from passsearch.core import ModuleSummary

DATA = Path(__file__).parent / "data"
CATALOG = Path(__file__).parents[2] / "pass_catalog"
RULES = tuple(
    ClassRule.from_json(rule) for rule in yaml.safe_load((CATALOG / "relay" / "classes.yaml").read_text())["classes"]
)

CLASSES = {
    "resnet_basic": {"RN"},
    "resnet_preactivated": {"RN"},
    "resnext": {"RN", "GROUPED"},
    "mobilenet_v1": {"MN"},
    "mobilenet_v3": {"MN"},
    "ssd_resnet": {"RN", "SSD"},
    "ssd_resnet_list": {"RN", "SSD"},
    "ssd_resnet_maps": {"RN", "SSD"},
    "ssd_vgg": {"SSD", "PLAIN"},
    "yolo": {"RN", "SSD"},
    "bert": {"BR"},
    "distilbert": {"BR"},
    "mobilebert": {"BR"},
    "gpt2": {"BR", "DECODER"},
    "llama": {"BR", "DECODER"},
    "vit": {"BR", "VIT"},
    "unet_supervised": {"unknown"},
    "unet_flattened": {"unknown"},
    "densenet": {"DENSE"},
    "inception": {"unknown"},
    "convnext": {"unknown"},
    "mixer": {"unknown"},
    "lstm": {"unknown"},
    "gru": {"unknown"},
    "lstm_attention": {"unknown"},
    "recommender": {"RECO"},
    "residual_perceptron": {"unknown"},
    "shufflenet": {"MN", "GROUPED"},
    "vgg": {"PLAIN"},
    "wide_and_deep": {"RECO"},
    "collaborative_filter": {"RECO"},
    "opt": {"BR", "DECODER"},
    "bert_masked_lm": {"BR"},
    "albert": {"BR"},
    "levit": {"BR", "VIT"},
    "mobilevit": {"BR", "MN", "VIT"},
    "segformer": {"BR", "VIT"},
    "regnet": {"RN", "GROUPED"},
    "poolformer": {"unknown"},
}


@cache
def summary(name):
    return ModuleSummary.from_json(json.loads(gzip.decompress((DATA / f"{name}.json.gz").read_bytes())))


@cache
def features(name):
    return compute_fingerprint(summary(name))


def evidence(name, architecture):
    labels = {label.name: label.evidence for label in classify(features(name), RULES)}
    return "; ".join(labels[architecture])


@pytest.mark.parametrize(("name", "classes"), CLASSES.items())
def test_classes_of_real_networks(name, classes):
    assert {label.name for label in classify(features(name), RULES)} == classes


def test_every_summary_has_an_expected_class():
    assert {path.name.removesuffix(".json.gz") for path in DATA.glob("*.json.gz")} == set(CLASSES)


def test_rules_refer_to_existing_features():
    assert {name for rule in RULES for name in rule.features()} <= feature_names()


def test_evidence_has_counts_and_details():
    assert evidence("resnet_basic", "RN").startswith(
        "6 residual adds around spatial convolutions (4 identity, 2 projected), first at %"
    )
    assert "kernels 3x3, 5x5" in evidence("mobilenet_v3", "MN")
    assert "prediction heads on 4 resolutions of one backbone (16x16, 8x8, 4x4, 2x2)" in evidence("ssd_resnet", "SSD")
    assert "2 attention patterns" in evidence("bert", "BR")


def test_unknown_lists_the_missing_features_of_each_class():
    text = evidence("inception", "unknown")
    for rule in RULES:
        assert f"not {rule.name} ({rule.title}): " in text
    assert "0 `residual_convolution`, at least 3 needed" in text


@pytest.mark.parametrize(
    ("name", "feature", "expected"),
    [
        ("bert", "layer_norm_chain", 5),
        ("bert", "activation_gelu", 2),
        ("bert", "repeated_block", 2),
        ("llama", "rms_norm", 5),
        ("llama", "activation_silu", 2),
        ("mobilenet_v3", "activation_hard_sigmoid", 13),
        ("resnext", "grouped_convolution", 12),
        ("mixer", "residual_dense", 8),
        ("lstm", "residual_add", 0),
        ("unet_flattened", "resample", 3),
    ],
)
def test_features_of_real_networks(name, feature, expected):
    assert features(name).count(feature) == expected


def test_a_summary_from_json_has_the_same_fingerprint():
    restored = ModuleSummary.from_json(json.loads(json.dumps(summary("yolo").to_json())))
    assert compute_fingerprint(restored).to_json() == features("yolo").to_json()
