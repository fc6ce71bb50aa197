"""Searches that keep the bits of a reference: are the bits equal in all, and what does that cost?

``python -m benchmarks.measurement.same_bits``: every network is tuned once without a condition, and then several times
with ``--same-bits`` and other seeds, each in a folder and with a cache of its own. The bits of all winners are compared
with those of the reference, at each number of threads. The fastest of these winners and the winner without a condition
are then timed beside each other. ``benchmarks/results/same_bits.json`` has a row for each network and target.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import passsearch
from benchmarks.common import RESULTS, network_session, options, write_row
from passsearch.core import Candidate, Failure, have_same_bits

NETWORKS = ("zoo:resnet18", "zoo:mobilenet_v2", "zoo:bert_tiny")
THREADS = (1, 2, 4)


def main() -> None:
    """Tune all networks, and write a row for each."""
    chosen = options(
        __doc__,
        ("networks", NETWORKS),
        tunes=(10, "searches that keep the bits"),
        seconds=(120.0, "time limit of each search"),
        reference=("recommended", "what has the bits"),
        target=("", "TVM's target; this machine's by default"),
    )
    for network in chosen.networks:
        with TemporaryDirectory() as folder:
            row = _row(network, chosen, Path(folder))
        name = f"{network} {chosen.target}".strip()
        write_row(RESULTS / "same_bits.json", "networks", name=name, row=row, session=network_session(network))
        print(name, row, flush=True)


def _row(network: str, chosen: Any, folder: Path) -> dict[str, Any]:
    common: dict[str, Any] = {"target": chosen.target or None, "timeout": chosen.seconds, "confirm": 0, "rivals": ()}
    free = passsearch.tune(network, out=folder / "free", remember=False, **common)
    kept = [
        passsearch.tune(
            network, same_bits=chosen.reference, seed=seed, out=folder / f"kept{seed}", remember=False, **common
        )
        for seed in range(chosen.tunes)
    ]
    bits = kept[0].document["same_bits"]["bits"]
    candidates = [Candidate.from_json(each.document["best"]) for each in kept]
    equal = {str(threads): _equal(network, candidates, bits, chosen.target, threads) for threads in THREADS}
    fastest = min(kept, key=lambda each: each.document["best"]["latency_s"]["median"])
    return {
        "tunes": len(kept),
        "pipelines": len(set(map(str, candidates))),
        "equal": equal,
        "refused": [each.document["same_bits"]["refused"] for each in kept],
        **_cost(network, free.run, fastest.run, chosen.target),
    }


def _equal(
    network: str, candidates: Sequence[Candidate], bits: Mapping[str, str], target: str, threads: int
) -> int | str:
    """Return how many candidates have these bits with this number of threads; the reason where one fails."""
    equal = 0
    with (
        patch("passsearch.evaluate.session.physical_cores", return_value=threads),
        passsearch.session(network, target=target or None, remember=False) as evaluator,
    ):
        for candidate in candidates:
            built = evaluator.build_candidate(candidate)
            if isinstance(built, Failure):
                return built.reason
            equal += have_same_bits(built.agreement.bits, bits) is True
    return equal


def _cost(network: str, free: Path, kept: Path, target: str) -> dict[str, Any]:
    """Return the speed of the winner that keeps the bits over that of the other one, timed beside each other."""
    comparison = passsearch.compare(network, [str(free), str(kept)], target=target or None)
    pair = comparison["pairs"][-1]
    return {"speed": pair["ratio"], "interval": pair["interval"], "verdict": pair["verdict"]}


if __name__ == "__main__":
    main()
