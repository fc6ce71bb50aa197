"""Times the networks that were named before anything was measured on them, beside ONNX Runtime and OpenVINO.

``chrt -f 5 python -m benchmarks.speed.held_out FOLDER --engines-python VENV/bin/python`` measures what
``held_out_draw`` wrote into a folder, each by the sequence that ``recommend`` names; names after the folder choose
some, others than those of the list only with ``--out``. VENV is an environment with ``onnx``, ``onnxruntime`` and
``openvino``. ``--table`` prints Markdown with verdicts.

The protocol, written before the first measurement:

1. *Networks.* The 40 of ``benchmarks/results/held_out/draw.json``, drawn by chance by ``held_out_draw``. The draw is
   complete before the first of them is compiled, imported or timed by passsearch or TVM, and none is exchanged after
   that.
2. *Machines.* Two kinds of processor at least, one with AVX-512 and one without; a file and a table for each.
3. *Engines.* TVM by the sequence that ``passsearch.recommend`` names, without a search; ONNX Runtime; OpenVINO in
   float32. All read one ONNX file, with one thread for each physical core. Each row has versions and the commit.
4. *Plan.* Eight processes of each engine, three rounds each, in turns, at real-time priority where that is allowed.
   Outputs are compared with those of ONNX Runtime without optimisations in each process before anything is timed.
   An engine whose inferences all take over a second has three processes of one inference each; a win over such a rival
   is not claimed.
5. *Quantity.* The fastest inference of each process; a comparison is the mean over the eight processes of the logarithm
   of the ratio. Medians are judged in the same way, and stand beside where their verdict is another one.
6. *A win* is a mean above 1 whose probability by Student's two-sided t test is below 0.05 after one correction by Holm
   for all 80 comparisons of a table. Comparisons that are missing count among the 80. A loss is the same below 1. It is
   of this build, on this machine, in these processes; two tables, and the medians, are not corrected together.
7. *Failures.* A refused import, a failed build, wrong outputs, and more than 15 minutes are a loss of passsearch,
   called failed; where a rival fails, nothing is won. All have a row.
8. *Repeats.* None. What has a row is never measured again, however wide its interval is. An accident of the machine (a
   reboot, a full disk, an engine that is not installed) writes no row and ends the command.
9. *Repairs.* What is mended after the first table goes into a second one, by ``--out``, called so.
"""

import argparse
import json
import math
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from scipy.special import stdtr

import passsearch
from benchmarks.common import (
    RESULTS,
    ROOT,
    in_own_process,
    markdown,
    network_session,
    note,
    options,
    ratio_text,
    read,
    read_rows,
    write_row,
)
from passsearch.engines import engine_spec
from passsearch.errors import EnvironmentFault, PassSearchError
from passsearch.measure import Ratio, mean_ratio
from passsearch.toolchain import target_cpu

FOLDER = RESULTS / "held_out"
PROCESSES, ROUNDS = 8, 3
LIMIT_S = 900.0
"""Longest time of one network."""

OWN, RIVALS = "passsearch", ("onnxruntime", "openvino")
FASTEST, MEDIAN = "process_fastest_s", "process_median_s"
COUNT, LEVEL = 40, 0.05
"""Number of networks, and the probability of one wrong verdict among all of a table."""


def networks() -> dict[str, str]:
    """Return the kind of each network, by name."""
    return {row["name"]: row["kind"] for row in read(FOLDER / "draw.json").get("draws", ()) if row["taken"]}


def measure(file: Path, arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the recommended sequence, and the times or the failure of each engine."""
    sequence = passsearch.recommend(str(file), toolchain="relax")["pipeline"]["name"]
    document = passsearch.bench(
        str(file),
        [f"relax:{sequence}", *RIVALS],
        baseline=RIVALS[0],
        engines_python=arguments.engines_python,
        processes=arguments.processes,
        rounds=arguments.rounds,
    )
    kept = ("failure", "compile_s", "deviation", "memory_bytes", "note", FASTEST, MEDIAN)
    rows = dict(zip((OWN, *RIVALS), document["rows"], strict=True))
    return {
        "sequence": sequence,
        "threads": document["threads"],
        "versions": {key: value for row in rows.values() for key, value in row.get("versions", {}).items()},
        "limit": document["plan"]["limit"],
        "model_sha256": document["model"]["sha256"],
        "engines": {name: {key: row[key] for key in kept if key in row} for name, row in rows.items()},
    }


def write_answer(file: Path, arguments: argparse.Namespace, answer: Path) -> None:
    """Write what measuring a network says into a file; a refusal is an answer."""
    try:
        row = measure(file, arguments)
    except EnvironmentFault as error:
        row = {"accident": str(error)}
    except PassSearchError as error:
        row = {"failure": str(error)[:400]}
    answer.write_text(json.dumps(row))


def row_of(file: Path, arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the row of a network, measured in a process of its own."""
    with TemporaryDirectory(prefix="passsearch-") as folder:
        answer = Path(folder, "answer.json")
        reason = in_own_process(write_answer, file, arguments, answer, timeout_s=LIMIT_S)
        return dict(json.loads(answer.read_text())) if answer.exists() else {"failure": reason}


def ratio(row: Mapping[str, Any], rival: str, kind: str = FASTEST) -> Ratio | None:
    """Return the throughput over that of a rival, over the processes; ``None`` where one of them has no times."""
    logs = _logs(row, OWN, rival, kind)
    return mean_ratio(logs) if logs else None


def _logs(row: Mapping[str, Any], own: str, rival: str, kind: str) -> list[float]:
    fast, slow = (row.get("engines", {}).get(name, {}).get(kind) for name in (own, rival))
    return [math.log(other / each) for each, other in zip(fast, slow, strict=False)] if fast and slow else []


def probability(logs: Sequence[float]) -> float:
    """Return the two-sided probability of Student's t test that both engines are equally fast; 1 for fewer than two."""
    if len(logs) < 2:
        return 1.0
    mean = math.fsum(logs) / len(logs)
    variance = math.fsum((each - mean) ** 2 for each in logs) / (len(logs) - 1)
    if variance == 0:
        return float(mean == 0)
    return 2 * float(stdtr(len(logs) - 1, -abs(mean) / math.sqrt(variance / len(logs))))


def corrected(probabilities: Mapping[Any, float], count: int) -> dict[Any, float]:
    """Return probabilities that are corrected for ``count`` comparisons, those that are missing among them.

    Source: S. Holm, A simple sequentially rejective multiple test procedure, Scand. J. Statist. 6, 1979.
    """
    largest, found = 0.0, {}
    for place, (name, value) in enumerate(sorted(probabilities.items(), key=lambda each: each[1])):
        largest = max(largest, min(1.0, (count - place) * value))
        found[name] = largest
    return found


def verdicts(
    rows: Mapping[str, Mapping[str, Any]], kind: str = FASTEST, *, own: str = OWN, count: int = 0
) -> dict[tuple[str, str], str]:
    """Return the verdict on each pair of a network and a rival, by one correction for all pairs.

    Where passsearch has no times, or outputs that are wrong, it has lost; where the rival has none, nothing is won.

    Args:
        rows: Rows of networks, by name.
        kind: The times of each process that are compared.
        own: The engine of passsearch.
        count: Number of comparisons; those of the whole list by default.
    """
    logs = {(name, rival): _logs(row, own, rival, kind) for name, row in rows.items() for rival in RIVALS}
    count = max(len(logs), count or len(RIVALS) * COUNT)
    found = corrected({pair: probability(each) for pair, each in logs.items()}, count)
    answers = {}
    for (name, rival), each in logs.items():
        engines = rows[name].get("engines", {})
        if FASTEST not in engines.get(own, {}):
            answers[name, rival] = "failed"
        elif FASTEST not in engines.get(rival, {}):
            answers[name, rival] = "rival failed"
        elif found[name, rival] >= LEVEL or (math.fsum(each) > 0 and len(each) < len(engines[own][FASTEST])):
            answers[name, rival] = "undecided"
        else:
            answers[name, rival] = "faster" if math.fsum(each) > 0 else "slower"
    return answers


def table(rows: Mapping[str, Mapping[str, Any]], kinds: Mapping[str, str]) -> str:
    """Return Markdown: a line for each network of the list, and the counts of verdicts."""
    by_fastest, by_median = verdicts(rows), verdicts(rows, MEDIAN)
    lines = []
    for name in [name for name in kinds if name in rows]:
        cells = [_verdict_cell(rows[name], rival, by_fastest[name, rival], by_median[name, rival]) for rival in RIVALS]
        times = rows[name].get("engines", {}).get(OWN, {}).get(FASTEST)
        lines.append(
            [name, kinds[name], rows[name].get("sequence", "–"), f"{1e3 * min(times):.2f}" if times else "–", *cells]
        )
    heads = ("network", "kind", "sequence", "TVM, ms", "TVM / ONNX Runtime", "TVM / OpenVINO")
    parts = [markdown(heads, lines)]
    for rival in RIVALS:
        found = [verdict for (_, other), verdict in by_fastest.items() if other == rival]
        counts = ", ".join(f"{each} {found.count(each)}" for each in dict.fromkeys(found))
        parts.append(f"Beside {rival}, {len(found)} of {len(kinds)} networks: {counts}.")
    parts += [f"* {name}: {reason}" for name, row in rows.items() for reason in _failures(row)]
    return "\n\n".join(parts)


def _verdict_cell(row: Mapping[str, Any], rival: str, by_fastest: str, by_median: str) -> str:
    found = ratio(row, rival)
    text = f"{ratio_text(found.to_json())} {by_fastest}" if found else by_fastest
    median = ratio(row, rival, MEDIAN)
    return (
        text if by_fastest == by_median or not median else f"{text}; medians {ratio_text(median.to_json())} {by_median}"
    )


def _failures(row: Mapping[str, Any]) -> list[str]:
    engines = [f"{name}: {each['failure']}" for name, each in row.get("engines", {}).items() if "failure" in each]
    return [*([row["failure"]] if "failure" in row else []), *engines]


def main() -> None:
    kinds = networks()
    arguments = options(
        __doc__,
        ("folder", Path),
        ("networks", tuple(kinds)),
        engines_python=(sys.executable, "interpreter with the engines"),
        processes=(PROCESSES, "processes of each engine"),
        rounds=(ROUNDS, "rounds of each process"),
        out=(Path, "file of the rows; one for each kind of processor by default"),
        table=(False, "print Markdown, and measure nothing"),
    )
    if not (arguments.table or arguments.out) and len(kinds) < COUNT:
        sys.exit(
            f"{len(kinds)} of {COUNT} networks are drawn; go on with benchmarks.speed.held_out_draw before measuring."
        )
    is_plan = (arguments.processes, arguments.rounds) == (PROCESSES, ROUNDS)
    if not (arguments.table or arguments.out) and not (is_plan and kinds.keys() >= {*arguments.networks}):
        sys.exit(
            "The protocol is of the named networks, eight processes and three rounds; for others name a file: --out"
        )
    names = [] if arguments.table else arguments.networks
    for name in names:
        file = arguments.folder / f"{name}.onnx"
        if not file.exists():
            sys.exit(f"{file} is missing; write it: python -m benchmarks.speed.held_out_draw {arguments.folder}")
        for rival in RIVALS:
            engine_spec(rival, file, python=Path(arguments.engines_python))
    # Only machine, target and compiler are of this session.
    session = network_session("zoo:resnet_tiny", "relax")
    out = arguments.out or FOLDER / f"{target_cpu(session.target)}.json"
    code = subprocess.run(
        ["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    for name in names:
        if name not in read_rows(out, "networks"):
            row = {"code": code.stdout.strip(), "processes": arguments.processes, "rounds": arguments.rounds}
            row |= row_of(arguments.folder / f"{name}.onnx", arguments)
            if "accident" in row:
                sys.exit(row["accident"])
            write_row(out, "networks", name=name, row=row, session=session)
            note(f"{name}: {row.get('failure') or row['sequence']}")
    rows = read_rows(out, "networks")
    print(table(rows, kinds | {name: "other" for name in rows if name not in kinds}))


if __name__ == "__main__":
    main()
