"""What the passes of winners are worth: ``python benchmarks/ablations.py``.

Tunes each network, ablates the winner, and writes ``benchmarks/results/ablations.json``: the headline, the worth of
each pass with the interval of what it multiplies, the passes worth nothing, and on Relax the sum of the winner's
kernels as a share of the end-to-end time. Runs stay under ``runs/ablations``; a command that was cut off goes on where
it was, and complete rows are not repeated. ``--table`` prints the Markdown of ``docs/ablation.md``.
"""

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from provenance import network_session, read_rows, write_row

import passsearch

ROOT = Path(__file__).parent
RESULTS = ROOT / "results" / "ablations.json"
RUNS = ROOT.parent / "runs" / "ablations"
CASES = ("relay:zoo:resnet18", "relax:zoo:resnet18", "relay:zoo:bert_tiny", "relax:zoo:bert_tiny")


def ablation_row(model: str, *, toolchain: str, tune_s: float, ablate_s: float, out: Path) -> dict[str, Any]:
    """Tune, ablate, and return the numbers."""
    result = passsearch.tune(model, toolchain=toolchain, timeout=tune_s, out=out, progress=_note)
    ablation = result.ablate(timeout=ablate_s, progress=_note)
    kernels = (ablation.get("kernels") or {}).get("winner") or {}
    winner = [row for row in ablation["rows"] if row["kind"] == "ladder"][-1]
    without = [row for row in ablation["rows"] if row["kind"] != "ladder"]
    share = sum(kernels.values()) / winner["fastest_s"] if kernels and winner["fastest_s"] else None
    return {
        "headline": ablation["headline"],
        "complete": ablation["complete"],
        "winner": result.best.pipeline,
        "passes": ablation["passes"],
        "left_out": {row["pass"]: {key: row[key] for key in ("worth", "gain", "kernels_changed")} for row in without},
        "worth_nothing": [row["pass"] for row in without if row["worth"] in ("nothing", "loss")],
        "minimal": ablation["minimal"],
        "kernels": len(kernels) or None,
        "kernels_share_of_fastest": share,
        "fastest_s": winner["fastest_s"],
    }


def _note(text: str, done: int, total: int) -> None:
    print(text if total == 0 else f"{text} {done}/{total}", file=sys.stderr)


def table(rows: Mapping[str, Any]) -> str:
    """Return the rows as Markdown."""
    lines = [
        "| winner of | passes | worth nothing | kernels, sum of the fastest inference | complete |",
        "|---|---|---|---|---|",
    ]
    for name, row in rows.items():
        share = row["kernels_share_of_fastest"]
        kernels = f"{row['kernels']}, {100 * share:.0f} %" if share else "–"
        nothing = ", ".join(text.partition("{")[0] for text in row["worth_nothing"]) or "none"
        lines.append(
            f"| {name} | {len(row['passes'])} | {nothing} | {kernels} | {'yes' if row['complete'] else 'no'} |"
        )
    return "\n".join(lines)


def main() -> None:
    """Read the command and run what is missing."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("cases", nargs="*", default=CASES, help="TOOLCHAIN:MODEL, such as relax:zoo:resnet18")
    parser.add_argument("--tune-seconds", type=float, default=400)
    parser.add_argument("--ablate-seconds", type=float, default=1200, help="for one ablation")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--runs", type=Path, default=RUNS)
    parser.add_argument("--table", action="store_true")
    arguments = parser.parse_args()
    for case in () if arguments.table else arguments.cases:
        toolchain, _, model = case.partition(":")
        if read_rows(arguments.out, "ablations").get(case, {}).get("complete"):
            continue
        out = arguments.runs / case.replace(":", "-")
        limits = {"tune_s": arguments.tune_seconds, "ablate_s": arguments.ablate_seconds}
        row = ablation_row(model, toolchain=toolchain, out=out, **limits)
        write_row(arguments.out, "ablations", name=case, row=row, session=network_session(model, toolchain))
    print(table(read_rows(arguments.out, "ablations")))


if __name__ == "__main__":
    main()
