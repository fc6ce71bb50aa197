import pytest

from passsearch.analysis import ClassRule, classify
from passsearch.core import Feature, Fingerprint
from passsearch.errors import UserError

FEATURES = Fingerprint(
    {
        "sibling_dense": Feature(8, 42, "groups of 3"),
        "dense": Feature(32, 40),
        "attention": Feature(2, 50),
        "pool": Feature(0),
    }
)


def rule(when, name="X"):
    return ClassRule.from_json({"name": name, "title": "a kind of network", "when": when})


def classes(*rules):
    return {label.name: label.evidence for label in classify(FEATURES, rules)}


def test_evidence_is_filled_in_from_the_feature():
    text = "{count} sibling dense {detail}, first at %{first}"
    when = {"feature": "sibling_dense", "min": 8, "evidence": text}
    assert classes(rule(when)) == {"X": ("8 sibling dense groups of 3, first at %42",)}


def test_a_ratio_compares_two_counts():
    when = {"ratio": ["sibling_dense", "dense"], "min": 0.25, "evidence": "{part} of {whole} are {percent} %"}
    assert classes(rule(when)) == {"X": ("8 of 32 are 25 %",)}


@pytest.mark.parametrize(
    ("when", "holds"),
    [
        ({"feature": "attention", "min": 3}, False),
        ({"feature": "attention", "max": 1}, False),
        ({"feature": "attention", "max": 2}, True),
        ({"feature": "pool"}, False),
        ({"feature": "pool", "min": 0}, True),
        ({"ratio": ["dense", "pool"], "min": 0.1}, False),
        ({"ratio": ["sibling_dense", "dense"], "min": 0.26}, False),
        ({"not": {"feature": "pool"}}, True),
        ({"not": {"feature": "attention"}}, False),
        ({"all": [{"feature": "attention"}, {"feature": "dense"}]}, True),
        ({"all": [{"feature": "attention"}, {"feature": "pool"}]}, False),
        ({"any": [{"feature": "pool"}, {"feature": "dense"}]}, True),
        ({"any": [{"feature": "pool"}, {"not": {"feature": "dense"}}]}, False),
    ],
)
def test_conditions(when, holds):
    assert ("X" in classes(rule(when))) is holds


def test_several_classes_may_apply_and_any_gives_the_evidence_that_holds():
    either = {"any": [{"feature": "pool"}, {"feature": "dense"}]}
    labels = classes(rule(either, "A"), rule({"feature": "attention"}, "B"), rule({"feature": "pool"}, "C"))
    assert labels == {"A": ("32 dense, first at %40",), "B": ("2 attention, first at %50",)}


def test_unknown_says_what_the_network_lacks_for_each_class():
    both = {"all": [{"feature": "pool", "min": 3}, {"feature": "dense"}, {"not": {"feature": "attention"}}]}
    (line,) = classes(rule(both))["unknown"]
    assert line == ("not X (a kind of network): 0 `pool`, at least 3 needed; it has 2 attention, first at %50")


def test_no_rules_make_everything_unknown():
    assert classes() == {"unknown": ("the catalog has no class rules",)}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"name": "X"}, "`when`"),
        ({"name": "X", "when": {"features": "dense"}}, "features"),
        ({"name": "X", "when": {"feature": "dense", "least": 2}}, "least"),
        ({"name": "X", "when": {"feature": "dense", "min": "two"}}, "number"),
        ({"name": "X", "when": {"feature": "dense", "min": 0.5}}, "whole number"),
        ({"name": "X", "when": {"feature": "dense", "max": 1.5}}, "whole number"),
        ({"name": "X", "when": {"ratio": ["dense"], "min": 1}}, "ratio"),
        ({"name": "X", "when": {"ratio": ["dense", "pool"]}}, "number"),
        ({"name": "X", "when": {"all": []}}, "list"),
        ({"name": "X", "when": {"not": "dense"}}, "mapping"),
        ({"name": "X", "when": {"feature": "dense", "evidence": "{counts}"}}, "counts"),
        ({"name": "X", "when": {"feature": "dense", "evidence": "{first.name}"}}, "name"),
        ({"name": "X", "when": {"feature": "dense", "evidence": "{detail:d}"}}, "format code"),
    ],
)
def test_a_malformed_rule_is_refused_by_name(data, message):
    with pytest.raises(UserError, match=message) as error:
        ClassRule.from_json(data)
    assert "`X`" in str(error.value)


@pytest.mark.parametrize(
    ("several", "one"),
    [
        ("convolutions", "convolution"),
        ("residual adds, first at %{first}", "residual add, first at %0"),
        ("look-ups in tables", "look-up in tables"),
        ("attention patterns behind a convolution of images", "attention pattern behind a convolution of images"),
    ],
)
def test_one_of_a_feature_is_not_several(several: str, one: str) -> None:
    condition = {"feature": "feature", "evidence": f"{{count}} {several}"}
    [label] = classify(Fingerprint({"feature": Feature(1, 0)}), [rule(condition)])
    assert label.evidence == (f"1 {one}",)
