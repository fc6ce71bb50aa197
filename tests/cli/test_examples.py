"""The command ``examples``."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

EXAMPLES = Path(__file__).parents[2] / "examples"
Run = Callable[..., Any]


def names() -> list[str]:
    return sorted(path.name for path in EXAMPLES.iterdir() if path.is_file())


def test_every_example_is_listed_with_a_line_on_its_content(passsearch: Run) -> None:
    rows: list[dict[str, Any]] = json.loads(passsearch("examples", "--json").out)["examples"]
    assert [row["name"] for row in rows] == names()
    assert all(len(row["summary"]) > 10 for row in rows)
    printed = passsearch("examples").out
    assert all(name in printed for name in names())


def test_the_examples_are_copied_as_they_are(passsearch: Run, tmp_path: Path) -> None:
    folder = tmp_path / "new" / "folder"
    assert passsearch("examples", "--to", folder).code == 0
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == {
        name: (EXAMPLES / name).read_bytes() for name in names()
    }


def test_a_copy_that_the_user_changed_is_not_overwritten(passsearch: Run, tmp_path: Path) -> None:
    (tmp_path / "own_pass.py").write_text("mine")
    answer = passsearch("examples", "--to", tmp_path)
    assert answer.code == 2 and "already has `own_pass.py`" in answer.err
    assert [path.name for path in tmp_path.iterdir()] == ["own_pass.py"]
    assert (tmp_path / "own_pass.py").read_text() == "mine"
