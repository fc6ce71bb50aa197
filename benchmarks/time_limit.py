"""What a search makes of its time limit: ``python benchmarks/time_limit.py zoo:resnet18 --timeout 600 --repeat 5``.

Every run is in a new folder under ``runs/time_limit`` and knows nothing of earlier ones.
``benchmarks/results/time_limit.json``, or the file that ``--out`` names, has the wall time of each run, how many
candidates it saw, what its time went into, and its verdict; runs in it are not repeated. ``--table`` prints Markdown.
"""

import argparse
import shutil
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from provenance import network_session, read_rows, write_row

import passsearch

ROOT = Path(__file__).parent
RESULTS = ROOT / "results" / "time_limit.json"
RUNS = ROOT.parent / "runs" / "time_limit"


def tune(model: str, *, toolchain: str, timeout_s: float, out: Path) -> dict[str, Any]:
    """Tune once and return the numbers of the run."""
    shutil.rmtree(out, ignore_errors=True)
    notes: list[str] = []

    def note(text: str, _done: int, total: int) -> None:
        if total == 0:  # it stays on the screen
            notes.append(text)
        print(text, file=sys.stderr)

    start = time.monotonic()
    result = passsearch.tune(
        model, toolchain=toolchain, timeout=timeout_s, trials=10_000, out=out, remember=False, progress=note
    )
    wall_s = time.monotonic() - start
    document = result.document
    space, seconds, verdict = (document[key] for key in ("space", "seconds", "verdict"))
    return {
        "timeout_s": timeout_s,
        "wall_s": round(wall_s, 1),
        "plan": notes,
        "candidates": space["states_measured"],
        "sequences_asked": space["sequences_asked"],
        "failures": document["failures"],
        "seconds": seconds,
        "improved": verdict["improved"],
        "ratio": verdict["ratio"],
        "interval": verdict["interval"],
        "noise_floor": verdict["noise_floor"],
        "source": document["best"]["source"],
        "best": document["best"]["pipeline"],
        "best_latency_s": document["best"]["latency_s"]["median"],
    }


def table(rows: Mapping[str, Any]) -> str:
    """Return the rows as Markdown."""
    titles = ("run", "limit", "took", "candidates", "measuring", "throughput / default", "best in", "found by")
    lines = ["| " + " | ".join(titles) + " |", "|---" * len(titles) + "|"]
    for name, row in rows.items():
        low, high = row["interval"] or (None, None)
        span = f" [{low:.1f}, {high:.1f}]" if row["interval"] else ""
        verdict = " improved" if row["improved"] else ""
        measuring = row["seconds"]["measure"] / row["seconds"]["total"]
        cells = [
            name,
            f"{row['timeout_s']:.0f} s",
            f"{row['wall_s']:.0f} s",
            str(row["candidates"]),
            f"{measuring:.0%}",
            f"{row['ratio']:.1f}{span}{verdict}",
            f"{1e3 * row['best_latency_s']:.1f} ms",
            ", ".join(filter(None, (row["source"]["kind"], row["source"]["name"]))),
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    """Make the missing runs, or print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*", default=["zoo:resnet18", "zoo:bert_base_16"])
    parser.add_argument("--toolchain", default="relax")
    parser.add_argument("--timeout", type=float, default=600.0)
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--out", type=Path, default=RESULTS, help="the file of results (%(default)s)")
    parser.add_argument("--table", action="store_true", help="print the Markdown from that file")
    arguments = parser.parse_args()
    for turn in range(0 if arguments.table else arguments.repeat):
        for model in arguments.models:
            session = network_session(model, arguments.toolchain)
            name = f"{session.model.name}, {arguments.toolchain} {turn + 1}"
            if name not in read_rows(arguments.out, "runs"):
                folder = RUNS / name.replace(", ", "-").replace(" ", "-")
                row = tune(model, toolchain=arguments.toolchain, timeout_s=arguments.timeout, out=folder)
                write_row(arguments.out, "runs", name=name, row=row, session=session)
    print(table(read_rows(arguments.out, "runs")))


if __name__ == "__main__":
    main()
