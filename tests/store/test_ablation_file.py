"""An ablation is checked when it is read, and measured anew where its settings differ."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from passsearch.errors import UserError
from passsearch.store import open_ablation, read_ablation

DATA = Path(__file__).parents[1] / "data"
RESULT, ABLATION = (DATA / kind / "resnet_tiny-relax.json" for kind in ("results", "ablations"))


@pytest.fixture
def run(tmp_path: Path) -> Path:
    shutil.copyfile(RESULT, tmp_path / "result.json")
    shutil.copyfile(ABLATION, tmp_path / "ablation.json")
    return tmp_path


def change(run: Path, **values: Any) -> None:
    file = run / "ablation.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **values}))


def test_a_run_without_an_ablation_has_none(run: Path) -> None:
    assert read_ablation(run) is not None
    (run / "ablation.json").unlink()
    assert read_ablation(run) is None


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"schema_version": 2}, "`schema_version` is wrong: 1 was expected"),
        ({"rows": "none"}, "`rows` is wrong"),
        ({"rows": [{"kind": "ladder"}]}, r"`rows\[0\]` lacks a key"),
        ({"minimal": {"pipeline": "A"}}, r"`minimal`"),
        ({"worth_nothing": [3]}, r"`worth_nothing\[0\]` is wrong: 3 is not of type 'string'"),
    ],
)
def test_a_damaged_ablation_is_refused_in_one_line(run: Path, values: dict[str, Any], words: str) -> None:
    change(run, **values)
    with pytest.raises(UserError, match=words) as raised:
        read_ablation(run)
    assert "passsearch ablate" in str(raised.value) and "\n" not in str(raised.value)


def test_text_that_is_not_json_is_refused(run: Path) -> None:
    (run / "ablation.json").write_text("{")
    with pytest.raises(UserError, match="is not JSON"):
        read_ablation(run)


def test_an_ablation_goes_on_only_with_equal_settings(tmp_path: Path) -> None:
    for settings, facts in (({"target": "a"}, 0), ({"target": "a"}, 1), ({"target": "b"}, 0)):
        folder = open_ablation(tmp_path, settings)
        assert len(folder.log.times) == facts
        folder.log.record("samples", "x", fact={})
        folder.close()


@pytest.mark.parametrize("name", ["ablation", "ablation.json.partial"])
def test_a_link_in_the_run_is_not_followed(tmp_path: Path, name: str) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "run" / name).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UserError, match=f"{name}` is a link"):
        open_ablation(tmp_path / "run", {})
    assert list((tmp_path / "elsewhere").iterdir()) == []
