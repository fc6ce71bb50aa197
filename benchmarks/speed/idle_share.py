"""Counts how long threads wait for the slowest one, for machines with more cores than this one.

``python -m benchmarks.speed.idle_share`` applies a network's recommended sequence for each number of threads and reads
the parallel loops of every kernel: TVM gives each thread an equal number of iterations, but for the last ones. A
kernel's time on this machine is its weight. Names choose networks. ``--table`` prints Markdown from
``benchmarks/results/idle_share.json``.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import passsearch
from benchmarks.common import RESULTS, markdown, network_session, options, read_rows, write_row

OUT = RESULTS / "idle_share.json"
NETWORKS = (
    "resnet18",
    "resnet50",
    "mobilenet_v2",
    "ssd_mobilenet",
    "bert_base_16",
    "bert_base",
    "gpt2",
    "llama_decode",
)
THREADS = (8, 16, 32, 64)

KERNEL = re.compile(r"^    def (\w+)\(")
LOOP = re.compile(r"^( *)for [\w, ]+ in (?:T\.)?(\w+)\((.*)\):$")
EXTENT = re.compile(r"\d+")
STORE = re.compile(r"^( *)\w+\[.*\] = ")


def parallel_loops(ir: str) -> dict[str, list[tuple[int, float]]]:
    """Return the iterations and the work of each outermost loop of every kernel; one iteration where it is serial."""
    kernels: dict[str, list[tuple[int, float]]] = {}
    loops: list[tuple[int, str, int]] = []  # indentation, kind and iterations
    found: list[tuple[int, float]] = []
    for line in ir.splitlines():
        if kernel := KERNEL.match(line):
            found = kernels.setdefault(kernel[1], [])
            loops = []
        indentation = len(line) - len(line.lstrip())
        while loops and loops[-1][0] >= indentation and line.strip():
            loops.pop()
        if loop := LOOP.match(line):
            sizes = [int(size) for size in EXTENT.findall(loop[3].replace("int64", ""))]
            count = 1
            for size in sizes:
                count *= size
            if not loops:
                found.append((1, 0.0))
            if loop[2] == "parallel":
                found[-1] = count, 0.0
            loops.append((indentation, loop[2], count))
        elif loops and STORE.match(line):
            work = 1.0
            for _, _, count in loops:
                work *= count
            found[-1] = found[-1][0], found[-1][1] + work
    return kernels


def slowdown(loops: list[tuple[int, float]], threads: int) -> float:
    """Return the time of a kernel as a multiple of that of equal shares."""
    total = sum(work for _, work in loops)
    longest = sum(work * threads * -(-count // threads) / count for count, work in loops)
    return longest / total if total else 1.0


def measure(name: str) -> dict[str, Any]:
    """Return the share of time that threads are idle: by tilings for few threads, and by those that know the number."""
    model = f"zoo:{name}"
    pipeline = passsearch.recommend(model, toolchain="relax")["pipeline"]["name"]
    times = passsearch.profile(model, [pipeline], toolchain="relax")["pipelines"][-1]
    seconds = {row["kernel"]: row["seconds"] for row in times["kernels"]}
    target = network_session(model, "relax").target.partition(" -num-cores")[0]
    few = _kernels(model, pipeline, target)
    row: dict[str, Any] = {"pipeline": pipeline, "seconds": seconds, "before": {}, "after": {}, "slowest": {}}
    for threads in THREADS:
        known = _kernels(model, pipeline, f"{target} -num-cores={threads}")
        row["before"][threads], _ = _idle_share(few, seconds, threads)
        row["after"][threads], row["slowest"][threads] = _idle_share(known, seconds, threads)
    return row


def _kernels(model: str, pipeline: str, target: str) -> dict[str, list[tuple[int, float]]]:
    applied = passsearch.apply(model, pipeline, toolchain="relax", target=target, print_ir=["ScheduleCPU"])
    return parallel_loops(next(step["ir"]["after"] for step in reversed(applied["steps"]) if step["ir"]))


def _idle_share(
    kernels: Mapping[str, list[tuple[int, float]]], seconds: Mapping[str, float], threads: int
) -> tuple[float, dict[str, float]]:
    """Return the idle share of all threads' time, and what the three worst kernels add to it."""
    weights = {name: each for name, each in seconds.items() if name in kernels}
    longest = {name: each * slowdown(kernels[name], threads) for name, each in weights.items()}
    total = sum(longest.values())
    lost = {name: round((longest[name] - each) / total, 4) for name, each in weights.items()}
    return round(sum(lost.values()), 4), {name: lost[name] for name in sorted(lost, key=lost.__getitem__)[:-4:-1]}


def table(rows: Mapping[str, Mapping[str, Any]]) -> str:
    """Return Markdown: a line for each network, with both shares."""
    lines = [
        [name, *(f"{100 * row['before'][each]:.1f}/{100 * row['after'][each]:.1f}" for each in map(str, THREADS))]
        for name, row in rows.items()
    ]
    return markdown(("network, idle %", *(f"{count} threads" for count in THREADS)), lines)


def main() -> None:
    arguments = options(__doc__, ("networks", NETWORKS), table=(False, "print the table"), out=(str(OUT), "results"))
    out = Path(arguments.out)
    for name in () if arguments.table else arguments.networks:
        row = measure(name)
        write_row(out, "networks", name=name, row=row, session=network_session(f"zoo:{name}", "relax"))
        print(name, row["before"], row["after"], row["slowest"], flush=True)
    print(table(read_rows(out, "networks")))


if __name__ == "__main__":
    main()
