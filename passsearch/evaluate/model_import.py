"""The import of a network into the compiler.

A file of a framework is imported by a process of its own, which writes IR. The compiling worker loads that IR.
"""

import hashlib
import json
import logging
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from passsearch.analysis import input_ranges
from passsearch.core import (
    MACHINE_FAULTS,
    NOTICE_LOG,
    CheckInputs,
    Json,
    ModuleSummary,
    replace_durably,
    require_trust,
)
from passsearch.dialects.case_inputs import with_samples
from passsearch.errors import EnvironmentFault, UserError, WorkerDied
from passsearch.evaluate.code_digest import dialect_digest
from passsearch.evaluate.compiler import load_request
from passsearch.evaluate.facts import FactStore
from passsearch.evaluate.pool import RETRIED, SPOILS, WorkerPool
from passsearch.evaluate.records import Network
from passsearch.evaluate.session import Session
from passsearch.evaluate.signature import Origin, is_signed, sign
from passsearch.frontends import (
    ModelFile,
    cache_file_name,
    find_code,
    simplifier_version,
    simplify_onnx,
    temporary_subfolder,
)
from passsearch.store import NETWORK, Fact
from passsearch.toolchain import target_options
from passsearch.worker import Worker

ADVICE = "run: passsearch toolchain install {dialect} --with {name} (or install it beside your own TVM)"

NO_GRAPH = ModuleSummary((), ())

_log = logging.getLogger(__name__)
_notices = logging.getLogger(NOTICE_LOG)


def loadable_model(session: Session, folder: Path) -> ModelFile:
    """Return the session's model as a file that every worker can load.

    A file of a framework is imported by a process that ends with the import: some frameworks crash beside others, some
    only load before the compiler, and all start threads, which a forking worker must not have. The constant parts of an
    ONNX file are evaluated first. Where a compiler refuses a network in one format, it gets another one that the front
    end can write.

    Args:
        session: The session.
        folder: Folder for imported networks. Their names are made from everything that decides their content.

    Raises:
        UserError: The toolchain lacks the framework, or the importer refuses the network.
        EnvironmentFault: The importing process died.
    """
    otherwise = session.model.otherwise
    if otherwise is None:
        return _loadable(session, folder)
    try:
        return _imported(session, folder)
    except UserError as error:
        refusal = str(error).rstrip(".")
    try:
        other = replace(session, model=otherwise())
        loaded = _imported(other, folder)
    except UserError as error:
        raise UserError(f"{refusal}; as a file of PyTorch: {error}") from error
    _notices.warning("%s. It is imported as %s instead.", refusal, other.model.format)
    return loaded


def _loadable(session: Session, folder: Path) -> ModelFile:
    """Return a file that a forking worker can load: the model's own where its format allows, else imported IR."""
    if session.model.format in session.dialect.isolated_imports:
        return _imported(session, folder)
    return _simplified(session.model, folder) if session.model.format == "onnx" else session.model


def _simplified(model: ModelFile, folder: Path) -> ModelFile:
    """Return an ONNX file whose constant parts are evaluated, and one for each case of fixed sizes."""
    # With known sizes more of a network is constant, and the importer refuses some networks with less.
    paths = {
        case.entry: simplify_onnx(replace(model, inputs=case.inputs, cases=()), folder).path
        for case in model.cases
        if not case.is_symbolic
    }
    return replace(simplify_onnx(model, folder), case_paths=paths)


def _imported(session: Session, folder: Path) -> ModelFile:
    """Return the file of the model's IR, imported by a process of its own unless that file exists."""
    model = session.model
    imported = folder / cache_file_name(model.name, import_digest(session), suffix="")
    if not _is_whole(imported):
        folder.mkdir(parents=True, exist_ok=True)
        _log.info("importing %s in a process of its own", model.source)
        source = simplify_onnx(model, folder) if model.format == "onnx" else model
        _import_into(imported, replace(session, model=source), log=folder / "import.log")
    # Inputs, batch and parameters are part of the IR by now.
    cases = tuple(replace(case, function=case.entry) for case in model.cases)
    bound = replace(model, inputs={}, batch=None, parameters=None, function="", cases=cases, otherwise=None)
    return replace(bound, path=imported / NETWORK, format="ir")


def _is_whole(imported: Path) -> bool:
    """Return whether the folder of an imported network is as its import left it; a damaged one is removed."""
    if not imported.exists() or is_signed(imported, {"import": imported.name}):
        return imported.exists()
    _log.warning("`%s` is damaged; the network is imported again.", imported)
    # Another process may have removed it meanwhile.
    with temporary_subfolder(imported.parent) as temporary, suppress(FileNotFoundError):
        imported.replace(temporary / "damaged")
    return False


def framework_worker(session: Session, *, log: Path, threads: int) -> Worker:
    """Start a process of the toolchain that has the frameworks of the network's format.

    Args:
        session: The session with the network.
        log: File that collects what the process prints.
        threads: Its number of threads.
    """
    dialect = session.dialect
    frameworks = dialect.isolated_imports.get(session.model.format, ())
    return Worker(
        session.toolchain.python,
        bridge=dialect.bridge,
        target=session.target,
        threads=threads,
        log=log,
        first={name: ADVICE.format(dialect=dialect.name, name=name) for name in frameworks},
        memory_bytes=session.limits.memory_bytes,
    )


def _import_into(imported: Path, session: Session, *, log: Path) -> None:
    worker = framework_worker(session, log=log, threads=1)
    try:
        # Beside its destination, so that the rename stays within one file system.
        with temporary_subfolder(imported.parent) as temporary:
            _import(worker, session, folder=temporary / "imported")
            _publish(temporary / "imported", imported)
    except WorkerDied as error:
        raise EnvironmentFault(
            f"The process that imported `{session.model.source}` crashed ({error}). Its last output is in `{log}`; "
            "export ONNX instead."
        ) from error
    finally:
        worker.close()


def _publish(folder: Path, imported: Path) -> None:
    sign(folder, {"import": imported.name})
    try:
        replace_durably(folder, imported)
    except OSError:
        if not imported.exists():  # another process may have imported the same network meanwhile
            raise


def _import(worker: Worker, session: Session, *, folder: Path) -> None:
    folder.mkdir()
    request = {"verb": "import", "source": session.model.to_request(), "path": str(folder / NETWORK)}
    answer = worker.ask(request, deadline_s=session.limits.deadline_s)
    source = session.model.source
    # A full disk or too little memory says nothing about the network, so the advice differs.
    if answer.get("error", {}).get("kind") in MACHINE_FAULTS:
        raise EnvironmentFault(f"Cannot import `{source}`: {answer['error']['reason']}; make room and try again.")
    if "error" in answer:
        raise UserError(_refusal(session.model, answer["error"]["reason"]))


def _refusal(model: ModelFile, reason: str) -> str:
    # An importer that knows why names the file itself, and the way round.
    text = reason if reason.startswith("Cannot import") else f"Cannot import `{model.source}`: {reason}"
    return f"{text}." if model.format == "onnx" else f"{text}; export ONNX instead."


def import_digest(session: Session) -> str:
    """Return a digest of the network, of how its inputs are bound, and of the code that imports it."""
    model, toolchain = session.model, session.toolchain
    request = model.to_request()
    identity = {
        "model": [model.sha256, model.format, request["inputs"], model.batch],
        **model.calls,
        **({"simplifier": simplifier_version()} if model.format == "onnx" else {}),
        # The interpreter too: TVMs that users built themselves may share a version.
        "tvm": [toolchain.tvm_version, toolchain.tvm_commit, str(toolchain.python)],
        "dialect": dialect_digest(toolchain.dialect),
        # Networks in 16 bits compute in float32 on CPUs.
        "device": session.device_kind,
    }
    return hashlib.sha256(json.dumps(identity).encode()).hexdigest()


def saved_network(sha256: str) -> Origin:
    """Return what the network of a run folder is of, from the digest of the file that the user named."""
    return {"network": sha256}


def check_saved_network(network: Path, document: Mapping[str, Any], *, trust: bool) -> None:
    """Refuse the network of a run folder that calls other code, unless a run of this user wrote it.

    Args:
        network: The file.
        document: The run's result.
        trust: True to run what it calls.

    Raises:
        UserError: The network calls other code and another user may have written it, or the target has options of LLVM
            itself, and the folder is not trusted.
    """
    origin, target = saved_network(str(document["model"]["sha256"])), str(document["target"])
    code = [] if is_signed(network, origin) else find_code(network)
    require_trust(network, [*code, *find_options(target)], trust=trust)


def find_options(target: str) -> list[str]:
    """Return, in words, the options of LLVM in a target that a file describes: some of them write files."""
    # A target may be JSON, where letters can be written as numbers.
    text = str(target_options(target) or target)
    return [f"options of LLVM in the target `{target}`"] if "cl-opt" in text else []


def import_network(facts: FactStore, pool: WorkerPool, *, session: Session, source: Mapping[str, Any]) -> Network:
    """Import the network, or read the record of an earlier import.

    Raises:
        UserError: The network cannot be imported. Nothing is recorded, so that the user can correct the call.
        EnvironmentFault: The machine keeps the network from being imported.
    """

    def load() -> Fact:
        answer = _load_once(pool, session, source)
        if (kind := answer.get("error", {}).get("kind")) in RETRIED:
            _log.warning("importing %s: %s; trying once more", source["path"], answer["error"]["reason"])
            if kind in SPOILS:
                pool.close()
            answer = _load_once(pool, session, source)
        if "error" not in answer:
            # Recorded, because the reference and all later checks have to be on the same inputs.
            return {**answer, "ranges": _ranges(Network.from_fact(answer), session)}
        kind, reason = answer["error"]["kind"], answer["error"]["reason"]
        if kind in SPOILS:
            raise EnvironmentFault(f"Cannot import `{source['path']}`: {reason}; make room and try again.")
        raise UserError(f"Cannot import `{source['path']}`: {reason}.")

    _log.info("importing %s with %s", session.model.source, session.toolchain.name)
    network = Network.from_fact(facts.recall_or_record("load", "", load))
    samples = session.model.samples
    if samples is None:
        return network
    check, labels = with_samples(network.check, samples), session.budget and session.budget.labels
    return network.with_check(replace(check, labels=str(labels)) if labels else check)


def _ranges(network: Network, session: Session) -> dict[str, Json]:
    """Return the ranges of the network's inputs in the form of facts."""
    ranges = session.model.ranges
    if ranges is None and not network.cases:
        ranges = input_ranges(network.summary, network.inputs)
    elif ranges is None:
        ranges = {}
        for case in network.cases:
            # The graph is that of the first case's function.
            graph = network.summary if case.function == network.cases[0].function else NO_GRAPH
            ranges |= {case.full_name(name): range_ for name, range_ in input_ranges(graph, case.inputs).items()}
    return CheckInputs(network.inputs, ranges).ranges_to_json()


def _load_once(pool: WorkerPool, session: Session, source: Mapping[str, Any]) -> dict[str, Any]:
    try:
        return pool.compiler().ask(load_request(source, summary=True), deadline_s=session.limits.deadline_s)
    except WorkerDied as error:
        return {"error": {"kind": error.kind, "reason": f"the compiler died ({error})"}}
