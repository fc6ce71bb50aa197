"""A feature that a catalog names must exist: no network would have a mistyped one."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from passsearch.analysis import feature_names
from passsearch.catalog import load
from passsearch.core import ModuleSummary
from passsearch.errors import UserError
from passsearch.search import analyze_network

PASS = {"name": "Mine", "summary": "Does mine.", "factory": "mine:mine", "opt_level": 2}
SEQUENCE = {"name": "short", "summary": "Few passes.", "pipeline": "FuseOps"}
TYPO = "batch_nrom"


def analyze(folder: Path, **sections: Any) -> None:
    path = folder / "mine.yaml"
    path.write_text(yaml.safe_dump(sections))
    toolchain = SimpleNamespace(tvm_version="0.16")
    session: Any = SimpleNamespace(catalog=load("relay", path), toolchain=toolchain, device_kind="cpu")
    analyze_network(session, ModuleSummary((), ()))


@pytest.mark.parametrize(
    ("sections", "place"),
    [
        ({"passes": [{**PASS, "features": [TYPO]}]}, "mine.yaml`, pass `Mine`, field `features`"),
        ({"passes": [{**PASS, "needs": [{"pass": "FuseOps", "when": TYPO}]}]}, "pass `Mine`, field `needs.when`"),
        ({"sequences": [{**SEQUENCE, "features": [TYPO]}]}, "sequence `short`, field `features`"),
        ({"classes": [{"name": "XN", "when": {"not": {"feature": TYPO}}}]}, "Class rule `XN`"),
    ],
)
def test_a_mistyped_feature_is_refused_with_its_place(tmp_path: Path, sections: Any, place: str) -> None:
    with pytest.raises(UserError) as error:
        analyze(tmp_path, **sections)
    assert f"{place}: unknown feature `{TYPO}`; did you mean `batch_norm`?" in str(error.value)


def test_a_feature_like_no_other_gets_the_list_of_all(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="features are: ") as error:
        analyze(tmp_path, passes=[{**PASS, "features": ["zzz"]}])
    assert all(name in str(error.value) for name in feature_names())


def test_features_that_exist_are_accepted(tmp_path: Path) -> None:
    analyze(tmp_path, passes=[{**PASS, "features": ["batch_norm"]}])
