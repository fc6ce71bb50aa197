"""The outputs of a network's own framework, written as the reference that builds are compared with. numpy only."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from passsearch.core import Case, CheckInputs
from passsearch.dialects.contract import SourceNetwork
from passsearch.measure import outputs
from passsearch.measure.mixture import Mixture


def source_outputs(network: SourceNetwork, request: Mapping[str, Any]) -> dict[str, Any]:
    """Run a network by its own framework and write its outputs, in the form of the request ``source``.

    Returns:
        ``runtime`` and ``outputs`` (see ``SourceNetwork``), and ``mismatch``: the reason why these outputs can be no
        reference; empty without one.
    """
    cases = [Case.from_json(case) for case in request.get("calls", ())]
    answer = outputs.verify(
        Mixture(network, cases) if cases else network,
        inputs=CheckInputs.from_json(request["inputs"]),
        cases=request["cases"],
        outputs=Path(request["outputs"]),
        reference=None,
        total_s=request["total_s"],
    )
    return {"runtime": network.runtime, "outputs": list(network.output_names), "mismatch": answer["mismatch"]}
