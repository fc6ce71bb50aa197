"""The first node of a network whose value the import computes otherwise than the network's own framework."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from passsearch.core import BuildOptions
from passsearch.errors import EnvironmentFault, UserError, WorkerDied
from passsearch.evaluate.model_import import loadable_model
from passsearch.evaluate.pool import WorkerPool
from passsearch.evaluate.records import Network
from passsearch.evaluate.session import Session
from passsearch.evaluate.source_process import ask_source
from passsearch.frontends import first_difference, with_all_program_values, with_all_values
from passsearch.worker import ScratchFolder

VALUES = {"onnx": with_all_values, "exported": with_all_program_values}
"""Functions that make all values of a file outputs, by format."""


def locate_difference(session: Session, *, case: int | str, network: Network, pool: WorkerPool, limit: float) -> str:
    """Return, in words, the first node whose value differs, or why none could be named.

    All values become outputs, in the source and in the import, so one build finds it.

    Args:
        session: The session.
        case: Inputs on which outputs differ.
        network: The imported network.
        pool: Starts the processes.
        limit: Largest deviation that rounding explains.
    """
    if session.model.format not in VALUES:
        return "the first node that differs is not known for this format"
    node = ""
    try:
        for one, sized in _single_cases(session, network):
            with ScratchFolder() as folder:
                node = node or _first_node(one, case=case, network=sized, pool=pool, limit=limit, folder=folder)
    except (UserError, EnvironmentFault, WorkerDied) as error:
        return f"the first node that differs could not be found ({error})"
    if node:
        return f"the first node that differs is {node}"
    if session.model.live is not None:
        return "no node differs from the file that was exported, so the export or a branch that it froze is at fault"
    return "no node differs where all values are outputs"


def _single_cases(session: Session, network: Network) -> Iterator[tuple[Session, Network]]:
    """Yield the network at each of its sizes, as a network of one size."""
    if not network.cases:
        yield session, network
    for case in network.cases:
        model = replace(session.model, inputs=case.inputs, cases=())
        ranges = {
            name: network.ranges[full] for name in case.inputs if (full := case.full_name(name)) in network.ranges
        }
        sized = replace(network, inputs=case.inputs, ranges=ranges, cases=(), samples="", sample_count=0)
        yield replace(session, model=model), sized


def _first_node(
    session: Session, *, case: int | str, network: Network, pool: WorkerPool, limit: float, folder: Path
) -> str:
    # Records have the seed of random inputs as text.
    case = int(case) if str(case).isdigit() else case
    model, values = VALUES[session.model.format](session.model, folder)
    session = replace(session, model=model)
    expected = folder / "expected.npz"
    request = {"cases": [case], "outputs": str(expected), "total_s": session.limits.deadline_s, **network.request()}
    ask_source(session, request, log=folder / "source.log")
    answer = pool.ask_new(
        "build",
        {
            "verb": "deviations",
            "source": loadable_model(session, folder).to_request(),
            "options": BuildOptions().to_json(),
            "folder": str(folder / "built"),
            "device": session.device,
            "case": case,
            "expected": str(expected),
            **network.request(),
        },
    )
    if "failure" in answer:
        raise UserError(str(answer["failure"]["reason"]))
    deviations = {place: float(deviation) for place, deviation in enumerate(answer["deviations"])}
    return first_difference(values, deviations, limit=limit)
