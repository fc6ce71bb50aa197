"""Compares the outputs of a network with those of the reference, for one choice of rounded weights after another."""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from passsearch.core import CheckInputs
from passsearch.dialects.contract import Array
from passsearch.dialects.rounding import RoundedNetwork, Rounding
from passsearch.measure import outputs


def compare_rounded(rounding: Rounding, network: RoundedNetwork, request: Mapping[str, Any]) -> dict[str, Any]:
    """Return the comparison of every choice of the request, each with what is noted about its weights.

    A choice is a list of layers with ``kernel``, ``call``, and as ``arguments`` those of the pass that narrows weights.
    What several choices have in common is rounded once.
    """
    known: dict[str, tuple[dict[str, Array], dict[str, Array], list[str]]] = {}
    inputs = CheckInputs.from_json(request["inputs"])
    compared = []
    for choice in request["choices"]:
        weights: dict[str, Array] = {}
        activations: dict[str, Array] = {}
        notes: list[str] = []
        for layer in choice:
            key = json.dumps(layer, sort_keys=True)
            if key not in known:
                known[key] = rounding.rounded((layer["kernel"], layer["call"]), layer["arguments"])
            values, groups, lines = known[key]
            weights |= values
            activations |= groups
            notes += lines
        network.take(weights | activations)
        answer = outputs.verify(
            network,
            inputs=inputs,
            cases=request["cases"],
            outputs=Path(request["reference"]),
            reference=Path(request["reference"]),
            total_s=request.get("total_s") or math.inf,
        )
        compared.append({**answer, "notes": notes, "narrowed": len(weights), "activations": len(activations)})
    return {"compared": compared}
