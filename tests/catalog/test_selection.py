import pytest

from passsearch.catalog import Catalog, Selection, load, select_passes
from passsearch.core import Feature, Fingerprint
from passsearch.errors import UserError

RESNET = ("batch_norm", "residual_add", "explicit_padding")
BERT = ("attention", "layer_norm", "sibling_dense", "transpose_dense", "fast_math_activation")


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    return load("relay")


def fingerprint_with(*names: str) -> Fingerprint:
    return Fingerprint({name: Feature(count=2, first=1) for name in names})


def reasons(selection: Selection) -> dict[str, str]:
    return {entry.name: reason for entry, reason in selection.others}


def test_every_pass_is_either_a_candidate_or_not(catalog: Catalog) -> None:
    selection = select_passes(catalog, ["RN"], fingerprint=fingerprint_with(*RESNET))
    assert sorted([*selection.names(), *reasons(selection)]) == sorted(catalog.entries)


@pytest.mark.parametrize(("name", "features"), [("RN", RESNET), ("BR", BERT), ("MN", ()), ("SSD", ())])
def test_a_class_shrinks_the_set(catalog: Catalog, name: str, features: tuple[str, ...]) -> None:
    fingerprint = fingerprint_with(*features)
    everything = select_passes(catalog, ["unknown"], fingerprint=fingerprint)
    selection = select_passes(catalog, [name], fingerprint=fingerprint)
    assert set(selection.names()) < set(everything.names())


def test_a_pass_without_its_feature_is_no_candidate(catalog: Catalog) -> None:
    dropped = reasons(select_passes(catalog, ["RN"], fingerprint=fingerprint_with("batch_norm")))
    assert dropped["FoldExplicitPadding"] == "needs explicit padding; this graph has none that depends on its input"


def test_a_pass_of_another_class_is_no_candidate(catalog: Catalog) -> None:
    dropped = reasons(select_passes(catalog, ["BR"], fingerprint=fingerprint_with(*BERT)))
    serves = "RN and MN and SSD and PLAIN and DENSE and GROUPED and VIT"
    assert dropped["ConvertLayout"] == f"serves {serves}; this network is BR"


def test_a_candidate_has_a_reason(catalog: Catalog) -> None:
    kept = {
        entry.name: reason
        for entry, reason in select_passes(catalog, ["BR"], fingerprint=fingerprint_with(*BERT)).candidates
    }
    assert kept["SimplifyFCTranspose"] == "serves BR; 2 x transpose dense"


def test_classes_unite(catalog: Catalog) -> None:
    fingerprint = fingerprint_with(*RESNET)
    both = select_passes(catalog, ["RN", "SSD"], fingerprint=fingerprint).names()
    single = [select_passes(catalog, [name], fingerprint=fingerprint).names() for name in ("RN", "SSD")]
    assert set(both) == set(single[0]) | set(single[1])


def test_every_valid_pass_is_a_candidate_for_an_unknown_network(catalog: Catalog) -> None:
    selection = select_passes(catalog, ["unknown"], fingerprint=fingerprint_with())
    valid = {entry.name for entry in catalog.entries.values() if entry.role == "candidate"}
    assert set(selection.names()) == valid


def test_additional_passes_are_candidates_only_on_request(catalog: Catalog) -> None:
    fingerprint = fingerprint_with(*RESNET)
    dropped = reasons(select_passes(catalog, ["RN"], fingerprint=fingerprint))
    assert dropped["ToMixedPrecision"].startswith("only on request: ")
    selection = select_passes(catalog, ["RN"], fingerprint=fingerprint, requested_passes=["ToMixedPrecision"])
    assert "ToMixedPrecision" in selection.names()


def test_a_requested_pass_must_exist(catalog: Catalog) -> None:
    with pytest.raises(UserError, match="did you mean `ToMixedPrecision`"):
        select_passes(catalog, ["RN"], fingerprint=fingerprint_with(), requested_passes=["ToMixedPrecison"])


def test_passes_that_the_compiler_lacks_are_no_candidates(catalog: Catalog) -> None:
    dropped = reasons(select_passes(catalog, ["RN"], fingerprint=fingerprint_with(), tvm_version="0.8.0"))
    assert dropped["DivToMul"] == "needs TVM >=0.12,<0.20; this is 0.8.0"


@pytest.mark.parametrize("name", ["SimplifyInference", "FoldConstant", "AlterOpLayout", "FuseOps"])
@pytest.mark.parametrize("label", ["RN", "MN", "SSD", "BR", "unknown"])
def test_passes_of_every_good_sequence_are_always_candidates(catalog: Catalog, label: str, name: str) -> None:
    assert name in select_passes(catalog, [label], fingerprint=fingerprint_with()).names()
