"""The sizes of a network that was compiled for several."""

from passsearch.report.table import table
from passsearch.results import CompiledSizes, SizeBetween

TITLES = ("size", "a call takes", "ms", "ms of the open function", "deviation")


def size_table(sizes: CompiledSizes, *, width: int) -> str:
    """Return the time of every size that was measured, and what a call of it takes."""
    rows = [(bucket.name, "its own function", _ms(bucket.seconds), "", "") for bucket in sizes.buckets]
    rows += [_between(each, is_padded=sizes.padding is not None) for each in sizes.between]
    return table(TITLES, rows, width=width, right=TITLES[2:])


def _between(size: SizeBetween, *, is_padded: bool) -> tuple[str, ...]:
    name = "x".join(map(str, next(iter(size.inputs.values()))))
    if not is_padded or size.padded_s is None:
        return name, "the open function", _ms(size.open_s), _ms(size.open_s), ""
    return name, f"{size.bucket}, padded", _ms(size.padded_s), _ms(size.open_s), f"{size.deviation:.1g}"


def other_sizes(sizes: CompiledSizes) -> str:
    """Return in words what a call of any other size takes."""
    largest = sizes.buckets[-1].name
    beyond = "the open function" if sizes.open else f"refused: {sizes.open_reason}"
    if sizes.padding is not None:
        return f"padded to the next larger one; beyond {largest} {beyond}"
    return f"{beyond}; not padded: {sizes.padding_reason}" if sizes.open else beyond


def _ms(seconds: float) -> str:
    return f"{1e3 * seconds:.3g}"
