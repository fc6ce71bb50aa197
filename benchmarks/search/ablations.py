"""What the passes of winners are worth: ``python -m benchmarks.search.ablations``.

For each network it tunes, ablates the winner until it is decided what each pass is worth, profiles baseline and winner,
and writes a row to ``benchmarks/results/ablations.json``: the headline, the worth of each pass with the interval of
what it multiplies, the passes worth nothing, and the sum of the kernels as a share of the end-to-end time. A network
takes ten minutes at most, and a few more where the machine is busy. Runs stay under ``runs/ablations``: the same
command after an interruption goes on where it was, and repeats no row that is complete. ``--table`` measures nothing
and writes the rows into ``docs/evidence/ablation.md``.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import passsearch
from benchmarks.common import RESULTS, RUNS, markdown, network_session, note, options, read_rows, write_part, write_row

CASES = ("relay:zoo:resnet18", "relax:zoo:resnet18", "relax:zoo:bert_tiny")
MOST_DEVIATION = 0.1
"""Largest deviation of the sum of kernels from the end-to-end time, as a share of it, in a profile that explains it."""


def ablation_row(model: str, *, toolchain: str, tune_s: float, ablate_s: float, out: Path) -> dict[str, Any]:
    """Tune unless the run is finished, ablate and profile; return the numbers."""
    result = passsearch.tune(model, toolchain=toolchain, timeout=tune_s, rivals=[], out=out, progress=note)
    ablation = result.ablate(timeout=ablate_s, until_decided=True, progress=note)
    winner = passsearch.profile(out, progress=note)["pipelines"][-1]
    without = [row for row in ablation["rows"] if row["kind"] == "without"]
    kept = ("headline", "complete", "passes", "dropped", "worth_nothing", "minimal", "measured")
    return {
        **{key: ablation[key] for key in kept},
        "gain": result.document["verdict"],
        "winner": result.best.pipeline,
        "left_out": [{key: row[key] for key in ("pass", "worth", "gain", "kernels_changed")} for row in without],
        **{key: len(winner[key]) for key in ("kernels", "calls")},
        **{key: winner[key] for key in ("whole_s", "kernels_s", "kernels_share")},
        "rest_s": winner["rest"],
        "explained": abs(winner["kernels_share"] - 1) <= MOST_DEVIATION,
    }


def table(rows: Mapping[str, Any]) -> str:
    """Return the rows as Markdown, and below what they say together, and where and when they were measured."""
    lines = []
    for name, row in rows.items():
        toolchain, _, model = name.partition(":")
        worth = {step["pass"]: step["worth"] for step in row["left_out"]}
        useful = [step for step in worth if worth[step] in ("gain", "needed")]
        undecided = [step for step in worth if worth[step] == "undecided"]
        cells = [f"{model.removeprefix('zoo:')}, {toolchain}" + ("" if row["complete"] else " (cut off)")]
        cells += [str(len(row["passes"]) + len(row["dropped"]))]
        cells += map(_names, (useful, row["worth_nothing"], undecided, row["dropped"]))
        shares = [row["kernels_share"], (row["kernels_s"] + row["rest_s"]["runtime"]) / row["whole_s"]]
        cells += [f"{1e3 * row['kernels_s']:.2f} / {1e3 * row['whole_s']:.2f} ms, {100 * shares[0]:.0f} %"]
        lines.append([*cells, f"{100 * shares[1]:.0f} %"])
    heads = ["winner of", "passes", "worth something", "worth nothing or a loss", "undecided", "same IR without"]
    heads += ["sum of the kernels / end to end", "with the runtime's own calls"]
    dates = sorted({row["date"] for row in rows.values()})
    devices = sorted({f"{row['device'].get('name')}, {row['device'].get('cores')} cores" for row in rows.values()})
    explained = sum(row["explained"] for row in rows.values())
    return f"""{markdown(heads, lines)}

The kernels of {explained} of {len(rows)} winners sum to the end-to-end time within 10 %. Measured \
{" to ".join(dict.fromkeys((dates[0], dates[-1])))} on {"; ".join(devices)}, by `python -m \
benchmarks.search.ablations`; intervals are in [ablations.json](../../benchmarks/results/ablations.json)."""


def _names(passes: Sequence[str]) -> str:
    return ", ".join(f"`{text.partition('{')[0]}`" for text in passes) or "none"


def main() -> None:
    arguments = options(
        __doc__,
        ("cases", CASES),
        tune_seconds=240.0,
        ablate_seconds=330.0,
        out=RESULTS / "ablations.json",
        runs=RUNS / "ablations",
        table=(False, "write the rows into the page and measure nothing"),
    )
    for case in () if arguments.table else arguments.cases:
        toolchain, _, model = case.partition(":")
        if not read_rows(arguments.out, "ablations").get(case, {}).get("complete"):
            limits = {"tune_s": arguments.tune_seconds, "ablate_s": arguments.ablate_seconds}
            row = ablation_row(model, toolchain=toolchain, out=arguments.runs / case.replace(":", "-"), **limits)
            write_row(arguments.out, "ablations", name=case, row=row, session=network_session(model, toolchain))
    text = table(read_rows(arguments.out, "ablations"))
    if arguments.table:
        write_part("ablation.md", "search/ablations.py", text)
    print(text)


if __name__ == "__main__":
    main()
