"""Files that are nested more deeply than Python can read, and a sequence without passes, are refused in one line."""

from collections.abc import Callable
from pathlib import Path

import pytest

from passsearch.catalog import load
from passsearch.cli.explore import read_certificate
from passsearch.core import Pipeline
from passsearch.errors import UserError
from passsearch.frontends import resolve
from passsearch.store import RunFolder, read_result

NESTED = "[" * 50_000 + "]" * 50_000
READERS: dict[str, tuple[str, str, Callable[[Path], object]]] = {
    "catalog": ("mine.yaml", f"passes: {NESTED[40_000:60_000]}", lambda path: load("relay", path)),
    "sequence": ("mine.yaml", "sequences: [{name: mine, summary: x}]", lambda path: load("relay", path)),
    "module": ("net.json", f'{{"nodes": {NESTED}, "root": 1}}', lambda path: resolve(path, folder=path.parent)),
    "pipeline": ("pipeline", f"FuseOps{{a={NESTED}}}", lambda path: Pipeline.parse(path.read_text())),
    "settings": ("run.json", NESTED, lambda path: RunFolder(path.parent, {})),
    "result": ("result.json", NESTED, lambda path: read_result(path.parent)),
    "certificate": ("space.json", NESTED, read_certificate),
}


@pytest.mark.parametrize("name", READERS)
def test_a_file_that_cannot_be_read_is_refused_in_a_line(name: str, tmp_path: Path) -> None:
    file, text, read = READERS[name]
    (tmp_path / file).write_text(text)
    with pytest.raises(UserError) as error:
        read(tmp_path / file)
    assert "\n" not in str(error.value) and len(str(error.value)) < 500
