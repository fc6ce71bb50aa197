"""What a deployment of a candidate needs: the imported network, the hashes of its IRs, digests of its outputs."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np

from passsearch.core import Candidate, Failure
from passsearch.dialects.sample_labels import read_labels
from passsearch.evaluate.apply import Applier
from passsearch.evaluate.build import Builder
from passsearch.evaluate.model_import import saved_network
from passsearch.evaluate.records import Built, Network
from passsearch.evaluate.session import DEPLOYMENT_SEED, Session
from passsearch.evaluate.signature import sign
from passsearch.store import EXPECTED, LABELS_FILE, NETWORK, SAMPLES_FILE


def deployment_record(
    built: Built,
    candidate: Candidate,
    *,
    session: Session,
    network: Network,
    applier: Applier,
    builder: Builder,
    folder: Path,
) -> dict[str, Any] | Failure:
    """Return what a deployment of a candidate needs, and write the imported network to ``folder``.

    The record names the compiler's hash after every pass and the digest of the outputs on the inputs of
    ``DEPLOYMENT_SEED``.

    Args:
        built: The candidate's artifact, with its files.
        candidate: The candidate.
        session: The session.
        network: The imported network.
        applier: Gives the states of the pipeline.
        builder: Built the artifact.
        folder: Folder that gets the network.

    Returns:
        The record, or why there is none: the artifact fails or computes other outputs on these inputs than the
        network's own framework, or a hash or the network could not be written down.
    """
    hashes: list[str] = []
    for state in applier.states(candidate.pipeline):
        found = applier.hash(state)
        if isinstance(found, Failure):
            return found
        hashes.append(found)
    expected = builder.verification.expected_outputs(built.folder, candidate)
    if isinstance(expected, Failure):
        return expected
    failure = applier.save(applier.graph.root, folder / NETWORK)
    if failure is not None:
        return failure
    sign(folder / NETWORK, saved_network(session.model.sha256))
    if builder.source.runtime:
        shutil.copyfile(builder.reference, folder / EXPECTED)
    if network.samples:
        shutil.copyfile(network.samples, folder / SAMPLES_FILE)
    if network.labels:
        np.save(folder / LABELS_FILE, read_labels(Path(network.labels)))
    return {
        "states": hashes,
        "expected": [*expected["expected"]],
        **({"bits": dict(bits)} if (bits := built.agreement.bits) else {}),
        **({"kernel_bits": calls} if (calls := expected["kernel_bits"]) else {}),
        "seed": DEPLOYMENT_SEED,
        **network.request(),
        "inputs": network.inputs_to_json(),
        "ranges": network.check.ranges_to_json(),
        **({"samples": SAMPLES_FILE} if network.samples else {}),
        "factories": {step.name: session.factories[step.name] for step in candidate.pipeline.passes},
        "tolerance": builder.verification.limit(candidate),
        "reference": builder.source.to_json(),
        "mean_tolerance": builder.verification.allowance(candidate).mean_limit,
    }
