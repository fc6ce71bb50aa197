"""Every benchmark still finds what it needs of the package."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2] / "benchmarks"
FILES = sorted(path.relative_to(ROOT).with_suffix("") for path in ROOT.rglob("*.py") if path.stem != "__init__")


@pytest.mark.parametrize("file", FILES, ids=str)
def test_a_benchmark_is_imported(file: Path, load_benchmark: Callable[[str], Any]) -> None:
    try:
        load_benchmark(".".join(file.parts))
    except ModuleNotFoundError as error:
        if str(error.name).startswith(("passsearch", "benchmarks")):
            raise
        pytest.skip(f"needs {error.name}")
