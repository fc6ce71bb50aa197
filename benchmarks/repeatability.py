"""Repeats measurements and compares their results: ``python benchmarks/repeatability.py RUN --repeat 10 --audits 20``.

Three commands take turns, each in a process of its own, as a user starts it: ``compare`` of -O3 with itself (the noise
floor, and no winner), ``compare`` of -O0 with -O3 (one verdict, one ratio), and ``audit`` of RUN, a finished ``tune``
whose verdict is ``improved``. ``benchmarks/results/repeatability.json`` has the results; measurements in it are not
repeated. ``--table`` prints the Markdown of ``docs/evidence/measurement.md`` from it.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from itertools import zip_longest
from pathlib import Path
from typing import Any, TypeAlias

RESULTS = Path(__file__).parent / "results" / "repeatability.json"
Document: TypeAlias = Mapping[str, Any]


def run_passsearch(*arguments: str) -> dict[str, Any]:
    """Run one command and return its JSON. Exit code 1 is a negative answer, which has JSON as well."""
    command = [sys.executable, "-m", "passsearch", *arguments, "--json"]
    process = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if process.returncode not in (0, 1):
        raise SystemExit(f"`{' '.join(command)}` ended with {process.returncode}.")
    return dict(json.loads(process.stdout))


def comparison_row(document: Document) -> dict[str, Any]:
    """Return the numbers of one ``compare`` of two pipelines."""
    pair, first = document["pairs"][0], document["rows"][0]
    return {
        "latency_s": [row["latency_s"]["median"] for row in document["rows"]],
        "ratio": pair["ratio"],
        "interval": pair["interval"],
        "verdict": pair["verdict"],
        "improved": [row["improved"] for row in document["rows"]],
        "noise_floor": document["noise_floor"],
        "steal_percent": first["conditions"]["steal_percent"],
        "rounds_dropped": first["conditions"]["rounds_dropped"],
    }


def audit_row(document: Document) -> dict[str, Any]:
    """Return the numbers of one ``audit``."""
    refused = [f"{check['name']}: {check['detail']}" for check in document["checks"] if not check["ok"]]
    numbers = {key: document[key] for key in ("signed_off", "ratios", "seconds")}
    return {**numbers, "refused": refused, "claimed": document["claimed"]}


def repeat(model: str, run: Path | None, *, counts: Mapping[str, int], file: Path) -> None:
    """Make the missing measurements, in turns, and write every result at once.

    Args:
        model: The network to compare.
        run: Run folder to audit.
        counts: Number of repetitions by measurement.
        file: File of the results.
    """
    measurements: dict[str, Callable[[], dict[str, Any]]] = {
        "O3,O3": lambda: comparison_row(run_passsearch("compare", model, "--pipelines", "O3,O3")),
        "O0,O3": lambda: comparison_row(run_passsearch("compare", model, "--pipelines", "O0,O3")),
        "audit": lambda: audit_row(run_passsearch("audit", str(run))),
    }
    rows: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {"model": model}
    for turn in range(max(counts.values())):
        for name in (name for name, count in counts.items() if turn < count and len(rows.get(name, [])) <= turn):
            start = time.monotonic()
            row = {**measurements[name](), "wall_s": round(time.monotonic() - start, 1)}
            rows.setdefault(name, []).append(row)
            file.write_text(json.dumps(rows, indent=1) + "\n")
            print(f"{name} {turn + 1}: {row.get('verdict', row.get('signed_off'))}", file=sys.stderr, flush=True)


def table(rows: Document) -> str:
    """Return the Markdown of ``docs/evidence/measurement.md``."""
    lines = [
        "| run | -O3, ms | -O3 against -O3 | noise floor | -O3 against -O0 | verdict |",
        "|---|---|---|---|---|---|",
    ]
    for turn, (same, levels) in enumerate(zip_longest(rows.get("O3,O3", []), rows.get("O0,O3", []))):
        lines.append(f"| {turn + 1} | " + " | ".join([*_same_cells(same), _ratio(levels), levels["verdict"]]) + " |")
    audits = rows.get("audit", [])
    if not audits:
        return "\n".join(lines)
    signed = sum(audit["signed_off"] for audit in audits)
    seconds = [audit["seconds"] for audit in audits if audit["seconds"]]
    ratios = [audit["ratios"][audits[0]["claimed"]["objective"]]["ratio"] for audit in audits if audit["ratios"]]
    lines += [
        "",
        f"{signed} of {len(audits)} audits sign off; confirming took {statistics.median(seconds):.0f} s in the",
        f"median and {max(seconds):.0f} s at most; ratios from {min(ratios):.3f} to {max(ratios):.3f}.",
    ]
    return "\n".join(lines)


def _same_cells(same: Document | None) -> list[str]:
    """Return the cells of -O3 against itself; the last comparison of the two levels had none beside it."""
    if same is None:
        return ["not kept"] * 3
    return [f"{1e3 * same['latency_s'][0]:.1f}", _ratio(same), f"{100 * same['noise_floor']:.2f} %"]


def _ratio(pair: Document) -> str:
    low, high = pair["interval"]
    note = f" ({pair['note']})" if "note" in pair else ""
    return f"{pair['ratio']:.3f} [{low:.3f}, {high:.3f}]{note}"


def main() -> None:
    """Repeat the measurements, or print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path, nargs="?", help="a finished run whose verdict is `improved`")
    parser.add_argument("--model", default="zoo:resnet18")
    parser.add_argument("--repeat", type=int, default=10)
    parser.add_argument("--audits", type=int, default=20)
    parser.add_argument("--table", action="store_true")
    arguments = parser.parse_args()
    if not arguments.table:
        audits = arguments.audits if arguments.run else 0
        counts = {"O3,O3": arguments.repeat, "O0,O3": arguments.repeat, "audit": audits}
        repeat(arguments.model, arguments.run, counts=counts, file=RESULTS)
    print(table(json.loads(RESULTS.read_text())))


if __name__ == "__main__":
    main()
