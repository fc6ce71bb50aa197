"""Networks and types in requests."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from passsearch.core import Case, TensorType
from passsearch.dialects.contract import ModelSource


def source_of(data: Mapping[str, Any]) -> ModelSource:
    """Return the model file that a request describes."""
    parameters = Path(data["parameters"]) if "parameters" in data else None
    cases = tuple(Case.from_json(case) for case in data.get("cases", ()))
    return ModelSource(
        Path(data["path"]),
        data["format"],
        types_of(data["inputs"]),
        data.get("batch"),
        parameters,
        function=data.get("function", ""),
        cases=cases,
        case_paths={name: Path(path) for name, path in data.get("case_paths", {}).items()},
        original=data.get("original", ""),
    )


def types_of(data: Mapping[str, Any]) -> dict[str, TensorType]:
    """Return types by name of the input."""
    return {name: TensorType(tuple(shape), dtype) for name, (shape, dtype) in data.items()}


def types_to_json(types: Mapping[str, TensorType]) -> dict[str, Any]:
    """Return types in the form of requests."""
    return {name: [list(kind.shape), kind.dtype] for name, kind in types.items()}
