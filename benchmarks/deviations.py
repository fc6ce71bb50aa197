"""How far outputs of correct pipelines deviate: ``python benchmarks/deviations.py``.

Prints the Markdown of ``docs/measurement.md`` from the committed results: by network, how many builds were compared
with the unoptimised one, and the largest deviation among those that passed, in machine epsilons of float32.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

RESULTS = Path(__file__).parent / "results"
EPSILON = float(np.finfo(np.float32).eps)


def deviations(value: Any) -> Iterator[float]:
    """Yield all deviations in a document, as shares of the largest output."""
    if isinstance(value, list):
        for item in value:
            yield from deviations(item)
    elif isinstance(value, dict):
        outputs = value.get("outputs")
        if isinstance(outputs, dict) and outputs.get("deviation") is not None:
            yield outputs["deviation"]
        for key, item in value.items():
            # A winner and a member of the front are trials too.
            if key not in ("best", "pareto"):
                yield from deviations(item)


def main() -> None:
    """Print the table."""
    lines = ["| network | builds compared | largest deviation, epsilons |", "|---|---|---|"]
    for file in sorted(RESULTS.glob("rel*/**/*.json")):
        found = list(deviations(json.loads(file.read_text())))
        if found:
            dialect = file.relative_to(RESULTS).parts[0]
            lines.append(f"| {file.stem}, {dialect} | {len(found)} | {max(found) / EPSILON:.1f} |")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
