"""How far outputs of correct builds deviate: ``python benchmarks/deviations.py``.

Prints two tables from the committed results, which ``docs/evidence/measurement.md`` quotes. All deviations are shares
of the largest output, in machine epsilons of float32:

* builds of ``tune`` and ``compare``, which are compared with the unoptimised build of the same network,
* builds of TVM beside other engines, all compared with one reference that is not TVM.

Deviations of imported networks from their frameworks, in ``networks.json``, are another comparison and not in them.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

RESULTS = Path(__file__).parent / "results"
EPSILON = float(np.finfo(np.float32).eps)
OTHER_ENGINES = ("onnxruntime", "openvino", "torch", "inductor", "xla")
"""What their names begin with; all other rows are of TVM."""


def builds(value: Any) -> Iterator[Mapping[str, Any]]:
    """Yield all records in a document whose outputs were compared with those of the unoptimised build."""
    if isinstance(value, list):
        for item in value:
            yield from builds(item)
    elif isinstance(value, dict):
        outputs = value.get("outputs")
        if isinstance(outputs, dict) and outputs.get("deviation") is not None:
            yield value
        for item in value.values():
            yield from builds(item)


def files() -> list[Path]:
    """Return the committed results, without those of GPUs: their code was compiled with fast math."""
    return sorted(file for file in RESULTS.rglob("*.json") if file.parent.name != "gpu")


def from_unoptimised() -> Iterator[tuple[str, str, float, str]]:
    """Yield file, number of builds, largest deviation and the build that has it."""
    for file in files():
        document = json.loads(file.read_text())
        # One file has the runs of several networks.
        for network, part in document.get("runs", {"": document}).items() if isinstance(document, dict) else ():
            found = list(builds(part))
            if found:
                worst = max(found, key=lambda build: build["outputs"]["deviation"])
                # A winner is a trial too, and the baseline is a row of its own.
                number = len({build.get("binary", build["pipeline"]) for build in found})
                name = " ".join((str(file.relative_to(RESULTS).with_suffix("")), network)).strip()
                yield name, str(number), worst["outputs"]["deviation"], worst["name"] or worst["pipeline"]


def beside_engines() -> Iterator[tuple[str, str, dict[str, float]]]:
    """Yield file, reference and the deviation of every engine or pipeline of TVM."""
    for file in files():
        document = json.loads(file.read_text())
        name = str(file.relative_to(RESULTS).with_suffix(""))
        if isinstance(document, dict) and "engines" in document:
            yield name, document["reference"], _deviations(document["engines"].items())
        elif isinstance(document, dict) and "references" in document:
            pairs = ((f"{row['engine']} batch {row['batch']}", row) for row in document["rows"])
            yield name, ", ".join(dict.fromkeys(document["references"])), _deviations(pairs)


def _deviations(rows: Any) -> dict[str, float]:
    return {name: row["deviation"] for name, row in rows if row.get("deviation") is not None}


def _largest(deviations: Mapping[str, float]) -> str:
    name = max(deviations, key=lambda key: deviations[key])
    return f"{deviations[name] / EPSILON:.1f} | `{name}`"


def main() -> None:
    """Print the tables."""
    lines = ["| result | binaries | largest deviation from the unoptimised build | of |", "|---|---:|---:|---|"]
    for name, number, deviation, build in from_unoptimised():
        lines.append(f"| {name} | {number} | {deviation / EPSILON:.1f} | `{build}` |")
    lines += ["", "| result | reference | TVM, largest | of | others, largest | of |", "|---|---|---:|---|---:|---|"]
    for file, reference, deviations in beside_engines():
        tvm = {name: value for name, value in deviations.items() if not name.startswith(OTHER_ENGINES)}
        others = {name: value for name, value in deviations.items() if name not in tvm}
        lines.append(f"| {file} | {reference} | {_largest(tvm)} | {_largest(others)} |")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
