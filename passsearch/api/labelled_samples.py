"""The labelled samples that ``bench`` judges the accuracy of engines by."""

from collections.abc import Mapping
from pathlib import Path
from zipfile import BadZipFile

import numpy as np

from passsearch.core import TensorType
from passsearch.dialects.case_inputs import check_sizes
from passsearch.errors import UserError


def check_samples(file: Path, types: Mapping[str, TensorType]) -> None:
    """Raise an error unless a file has labels, and samples for all inputs."""
    try:
        check_sizes(file)
        with file.open("rb") as opened:
            content = np.load(opened)
            arrays = ((name, content[name]) for name in getattr(content, "files", ()))
            kinds = {name: (array.shape, array.dtype) for name, array in arrays}
    except (OSError, ValueError, EOFError, BadZipFile) as error:
        raise UserError(f"Cannot read `{file}` as a NumPy file (.npz): {error}") from error
    shapes = {name: shape for name, (shape, _) in kinds.items()}
    if missing := [name for name in ("labels", *types) if name not in shapes]:
        raise UserError(
            f"`{file}` needs an array `{missing[0]}`; it has {', '.join(shapes) or 'none'}. Write it with numpy.savez: "
            "one array for each input, many samples in its first dimension, and `labels`, a number for each sample."
        )
    if len(shapes["labels"]) != 1:
        raise UserError(
            f"`labels` of `{file}` has the shape {shapes['labels']}; one number for each sample is needed. "
            "Write it with .reshape(-1)."
        )
    for name, kind in types.items():
        if shapes[name][1:] != tuple(kind.shape[1:]) or shapes[name][:1] != shapes["labels"]:
            raise UserError(
                f"`{name}` of `{file}` has the shape {shapes[name]}; the network takes {tuple(kind.shape)}, and there "
                f"are {shapes['labels'][0]} labels."
            )
        if (dtype := kinds[name][1]) != kind.dtype:
            raise UserError(
                f"`{name}` of `{file}` is {dtype}; the network takes {kind.dtype}. Write it with "
                f".astype('{kind.dtype}')."
            )
        if shapes[name][:1] < tuple(kind.shape[:1]):  # both are empty for a scalar
            raise UserError(f"`{file}` has {shapes[name][0]} samples, and the batch size is {kind.shape[0]}; add some.")
