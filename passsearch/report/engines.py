"""The text of a benchmark of engines."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from statistics import fmean, median
from typing import Any

from passsearch.report.formatting import (
    MISSING,
    format_interval,
    format_latency_ms,
    format_megabytes,
    format_number,
    format_percent,
    format_ratio,
    format_time,
    import_text,
    is_above,
    is_below,
    lookup,
)
from passsearch.report.table import paragraph_lines, table, text_width
from passsearch.report.text import device_text
from passsearch.results import Device, Latency, Reference, StatedRatio

NAMES = ("engine",)
"""Titles of the columns with names, which are copied from the terminal."""

NUMBER_TITLES = ("latency ms", "items/s", "throughput", "compile s", "load s", "MB", "deviation", "threads")


def engines_text(document: Mapping[str, Any], *, width: int | None = None) -> str:
    """Return a benchmark: a table for each batch size, and the friction of every engine.

    Args:
        document: A benchmark, as ``api.bench`` returns it.
        width: Largest number of characters in a line; the terminal's width by default.
    """
    width = width or text_width()
    parts = [paragraph_lines(setup_rows(document), width=width)]
    for batch in document["batches"]:
        rows = [row for row in document["rows"] if row["batch"] == batch]
        parts.append(f"batch {batch}\n{_batch_table(rows, width)}")
        titles, cells = further_table(document, rows)
        if cells:
            parts.append(table(titles, cells, width=width, right=titles[1:], whole=NAMES))
        if kernels := kernel_cells(rows):
            parts.append(table(KERNEL_TITLES, kernels, width=width, right=KERNEL_TITLES[1:3], whole=NAMES))
        parts.append(paragraph_lines(remark_rows(rows), width=width))
    titles, frictions = friction_table(document)
    parts.append(table(titles, frictions, width=width, right=titles[1:], whole=NAMES) if frictions else "")
    parts += [paragraph_lines(rows, width=width) for rows in (tail_rows(document), verdict_rows(document))]
    return "\n\n".join(part for part in parts if part)


def setup_rows(document: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield title and text of what was measured, and on which machine."""
    model, plan = document["model"], document["plan"]
    yield "network", f"{model['name']} ({model['source']})"
    device = device_text(Device.from_json(document["device"]))
    yield "device", f"{device}; {document['threads']} threads for every engine"
    yield "date", format_time(document["measured_at"])
    yield "outputs", f"compared with {', '.join(dict.fromkeys(document['references']))}"
    # The proof of one batch size is the proof of the others.
    for toolchain, reference in (document.get("imports") or [{}])[0].items():
        yield f"import by {toolchain}", import_text(Reference.from_json(reference))
    yield "evidence", f"{plan['processes']} processes of every engine, {plan['rounds']} rounds each"
    shares = [each for timing in document["disturbances"] for process in timing for each in process]
    if shares:
        foreign, steal = (format_percent(fmean(share[name] for share in shares)) for name in ("foreign", "steal"))
        yield "machine", f"other processes took {foreign} of the cores meanwhile, the host of a virtual machine {steal}"


def _batch_table(rows: Sequence[Mapping[str, Any]], width: int) -> str:
    cells = [engine_cells(row) for row in rows if "failure" not in row]
    return (
        table(("engine", *NUMBER_TITLES), cells, width=width, right=NUMBER_TITLES, whole=NAMES)
        if cells
        else "no engine has a result"
    )


def engine_cells(row: Mapping[str, Any]) -> list[str]:
    """Return the cells of an engine: its name, and numbers in the order of ``NUMBER_TITLES``."""
    deviation = row["deviation"]
    return [
        str(row["engine"]),
        format_latency_ms(Latency.from_json(row["latency_s"])),
        format_number(row["batch"] / row["latency_s"]["median"]),
        format_ratio(lookup(row, "ratio", "by fastest")),
        format_number(row["compile_s"]),
        format_number(median(row["open_s"])),
        format_megabytes(row["memory_bytes"]),
        MISSING if deviation is None else f"{deviation:.1g}",
        str(row["threads"]),
    ]


def further_table(
    document: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]
) -> tuple[tuple[str, ...], list[list[str]]]:
    """Return titles and cells of what is measured beside latency; a column without any value is left out."""
    counts = document["plan"].get("requests", ())
    columns: dict[str, Callable[[Mapping[str, Any]], str]] = {
        **{f"items/s, {count} at once": partial(_together, str(count)) for count in counts},
        "own threads": lambda row: _own_threads(row.get("own_threads")),
        "accuracy": lambda row: _accuracy(row.get("accuracy")),
        "J": lambda row: format_number(row.get("energy_j")),
        "W": lambda row: format_number(row.get("power_w")),
        "file MB": lambda row: format_megabytes(row.get("artifact_bytes")),
    }
    complete = [row for row in rows if "failure" not in row]
    cells = {title: [cell(row) for row in complete] for title, cell in columns.items()}
    kept = {title: values for title, values in cells.items() if any(value != MISSING for value in values)}
    lines = [[str(row["engine"]), *parts] for row, *parts in zip(complete, *kept.values(), strict=True)] if kept else []
    return ("engine", *kept), lines


KERNEL_TITLES = ("engine", "kernels ms", "share of the fastest", "longest")
LONGEST_KERNELS = 4


def kernel_cells(rows: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """Return for each engine with a profiler the sum of its kernels, its share, and the kernels that take longest."""
    cells = []
    for row in rows:
        if sum_s := lookup(row, "kernels", "sum_s"):
            longest = row["kernels"]["by_name"][:LONGEST_KERNELS]
            texts = [f"{each['name']} {format_number(1e3 * each['seconds'])}" for each in longest]
            share = format_percent(sum_s / row["fastest_s"])
            cells.append([str(row["engine"]), format_number(1e3 * sum_s), share, ", ".join(texts)])
    return cells


def _together(count: str, row: Mapping[str, Any]) -> str:
    rate = lookup(row, "together", count, "inferences_per_s")
    if rate is None:
        return MISSING
    low, high = rate["interval"] or (None, None)
    ends = None if low is None else [row["batch"] * low, row["batch"] * high]
    return format_interval(row["batch"] * rate["median"], ends, decimals=1)


def _accuracy(accuracy: Mapping[str, Any] | None) -> str:
    if accuracy is None:
        return MISSING
    return "failed" if "unavailable" in accuracy else f"{100 * accuracy['value']:.2f} %"


def _own_threads(row: Mapping[str, Any] | None) -> str:
    if row is None:
        return MISSING
    if "failure" in row:
        return "failed"
    return f"{row['threads']}: {format_latency_ms(Latency.from_json(row['latency_s']))} ms"


def remark_rows(rows: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    """Yield the engines without a result, or with a note, and the text."""
    for row in rows:
        if "failure" in row:
            yield str(row["engine"]), f"failed: {row['failure']}"
            continue
        if "note" in row:
            yield str(row["engine"]), str(row["note"])
        if reason := lookup(row, "kernels", "unavailable"):
            yield str(row["engine"]), f"no kernels: {reason}"
        if reason := lookup(row, "accuracy", "unavailable"):
            yield str(row["engine"]), f"no accuracy: {reason}"
        for count, each in row.get("together", {}).items():
            if "unavailable" in each:
                yield str(row["engine"]), f"no throughput with {count} at once: {each['unavailable']}"
        if "failure" in row.get("own_threads", {}):
            yield str(row["engine"]), f"failed with its own number of threads: {row['own_threads']['failure']}"


def friction_table(document: Mapping[str, Any]) -> tuple[tuple[str, str, str], list[tuple[str, str, str]]]:
    """Return the titles and the cells of the friction of every engine; no cells for one batch size."""
    titles = ("engine", "friction", f"removed of {document['baseline']}'s")
    return titles, [
        (name, format_interval(each["value"], each["interval"], decimals=3), _removed(each["removed"]))
        for name, each in document["friction"].items()
    ]


def _removed(share: Mapping[str, Any] | None) -> str:
    if share is None:
        return MISSING
    ends = [format_percent(end) for end in share["interval"] or ()]
    return format_percent(share["value"]) + (f" [{', '.join(ends)}]" if ends else "")


def tail_rows(document: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield title and text of what columns mean, and the versions."""
    yield "throughput", f"multiple of {document['baseline']}, by the fastest inferences, mean over processes"
    yield "MB", "largest memory that loading the network and its first inference add to the process"
    if document["plan"].get("requests"):
        yield "at once", "throughput of that many inferences at the same time; the threads of an engine stay as many"
    for name, reason in document.get("unavailable", {}).items():
        if reason:
            yield name, f"not measured: {reason}"
    versions = [f"{name} {version}" for row in document["rows"] for name, version in row.get("versions", {}).items()]
    if versions:
        # TVM of two toolchains has two versions.
        yield "versions", ", ".join(dict.fromkeys(versions))


def verdict_rows(document: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the verdict on each engine beside the one that ratios refer to: faster, slower or undecided."""
    baseline, several = document["baseline"], len(document["batches"]) > 1
    for row in document["rows"]:
        if row["engine"] == baseline or not isinstance(row.get("ratio"), Mapping):
            continue
        ratios = [StatedRatio.from_json(each) for each in row["ratio"].values()]
        is_faster, is_slower = (all(test(each, 1) for each in ratios) for test in (is_above, is_below))
        what = "faster than" if is_faster else "slower than" if is_slower else "undecided beside"
        numbers = ", ".join(f"{format_ratio(each)} {name}" for name, each in zip(row["ratio"], ratios, strict=True))
        size = f" at batch {row['batch']}" if several else ""
        yield "verdict", f"{row['engine']} is {what} {baseline}{size}: {numbers}"
