"""Says how far the winners of searches are from what the machine can do, and which kernels hold the rest.

``python benchmarks/rooflines.py NETWORK…`` profiles the pipelines that ``against_engines.py`` measured as tuned, as
``passsearch profile`` does. Each kernel has a time in which the machine could do its operations and read and write its
bytes once. The sum of these times is the least that an inference of these kernels takes.
``benchmarks/results/relax/rooflines.json`` gets a row for each network; ``--table`` prints Markdown from it.
"""

import argparse
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import passsearch

FOLDER = Path(__file__).parent / "results"
RESULTS = FOLDER / "relax" / "rooflines.json"
KERNELS = 3
"""How many kernels of each network the table names."""


@dataclass(frozen=True)
class Kernel:
    """A kernel beside the roofline.

    Attributes:
        name: Its name in the module.
        seconds: Time of all its calls in an inference.
        share: Least time by the roofline as a share of that; above 1 if it reads from caches.
        bound: ``arithmetic`` or ``memory``.
    """

    name: str
    seconds: float
    share: float
    bound: str

    @classmethod
    def of(cls, row: Mapping[str, Any], peaks: Mapping[str, float]) -> "Kernel":
        """Return the kernel of a row of a profile."""
        times = {"arithmetic": row["flops"] / peaks["flops"], "memory": row["bytes"] / peaks["bytes_per_s"]}
        bound = max(times, key=times.__getitem__)
        return cls(row["kernel"], row["seconds"], row["calls"] * times[bound] / row["seconds"], bound)

    @property
    def lacking_s(self) -> float:
        """Seconds by which it is slower than the roofline."""
        return self.seconds * max(0.0, 1 - self.share)

    def __str__(self) -> str:
        return f"`{self.name}` {self.seconds * 1e3:.2f} ms, {self.share:.0%} of {self.bound}"


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
    keys = ("kernel", "calls", "seconds", "flops", "bytes")
    kernels = [{key: kernel[key] for key in keys} for kernel in pipeline["kernels"]]
    machine = {key: document[key] for key in ("target", "toolchain", "device", "threads", "peaks")}
    times = {key: pipeline[key] for key in ("whole_s", "kernels_s")}
    return {"date": date.today().isoformat(), **machine, "pipeline": pipeline["pipeline"], **times, "kernels": kernels}


def table(rows: Mapping[str, Any]) -> str:
    """Return a row for each network: its time, the least there is by the roofline, and what holds the rest.

    The peaks are the best that any of the profiles measured: a disturbance can only lower them.
    """
    peaks = {name: max(row["peaks"][name] for row in rows.values()) for name in ("flops", "bytes_per_s")}
    heads = f"| network | inference, ms | least, ms | least / inference | the {KERNELS} kernels that lack most |"
    text = f"{peaks['flops'] / 1e9:.0f} GFLOP/s, {peaks['bytes_per_s'] / 1e9:.1f} GB/s"
    lines = [text, "", heads, "| --- | ---: | ---: | ---: | --- |"]
    for name, row in rows.items():
        kernels = sorted((Kernel.of(each, peaks) for each in row["kernels"]), key=lambda each: -each.lacking_s)
        least_s = row["kernels_s"] - sum(kernel.lacking_s for kernel in kernels)
        cells = [f"{row['whole_s'] * 1e3:.2f}", f"{least_s * 1e3:.2f}", f"{least_s / row['whole_s']:.0%}"]
        lines.append(f"| {name} | {' | '.join(cells)} | {'; '.join(map(str, kernels[:KERNELS]))} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
