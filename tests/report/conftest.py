import json
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def result() -> dict[str, Any]:
    """A result with every key, as ``tune`` writes it."""
    document: dict[str, Any] = json.loads((Path(__file__).parent / "data" / "result.json").read_text())
    return document
