"""The sizes of a network that was compiled for several."""

from passsearch.report.table import table
from passsearch.results import CompiledSizes, SizeBetween

TITLES = ("size", "ms", "of the open function", "padded to", "deviation")


def size_table(sizes: CompiledSizes, *, width: int) -> str:
    """Return the time of every size that was measured, by its own function, the open one, and padded."""
    rows = [(bucket.name, _ms(bucket.seconds), "", "", "") for bucket in sizes.buckets]
    rows += [_between(each) for each in sizes.between]
    return table(TITLES, rows, width=width, right=TITLES[1:3])


def _between(size: SizeBetween) -> tuple[str, str, str, str, str]:
    name = "x".join(map(str, next(iter(size.inputs.values()))))
    if size.padded_s is None:
        return name, "", _ms(size.open_s), "", ""
    return name, _ms(size.padded_s), _ms(size.open_s), size.bucket or "", f"{size.deviation:.1g}"


def other_sizes(sizes: CompiledSizes) -> str:
    """Return in words what a call of any other size takes."""
    largest = sizes.buckets[-1].name
    others = "the open function" if sizes.open else f"refused: {sizes.open_reason}"
    if sizes.padding is None:
        return f"{others}; not padded: {sizes.padding_reason}" if sizes.open else others
    ranges = ", ".join(f"{bucket.name} from {bucket.padded_from}" for bucket in sizes.buckets)
    return f"padded where that is faster ({ranges}), else {others}, also beyond {largest}"


def _ms(seconds: float) -> str:
    return f"{1e3 * seconds:.3g}"
