"""What the passes of winners are worth: ``python benchmarks/ablations.py``.

For each network it tunes, ablates the winner until it is decided what each pass is worth, profiles baseline and winner,
and writes a row to ``benchmarks/results/ablations.json``: the headline, the worth of each pass with the interval of
what it multiplies, the passes worth nothing, and the sum of the kernels as a share of the end-to-end time. A network
takes ten minutes at most, and a few more where the machine is busy. Runs stay under ``runs/ablations``: the same
command after an interruption goes on where it was, and repeats no row that is complete. ``--table`` measures nothing
and writes the rows into ``docs/evidence/ablation.md``.
"""

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from provenance import network_session, read_rows, write_part, write_row

import passsearch

ROOT = Path(__file__).parent
RESULTS = ROOT / "results" / "ablations.json"
RUNS = ROOT.parent / "runs" / "ablations"
PAGE = ROOT.parent / "docs" / "evidence" / "ablation.md"
CASES = ("relay:zoo:resnet18", "relax:zoo:resnet18", "relax:zoo:bert_tiny")

MOST_DEVIATION = 0.1
"""Largest deviation of the sum of kernels from the end-to-end time, as a share of it, in a profile that explains it."""


def ablation_row(model: str, *, toolchain: str, tune_s: float, ablate_s: float, out: Path) -> dict[str, Any]:
    """Tune, ablate and profile, and return the numbers.

    Args:
        model: For example ``zoo:resnet18``.
        toolchain: Name of the toolchain.
        tune_s: Time limit of the search in seconds; a run that is finished is not searched again.
        ablate_s: Time limit of this call's ablation in seconds.
        out: The run folder.
    """
    result = passsearch.tune(model, toolchain=toolchain, timeout=tune_s, out=out, progress=_note)
    ablation = result.ablate(timeout=ablate_s, until_decided=True, progress=_note)
    winner = passsearch.profile(out, progress=_note)["pipelines"][-1]
    without = [row for row in ablation["rows"] if row["kind"] == "without"]
    return {
        "headline": ablation["headline"],
        "complete": ablation["complete"],
        "gain": result.document["verdict"],
        "winner": result.best.pipeline,
        "passes": ablation["passes"],
        "dropped": ablation["dropped"],
        "left_out": [{key: row[key] for key in ("pass", "worth", "gain", "kernels_changed")} for row in without],
        "worth_nothing": ablation["worth_nothing"],
        "minimal": ablation["minimal"],
        "measured": ablation["measured"],
        "kernels": len(winner["kernels"]),
        "calls": len(winner["calls"]),
        "whole_s": winner["whole_s"],
        "kernels_s": winner["kernels_s"],
        "kernels_share": winner["kernels_share"],
        "rest_s": winner["rest"],
        "explained": abs(winner["kernels_share"] - 1) <= MOST_DEVIATION,
    }


def _note(text: str, done: int, total: int) -> None:
    print(text if total == 0 else f"{text} {done}/{total}", file=sys.stderr, flush=True)


def table(rows: Mapping[str, Any]) -> str:
    """Return the rows as Markdown."""
    lines = [
        "| winner of | passes | worth something | worth nothing or a loss | undecided | same IR without | sum of the "
        "kernels / end to end | with the runtime's own calls |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, row in rows.items():
        toolchain, _, model = name.partition(":")
        useful, undecided = (
            [step["pass"] for step in row["left_out"] if step["worth"] in worths]
            for worths in (("gain", "needed"), ("undecided",))
        )
        cells = [
            f"{model.removeprefix('zoo:')}, {toolchain}" + ("" if row["complete"] else " (cut off)"),
            str(len(row["passes"]) + len(row["dropped"])),
            *map(_names, (useful, row["worth_nothing"], undecided, row["dropped"])),
            f"{1e3 * row['kernels_s']:.2f} / {1e3 * row['whole_s']:.2f} ms, {100 * row['kernels_share']:.0f} %",
            f"{100 * (row['kernels_s'] + row['rest_s']['runtime']) / row['whole_s']:.0f} %",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, "", *_summary(rows)])


def _names(passes: list[str]) -> str:
    return ", ".join(f"`{text.partition('{')[0]}`" for text in passes) or "none"


def _summary(rows: Mapping[str, Any]) -> list[str]:
    """Return what the rows say together, and where and when they were measured."""
    explained = [name for name, row in rows.items() if row["explained"]]
    dates = sorted({row["date"] for row in rows.values()})
    devices = sorted({f"{row['device'].get('name')}, {row['device'].get('cores')} cores" for row in rows.values()})
    return [
        f"The kernels of {len(explained)} of {len(rows)} winners sum to the end-to-end time within 10 %. "
        f"Measured {' to '.join(dict.fromkeys((dates[0], dates[-1])))} on {'; '.join(devices)}, by "
        "`python benchmarks/ablations.py`; intervals are in [ablations.json](../../benchmarks/results/ablations.json)."
    ]


def main() -> None:
    """Read the command and run what is missing, or write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("cases", nargs="*", default=CASES, help="TOOLCHAIN:MODEL, such as relax:zoo:resnet18")
    parser.add_argument("--tune-seconds", type=float, default=240)
    parser.add_argument("--ablate-seconds", type=float, default=330, help="for one ablation")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--runs", type=Path, default=RUNS)
    parser.add_argument("--page", type=Path, default=PAGE, help="page that --table writes into")
    parser.add_argument("--table", action="store_true", help="write the rows into the page and measure nothing")
    arguments = parser.parse_args()
    for case in () if arguments.table else arguments.cases:
        toolchain, _, model = case.partition(":")
        if read_rows(arguments.out, "ablations").get(case, {}).get("complete"):
            continue
        out = arguments.runs / case.replace(":", "-")
        limits = {"tune_s": arguments.tune_seconds, "ablate_s": arguments.ablate_seconds}
        row = ablation_row(model, toolchain=toolchain, out=out, **limits)
        write_row(arguments.out, "ablations", name=case, row=row, session=network_session(model, toolchain))
    rows = read_rows(arguments.out, "ablations")
    text = table(rows) if rows else "Not measured yet."
    if arguments.table:
        write_part(arguments.page, "ablations.py", text)
    print(text)


if __name__ == "__main__":
    main()
