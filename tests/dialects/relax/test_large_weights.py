"""Large weights are mapped from files, which states and artifacts of a run share."""

from pathlib import Path
from typing import Any


def test_large_weights_are_in_one_file_for_all_states_and_artifacts(cases: Any, tmp_path: Path) -> None:
    (answer,) = cases("large_weight_cases.py", str(tmp_path))

    assert answer.pop("right") == [True, True]
    assert answer and all(answer.values()), answer
