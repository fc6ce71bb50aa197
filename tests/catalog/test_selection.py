import pytest

from passsearch.catalog import Catalog, Selection, candidates, load
from passsearch.core import Feature, Fingerprint
from passsearch.errors import UserError

RESNET = ("batch_norm", "residual_add", "explicit_padding")
BERT = ("attention", "layer_norm", "sibling_dense", "transpose_dense", "fast_math_activation")


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    return load("relay")


def having(*names: str) -> Fingerprint:
    return Fingerprint({name: Feature(count=2, first=1) for name in names})


def reasons(selection: Selection) -> dict[str, str]:
    return {entry.name: reason for entry, reason in selection.dropped}


def test_every_pass_is_either_kept_or_dropped(catalog: Catalog) -> None:
    selection = candidates(catalog, ["RN"], fingerprint=having(*RESNET))
    assert sorted([*selection.names(), *reasons(selection)]) == sorted(catalog.entries)


@pytest.mark.parametrize(("name", "features"), [("RN", RESNET), ("BR", BERT), ("MN", ()), ("SSD", ())])
def test_a_class_shrinks_the_set(catalog: Catalog, name: str, features: tuple[str, ...]) -> None:
    fingerprint = having(*features)
    everything = candidates(catalog, ["unknown"], fingerprint=fingerprint)
    ours = candidates(catalog, [name], fingerprint=fingerprint)
    assert set(ours.names()) < set(everything.names())


def test_a_pass_without_its_feature_is_dropped_with_the_reason(catalog: Catalog) -> None:
    dropped = reasons(candidates(catalog, ["RN"], fingerprint=having("batch_norm")))
    assert dropped["FoldExplicitPadding"] == "needs explicit padding; this graph has none"


def test_a_pass_of_another_class_is_dropped_with_the_reason(catalog: Catalog) -> None:
    dropped = reasons(candidates(catalog, ["BR"], fingerprint=having(*BERT)))
    assert dropped["ConvertLayout"] == "serves RN and MN and SSD; this network is BR"


def test_a_kept_pass_says_why(catalog: Catalog) -> None:
    kept = {entry.name: reason for entry, reason in candidates(catalog, ["BR"], fingerprint=having(*BERT)).kept}
    assert kept["SimplifyFCTranspose"] == "serves BR; 2 x transpose dense"


def test_classes_unite(catalog: Catalog) -> None:
    fingerprint = having(*RESNET)
    both = candidates(catalog, ["RN", "SSD"], fingerprint=fingerprint).names()
    each = [candidates(catalog, [name], fingerprint=fingerprint).names() for name in ("RN", "SSD")]
    assert set(both) == set(each[0]) | set(each[1])


def test_an_unknown_network_keeps_every_valid_pass(catalog: Catalog) -> None:
    selection = candidates(catalog, ["unknown"], fingerprint=having())
    valid = {entry.name for entry in catalog.entries.values() if entry.role == "candidate"}
    assert set(selection.names()) == valid


def test_passes_of_the_users_intent_are_off_until_asked_for(catalog: Catalog) -> None:
    fingerprint = having(*RESNET)
    dropped = reasons(candidates(catalog, ["RN"], fingerprint=fingerprint))
    assert dropped["ToMixedPrecision"].startswith("only on request: ")
    asked = candidates(catalog, ["RN"], fingerprint=fingerprint, wanted=["ToMixedPrecision"])
    assert "ToMixedPrecision" in asked.names()


def test_a_wanted_pass_must_exist(catalog: Catalog) -> None:
    with pytest.raises(UserError, match="did you mean `ToMixedPrecision`"):
        candidates(catalog, ["RN"], fingerprint=having(), wanted=["ToMixedPrecison"])


def test_passes_the_compiler_lacks_are_dropped(catalog: Catalog) -> None:
    dropped = reasons(candidates(catalog, ["RN"], fingerprint=having(), tvm_version="0.8.0"))
    assert dropped["DivToMul"] == "needs TVM >=0.12,<0.20; this is 0.8.0"


@pytest.mark.parametrize("name", ["SimplifyInference", "FoldConstant", "AlterOpLayout", "FuseOps"])
@pytest.mark.parametrize("label", ["RN", "MN", "SSD", "BR", "unknown"])
def test_the_backbone_of_every_good_sequence_is_always_a_candidate(catalog: Catalog, label: str, name: str) -> None:
    assert name in candidates(catalog, [label], fingerprint=having()).names()
