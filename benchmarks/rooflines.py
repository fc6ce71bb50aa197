"""Says how far the winners of searches are from what the machine can do, and which kernels hold the rest.

``python benchmarks/rooflines.py NETWORK…`` profiles the pipelines that ``against_engines.py`` measured as tuned, as
``passsearch profile`` does. Each kernel has a time in which the machine could do its operations and read and write its
bytes once. The sum of these times is the least that an inference of these kernels takes.
``benchmarks/results/relax/rooflines.json`` gets a row for each network; ``--table`` prints Markdown from it.
"""

import argparse
import json
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Any

import passsearch

FOLDER = Path(__file__).parent / "results"
RESULTS = FOLDER / "relax" / "rooflines.json"
KERNELS = 3
"""How many kernels of each network the table names."""


def main() -> None:
    """Measure networks one by one and write the JSON after each, or print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("networks", nargs="*", help="networks that against_engines.py has measured")
    parser.add_argument("--engines", type=Path, default=FOLDER / "engines" / "xeon", help="its JSON (%(default)s)")
    parser.add_argument("--table", action="store_true", help="print the Markdown of the JSON file")
    arguments = parser.parse_args()
    rows = json.loads(RESULTS.read_text())["networks"] if RESULTS.exists() else {}
    for network in [] if arguments.table else arguments.networks:
        engines = json.loads((arguments.engines / f"{network}.json").read_text())["engines"]
        rows[network] = measure(network, engines["tvm tuned"]["pipeline"])
        RESULTS.write_text(json.dumps({"networks": rows}, indent=1) + "\n")
    print(table(rows))


def measure(network: str, text: str) -> dict[str, Any]:
    """Return the seconds of an inference by a pipeline, and its kernels with their shares of the roofline."""
    document = passsearch.profile(f"zoo:{network}", [text], toolchain="relax")
    (pipeline,) = document["pipelines"]
    keys = ("kernel", "calls", "seconds", "flops", "bytes", "bound", "roof_share")
    kernels = [{key: kernel[key] for key in keys} for kernel in pipeline["kernels"]]
    machine = {key: document[key] for key in ("target", "toolchain", "device", "threads", "peaks")}
    times = {key: pipeline[key] for key in ("whole_s", "kernels_s")}
    return {"date": date.today().isoformat(), **machine, "pipeline": pipeline["pipeline"], **times, "kernels": kernels}


def table(rows: Mapping[str, Any]) -> str:
    """Return a row for each network: its time, the least there is by the roofline, and what holds the rest."""
    heads = f"| network | inference, ms | least, ms | least / inference | the {KERNELS} kernels farthest from it |"
    lines = [heads, "| --- | ---: | ---: | ---: | --- |"]
    for name, row in rows.items():
        lost = {kernel["kernel"]: _lost_s(kernel) for kernel in row["kernels"]}
        least_s = row["kernels_s"] - sum(lost.values())
        worst = sorted(row["kernels"], key=lambda kernel: -lost[kernel["kernel"]])[:KERNELS]
        cells = [f"{row['whole_s'] * 1e3:.2f}", f"{least_s * 1e3:.2f}", f"{least_s / row['whole_s']:.0%}"]
        lines.append(f"| {name} | {' | '.join(cells)} | {'; '.join(map(_kernel_text, worst))} |")
    return "\n".join(lines)


def _lost_s(kernel: Mapping[str, Any]) -> float:
    """Return by how much a kernel is slower than the roofline; 0 for one that reads from caches or is unknown."""
    return float(kernel["seconds"] * max(0.0, 1 - (1.0 if kernel["roof_share"] is None else kernel["roof_share"])))


def _kernel_text(kernel: Mapping[str, Any]) -> str:
    return f"`{kernel['kernel']}` {kernel['seconds'] * 1e3:.2f} ms, {kernel['roof_share']:.0%} of {kernel['bound']}"


if __name__ == "__main__":
    main()
