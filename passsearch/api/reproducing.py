"""``reproduce``: the smallest network with random weights that still shows a fault of a pipeline."""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from passsearch.api.common import (
    Progress,
    network_session,
    progress_callback,
    read_candidate,
    run_folder,
)
from passsearch.api.results import Reproduction
from passsearch.core import (
    DEADLINE_S,
    Candidate,
    InputTypes,
    Limits,
    NetworkOptions,
    TimeLimit,
    check_arguments,
    expand_home,
    limit_or_inf,
)
from passsearch.dialects.reproduction import RUNTIME
from passsearch.errors import UserError
from passsearch.evaluate import Session
from passsearch.frontends import OnnxParts, fixed_onnx, simplify_onnx
from passsearch.store import read_result
from passsearch.studies import REPRODUCTION, FaultQuestion, reproduce_fault
from passsearch.toolchain import cache_folder
from passsearch.worker import ScratchFolder

_log = logging.getLogger(__name__)


@check_arguments
def reproduce(
    model: object,
    *,
    out: str | Path,
    pipeline: str | None = None,
    against: str | None = None,
    ratio: float | None = None,
    inputs: InputTypes | None = None,
    batch: int | None = None,
    target: str | None = None,
    toolchain: str | None = None,
    tolerance: float | None = None,
    deadline: float = DEADLINE_S,
    memory: float | None = None,
    timeout: float | None = None,
    catalogs: Any = (),
    trust: bool = False,
    progress: Progress | bool | None = None,
) -> Reproduction:
    """Find a fault of a pipeline, and write the smallest network with random weights that still shows it.

    Args:
        model: An ONNX network, or the folder of a run, whose first failed candidate is meant.
        out: Folder for ``network.onnx``, ``reproduce.py`` and ``report.json``.
        pipeline: The pipeline that fails, is wrong or slow; by default the toolchain's default.
        against: A pipeline, or ``onnxruntime``: what outputs and times are compared with. By default outputs are
            compared with unoptimised ONNX Runtime, and no times are measured.
        ratio: Least ratio of times that is a slowdown; by default 1.1 at first, and then 80 % of the logarithm of the
            ratio first seen.
        timeout: Time limit in seconds; when it is over, or you interrupt it, the smallest network so far is the result.
        progress: ``True`` for a display on standard error (the default in IPython and notebooks), or a callback.

    Returns:
        The report; ``kind`` is empty if no fault is seen, and nothing is written then.

    Raises:
        UserError: The network is not ONNX, or an argument is impossible.
        EnvironmentFault: There is no toolchain.
    """
    network, limits = NetworkOptions.of(locals()), Limits.of(locals())
    is_written = pipeline is not None
    model, pipeline = _of_run(model, pipeline)
    folder = expand_home(out)
    _require_free(folder)
    with progress_callback(progress) as report, ScratchFolder() as scratch:
        report("reading the network", 0, 0)
        session = network_session(model, None, network, limits)
        if session.model.format != "onnx":
            raise UserError(
                f"Networks are taken apart as ONNX, and `{session.model.source}` is {session.model.format}; "
                "export it as ONNX."
            )
        if session.device_kind != "cpu":
            raise UserError(f"Scripts of `reproduce` run on CPUs, and the target is `{session.target}`; name a CPU.")
        fixed = fixed_onnx(session.model, folder=cache_folder() / "models")
        question = FaultQuestion(
            _candidates(session, pipeline, against, trust=trust, warn=is_written),
            is_against_runtime=against == RUNTIME,
            ratio=ratio,
            limit=max(fixed.limit, tolerance or 0.0),
        )
        document = reproduce_fault(
            session,
            OnnxParts(simplify_onnx(fixed.file, scratch).path),
            question,
            folder=folder,
            scratch=scratch,
            time_limit=TimeLimit(limit_or_inf(timeout)),
            progress=report,
        )
    return Reproduction(document)


def _of_run(model: object, pipeline: str | None) -> tuple[object, str | None]:
    """Return the network and the first failed pipeline of a run folder; what is no run folder comes back as it is."""
    run = run_folder(model) if isinstance(model, str | Path) else None
    if run is None:
        return model, pipeline
    document: Mapping[str, Any] = read_result(run)
    failed = document["failed"]
    if pipeline is None and not failed:
        raise UserError(f"No candidate of the run `{run}` has failed; name a pipeline by --pipeline.")
    return document["model"]["source"], pipeline or str(failed[0]["pipeline"])


def _candidates(
    session: Session, pipeline: str | None, against: str | None, *, trust: bool, warn: bool
) -> list[Candidate]:
    first = pipeline or session.dialect.baseline.name
    others = [against] if against not in (None, RUNTIME) else []
    return [
        read_candidate(session, first, trust=trust, warn=warn),
        *(read_candidate(session, text, trust=trust) for text in others),
    ]


def _require_free(folder: Path) -> None:
    """Refuse a folder with files of others.

    Raises:
        UserError: With the folder.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())) and not (folder / REPRODUCTION).exists():
        raise UserError(f"`{folder}` exists and is no earlier result of `reproduce`; name another folder by --out.")
