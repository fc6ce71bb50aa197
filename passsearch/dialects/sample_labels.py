"""The labels of the user's samples: the right class of each row. numpy only, so that any process can read them."""

from pathlib import Path
from zipfile import BadZipFile

import numpy as np

from passsearch.dialects.case_inputs import LABELS, check_sizes
from passsearch.dialects.contract import Array
from passsearch.errors import UserError

_EXAMPLE = "numpy.save(FILE, labels), one whole number from 0 on for each sample, or for each of its rows"


def read_labels(file: Path) -> Array:
    """Return the labels of a file.

    Raises:
        UserError: There is no such file, or it has no classes.
    """
    try:
        if file.suffix == ".npy":
            labels = np.load(file, allow_pickle=False)
        else:
            check_sizes(file)
            with file.open("rb") as stream, np.load(stream, allow_pickle=False) as archive:
                if LABELS not in archive.files:
                    names = ", ".join(f"`{name}`" for name in archive.files) or "none"
                    raise UserError(f"`{file}` has no array `{LABELS}` (it has {names}); write it: {_EXAMPLE}.")
                labels = archive[LABELS]
    except FileNotFoundError:
        raise UserError(f"There is no file of labels `{file}`; write it: {_EXAMPLE}.") from None
    except (OSError, ValueError, EOFError, BadZipFile) as error:
        reason = " ".join(str(error).split())[:100]
        raise UserError(f"`{file}` is no file of labels ({reason}); write it: {_EXAMPLE}.") from error
    is_whole = labels.dtype.kind in "iu" and labels.size > 0
    if not is_whole or labels.min() < 0:
        what = f"{labels.dtype}{list(labels.shape)}" + (f", the least {labels.min()}" if is_whole else "")
        raise UserError(f"`{file}` has no classes ({what}); write it: {_EXAMPLE}.")
    return np.asarray(labels)


def rows_of_sample(labels: Array, number: int, count: int) -> Array:
    """Return the labels of the rows of one sample out of ``count``."""
    rows: Array = labels.reshape(count, -1)[number]
    return rows


def check_labels(file: Path, *, samples: str, count: int) -> None:
    """Refuse labels that are not of the user's samples.

    Args:
        file: The file of labels.
        samples: The file of samples; empty without one.
        count: Number of samples in it.

    Raises:
        UserError: There are no samples, or the number of labels is not theirs.
    """
    labels = read_labels(file)
    if not count:
        raise UserError(f"The labels in `{file}` are of samples, and there are none; add --samples FILE.npz.")
    if labels.size % count or (labels.ndim > 1 and len(labels) != count):
        shape = f"{labels.size} labels" if labels.ndim == 1 else f"labels of the shape {list(labels.shape)}"
        raise UserError(
            f"`{file}` has {shape}, and `{samples}` has {count} samples; each sample, or each of its rows, needs one: "
            f"{_EXAMPLE}."
        )
