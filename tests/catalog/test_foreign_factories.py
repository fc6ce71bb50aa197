"""A factory that a file names is used only if the catalog has the same, or if the user trusts the file."""

import logging
from pathlib import Path

import pytest

from passsearch.catalog import check_factories, load
from passsearch.core import Pipeline
from passsearch.dialects import DIALECTS
from passsearch.errors import UserError
from passsearch.evaluate import find_options

FILE = Path("run/result.json")
CATALOG = load(next(iter(DIALECTS)))
ENTRY = next(iter(CATALOG.entries.values()))


def check(factories: dict[str, str], *, trust: bool = False, pipeline: str | None = None) -> dict[str, str]:
    steps = Pipeline.parse(pipeline or ",".join(factories))
    return check_factories(steps, factories, CATALOG, file=FILE, trust=trust)


def test_the_catalogs_own_factory_is_used() -> None:
    assert check({ENTRY.name: ENTRY.factory}) == {ENTRY.name: ENTRY.factory}


def test_a_factory_of_an_earlier_version_is_todays() -> None:
    earlier = {"ScheduleCPU": "passsearch.dialects.relax.schedules:ScheduleCPU"}
    today = {"ScheduleCPU": "passsearch.standalone.relax.cpu_schedules:ScheduleCPU"}
    steps, catalog = Pipeline.parse("ScheduleCPU"), load("relax")
    assert check_factories(steps, earlier, catalog, file=FILE, trust=False) == today


@pytest.mark.parametrize("factory", ["os:system", "passsearch.dialects.shared:load_function", ""])
@pytest.mark.parametrize("name", [ENTRY.name, "Unknown"])
def test_another_factory_is_refused_with_file_pass_and_function(name: str, factory: str) -> None:
    with pytest.raises(UserError) as refusal:
        check({name: factory})
    text = str(refusal.value)
    assert all(word in text for word in (f"`{FILE}`", f"`{name}`", f"`{factory}`", "--catalog FILE", "--trust"))
    assert "\n" not in text


def test_a_trusted_file_says_first_what_it_runs(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert check({"Mine": "mine:Mine"}, trust=True) == {"Mine": "mine:Mine"}
    assert "`mine:Mine`" in caplog.text and str(FILE) in caplog.text


def test_the_users_catalog_approves_its_own_passes(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("passes:\n  - {name: Mine, summary: mine, factory: 'mine:Mine', opt_level: 0}\n")
    steps, catalog = Pipeline.parse("Mine"), load(CATALOG.dialect, file)
    assert check_factories(steps, {"Mine": "mine:Mine"}, catalog, file=FILE, trust=False) == {"Mine": "mine:Mine"}
    with pytest.raises(UserError, match="other:Mine"):
        check_factories(steps, {"Mine": "other:Mine"}, catalog, file=FILE, trust=False)


def test_a_pass_that_uses_a_folder_needs_trust() -> None:
    pipeline = f'{ENTRY.name}{{work_dir="/home/else/tuning_logs"}}'
    with pytest.raises(UserError, match=r"uses the folder `/home/else/tuning_logs`.*--trust"):
        check({ENTRY.name: ENTRY.factory}, pipeline=pipeline)
    assert check({ENTRY.name: ENTRY.factory}, pipeline=pipeline, trust=True)


@pytest.mark.parametrize(
    "arguments",
    [
        'fget_item="runtime.load"',
        'folders=["/tmp/x"]',
        'folders={"a": "/tmp/x"}',
        'target="llvm -cl-opt=-info-output-file=x"',
        r'target="{\"kind\": \"llvm\", \"cl\\u002dopt\": []}"',
    ],
)
def test_arguments_that_name_functions_folders_and_options_need_trust(arguments: str) -> None:
    with pytest.raises(UserError, match=r"uses the (function|folder|text) .*--trust"):
        check({ENTRY.name: ENTRY.factory}, pipeline=f"{ENTRY.name}{{{arguments}}}")


def test_other_texts_are_arguments() -> None:
    pipeline = f'{ENTRY.name}{{layouts={{"nn.conv2d": ["NCHW16c", "default"]}},rows=28,name="add"}}'
    assert check({ENTRY.name: ENTRY.factory}, pipeline=pipeline)


def test_a_pass_without_a_factory_is_refused() -> None:
    with pytest.raises(UserError, match="has no `module:function` for pass `Mine`"):
        check({}, pipeline="Mine", trust=True)


@pytest.mark.parametrize(
    ("target", "has_options"),
    [
        ("llvm -mcpu=znver4", False),
        ("llvm -cl-opt=-info-output-file=/tmp/x", True),
        ('{"kind": "llvm", "cl\\u002dopt": ["-info-output-file=/tmp/x"]}', True),
        ('{"kind": "llvm"}', False),
        ("{broken -cl-opt", True),
    ],
)
def test_options_of_llvm_in_a_target_are_found(target: str, has_options: bool) -> None:
    assert bool(find_options(target)) is has_options
