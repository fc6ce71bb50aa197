"""Whether a measurement says the same again: ``python benchmarks/repeatability.py RUN --repeat 10 --audits 20``.

Every repetition is a process of its own, started as a user starts it: ``compare`` of -O3 with itself (the noise floor,
and no win), ``compare`` of -O0 with -O3 (one verdict, one ratio), and ``audit`` of RUN, a finished ``tune`` whose
verdict is ``improved``. The three take turns. What is done stands in ``benchmarks/results/repeatability.json`` and is
not done again; ``--table`` prints the Markdown of ``docs/measurement.md`` from it.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

RESULTS = Path(__file__).parent / "results" / "repeatability.json"
Document: TypeAlias = Mapping[str, Any]


def passsearch(*arguments: str) -> dict[str, Any]:
    """What one command says in JSON; a negative answer (exit 1) is one, too."""
    command = [sys.executable, "-m", "passsearch", *arguments, "--json"]
    finished = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if finished.returncode not in (0, 1):
        raise SystemExit(f"`{' '.join(command)}` ended with {finished.returncode}.")
    return dict(json.loads(finished.stdout))


def compared(document: Document) -> dict[str, Any]:
    """One ``compare`` of two pipelines in a few numbers."""
    pair = document["pairs"][0]
    medians = [row["latency_s"]["median"] for row in document["rows"]]
    return {
        "latency_s": medians,
        "ratio": pair["ratio"],
        "interval": pair["interval"],
        "verdict": pair["verdict"],
        "improved": [row["improved"] for row in document["rows"]],
        "noise_floor": document["noise_floor"],
        "steal_percent": document["rows"][0]["conditions"]["steal_percent"],
        "rounds_dropped": document["rows"][0]["conditions"]["rounds_dropped"],
    }


def audited(document: Document) -> dict[str, Any]:
    """One ``audit`` in a few numbers."""
    refused = [f"{check['name']}: {check['detail']}" for check in document["checks"] if not check["ok"]]
    numbers = {key: document[key] for key in ("signed_off", "ratios", "seconds")}
    return {**numbers, "refused": refused, "claimed": document["claimed"]}


def repeat(model: str, run: Path | None, *, counts: Mapping[str, int], file: Path) -> None:
    """Do what is still to be done, in turns, and write it down after each."""
    work: dict[str, Callable[[], dict[str, Any]]] = {
        "O3,O3": lambda: compared(passsearch("compare", model, "--pipelines", "O3,O3")),
        "O0,O3": lambda: compared(passsearch("compare", model, "--pipelines", "O0,O3")),
        "audit": lambda: audited(passsearch("audit", str(run))),
    }
    done: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {"model": model}
    for turn in range(max(counts.values())):
        for name in (name for name, count in counts.items() if turn < count and len(done.get(name, [])) <= turn):
            start = time.monotonic()
            found = {**work[name](), "wall_s": round(time.monotonic() - start, 1)}
            done.setdefault(name, []).append(found)
            file.write_text(json.dumps(done, indent=1) + "\n")
            print(f"{name} {turn + 1}: {found.get('verdict', found.get('signed_off'))}", file=sys.stderr, flush=True)


def table(done: Document) -> str:
    """The Markdown of ``docs/measurement.md``."""
    lines = [
        "| run | -O3 against -O3 | noise floor | -O3 against -O0 | verdict | -O3, ms |",
        "|---|---|---|---|---|---|",
    ]
    for turn, (same, levels) in enumerate(zip(done.get("O3,O3", []), done.get("O0,O3", []), strict=True)):
        milliseconds = f"{1e3 * same['latency_s'][0]:.1f}"
        cells = [_ratio(same), f"{100 * same['noise_floor']:.2f} %", _ratio(levels), levels["verdict"], milliseconds]
        lines.append(f"| {turn + 1} | " + " | ".join(cells) + " |")
    audits = done.get("audit", [])
    if not audits:
        return "\n".join(lines)
    signed = sum(each["signed_off"] for each in audits)
    seconds = [each["seconds"] for each in audits if each["seconds"]]
    ratios = [each["ratios"][audits[0]["claimed"]["objective"]]["ratio"] for each in audits if each["ratios"]]
    lines += [
        "",
        f"{signed} of {len(audits)} audits sign off; confirming took {statistics.median(seconds):.0f} s in the",
    ]
    lines += [f"median and {max(seconds):.0f} s at most; ratios from {min(ratios):.3f} to {max(ratios):.3f}."]
    return "\n".join(lines)


def _ratio(pair: Document) -> str:
    low, high = pair["interval"]
    return f"{pair['ratio']:.3f} [{low:.3f}, {high:.3f}]"


def main() -> None:
    """Repeat, or print the table."""
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
