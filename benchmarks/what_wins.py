"""Tells which schedules win on many kernels: ``python benchmarks/what_wins.py RUN [RUN …]``.

A search on Relax times the kernels that lose the most time under 96 settings of ``ScheduleCPU``, and its run folder
keeps the times. Here each setting is compared with the default over all kernels of a kind, so that what wins on many
can become the default. Times are those of one process, in which the default ran too: times of two processes are no
comparison. ``benchmarks/results/relax/what_wins.json`` gets the ratios; ``--table`` prints it.
"""

import argparse
import json
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

from passsearch.measure import mean_ratio
from passsearch.store import read_result
from passsearch.studies.schedule_learning import FEW_OPERATIONS, schedule_facts

RESULTS = Path(__file__).parent / "results" / "relax" / "what_wins.json"
DEFAULT = "ScheduleCPU"
KINDS = ("weights of 1 MiB or more", "depthwise", "other sums of products")
SHOWN = 6
"""Number of settings that the table has of each kind."""


def kernels(run: Path) -> Iterator[dict[str, Any]]:
    """Yield the tuned kernels of a run: name, kind, and the ratio of each schedule to the default's."""
    network = read_result(run)["model"]["name"]
    described, schedules = schedule_facts(run)
    timed: dict[str, dict[str, Mapping[str, Any]]] = defaultdict(dict)
    for (digest, _, step), fact in schedules.items():
        timed[digest][step] = fact
    for digest, variants in timed.items():
        ratios = _ratios(variants)
        if ratios and digest in described:
            row = described[digest]
            yield {
                "digest": digest,
                "network": network,
                "kernel": row["name"],
                "kind": _kind(row, variants),
                "ratios": ratios,
            }


def _ratios(variants: Mapping[str, Mapping[str, Any]]) -> dict[str, float]:
    """Return the time of each setting as a multiple of the default's; empty where they have no process in common."""
    own = variants.get(DEFAULT)
    rest = {step: fact for step, fact in variants.items() if step != DEFAULT}
    # Earlier versions timed all settings in one process, without noting what the default took there.
    same = [fact["seconds"] for fact in rest.values() if own and fact["digest"] == own["digest"]]
    beside = {
        step: fact["reference_s"] if fact.get("reference") == DEFAULT else next(iter(same), None)
        for step, fact in rest.items()
    }
    return {step: round(fact["seconds"] / beside[step], 4) for step, fact in rest.items() if beside[step]}


def _kind(row: Mapping[str, Any], variants: Mapping[str, Mapping[str, Any]]) -> str:
    prefetched = [
        variants.get(f"{DEFAULT}{{keep_weights=true,prefetch={steps}}}", {}).get("digest") for steps in (0, 8)
    ]
    if prefetched[0] != prefetched[1]:
        return KINDS[0]
    return KINDS[1] if row["operations"] < FEW_OPERATIONS * row["bytes"] else KINDS[2]


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return Markdown: by kind the settings that are fastest on average, and what the best for each kernel reads.

    The last is too good, because the best of many noisy times is a lucky one.
    """
    lines = ["| kernels | setting | time / default | faster by 2 % | slower by 2 % |", "|---|---|---|---:|---:|"]
    for kind in KINDS:
        own = [row["ratios"] for row in rows if row["kind"] == kind]
        settings = set.intersection(*(set(ratios) for ratios in own)) if own else set()
        logs = {setting: [math.log(ratios[setting]) for ratios in own] for setting in settings}
        # Many settings lead to one schedule; the shortest name stands for it.
        by_logs = {
            tuple(values): name for name, values in sorted(logs.items(), key=lambda item: (-len(item[0]), item[0]))
        }
        best = [min(map(math.log, ratios.values())) for ratios in own]
        for values, name in sorted(by_logs.items(), key=lambda item: sum(item[0]))[:SHOWN]:
            lines.append(
                f"| {kind} ({len(own)}) | `{name[len(DEFAULT) :].strip('{}') or 'default'}` | {_cells(values)} |"
            )
        lines.append(f"| {kind} ({len(own)}) | the best for each | {_cells(best)} |")
    return "\n".join(lines)


def _cells(logs: Sequence[float]) -> str:
    ratio = mean_ratio(logs)
    faster, slower = (sum(sign * value > math.log(1.02) for value in logs) for sign in (-1, 1))
    return f"{ratio:.2f} | {faster} | {slower}"


def main() -> None:
    """Read the runs, write the JSON and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", nargs="*", type=Path)
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--table", action="store_true", help="print the Markdown from the JSON")
    options = parser.parse_args()
    if not options.table:
        devices = [read_result(run)["device"] for run in options.runs]
        # Runs share the times of a kernel that their networks share.
        rows = list({row["digest"]: row for run in options.runs for row in kernels(run)}.values())
        settings = sorted({setting for row in rows for setting in row["ratios"]})
        # One list of settings for all kernels: their names are longer than the numbers.
        packed = [{**row, "ratios": [row["ratios"].get(setting) for setting in settings]} for row in rows]
        document = {"date": date.today().isoformat(), "device": devices[0], "settings": settings, "kernels": packed}
        options.out.write_text(json.dumps(document) + "\n")
    document = json.loads(options.out.read_text())
    named = [dict(zip(document["settings"], row["ratios"], strict=True)) for row in document["kernels"]]
    ratios = [{name: value for name, value in each.items() if value is not None} for each in named]
    print(table([{**row, "ratios": own} for row, own in zip(document["kernels"], ratios, strict=True)]))


if __name__ == "__main__":
    main()
