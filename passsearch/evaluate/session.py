"""One network on one toolchain for one target: what every command needs before it can evaluate anything."""

import hashlib
import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path

import psutil

from passsearch.catalog import Catalog, load
from passsearch.core import DEADLINE_S
from passsearch.dialects import Dialect, dialect
from passsearch.errors import UserError
from passsearch.evaluate.apply import OUTPUT_CASES, Subject
from passsearch.evaluate.evaluator import Evaluator
from passsearch.evaluate.model_import import dialect_digest, imported
from passsearch.frontends import ModelFile
from passsearch.measure import Sensors, probe
from passsearch.store import STATES, Log
from passsearch.toolchain import Toolchain, cache_folder, get_toolchain, host_target
from passsearch.worker import Worker

MOST_COMPILERS = 8

MEMORY_VERSION = 1
"""Grows when what is remembered changes its meaning."""


@dataclass(frozen=True)
class Session:
    """What is compiled by what, for what, and judged how.

    Attributes:
        model: The model file.
        toolchain: Whose TVM compiles it.
        target: TVM's target.
        catalog: Passes, sequences and class rules, the user's own included.
        tolerance: Largest deviation of outputs, as a share of the largest reference output, of pipelines with a pass
            that may change numerics; ``None`` judges them as strictly as all others.
        deadline_s: Longest time one request to a worker may take.
        paths: Import paths of the user's own passes.
        own_factories: ``module:function`` of passes that the catalog does not have.
        catalogs_sha256: Digest of the user's catalog files and of the modules beside them; empty without any.
    """

    model: ModelFile
    toolchain: Toolchain
    target: str
    catalog: Catalog
    tolerance: float | None = None
    deadline_s: float = DEADLINE_S
    paths: tuple[str, ...] = ()
    own_factories: Mapping[str, str] = field(default_factory=dict)
    catalogs_sha256: str = ""

    @property
    def dialect(self) -> Dialect:
        """The dialect the toolchain's TVM has."""
        return dialect(self.toolchain.dialect)

    @property
    def device(self) -> str:
        """The device kernels run on, from the target's kind."""
        return device_of(self.target)

    @property
    def device_kind(self) -> str:
        """``cpu`` or ``gpu``, as the catalog tells passes for either."""
        return "cpu" if self.device == "cpu" else "gpu"

    @cached_property
    def sensors(self) -> Sensors:
        """What can be read on this device; probed once."""
        return probe(self.device)

    @property
    def gpu(self) -> str | None:
        """UUID of the GPU that kernels run on."""
        return str(self.sensors.device["uuid"]) if "uuid" in self.sensors.device else None

    @property
    def idle(self) -> str:
        """Why nothing that is compiled for the target runs on this machine; empty where it does."""
        if self.device != "cpu":
            hidden = os.environ.get("CUDA_VISIBLE_DEVICES") == ""
            # NVML does not know every GPU that CUDA does, as a part of one; the toolchain saw it when it was added.
            known = self.gpu is not None or (self.toolchain.cuda_device and not hidden)
            return "" if known else f"no GPU here: {self.sensors.unavailable['power_w']}"
        triple = re.search(r"-mtriple=([^-\s]+)", self.target)
        host = self.toolchain.host_triple.partition("-")[0]
        return "" if triple is None or triple[1] == host else f"this machine is {host}, the target is {triple[1]}"

    @property
    def threads(self) -> int:
        """Kernel threads: one for each physical core this process may use."""
        return min(len(os.sched_getaffinity(0)), psutil.cpu_count(logical=False) or 1)

    @property
    def factories(self) -> Mapping[str, str]:
        """``module:function`` of every pass."""
        return {**{name: entry.factory for name, entry in self.catalog.entries.items()}, **self.own_factories}

    @property
    def phases(self) -> Mapping[str, tuple[str, ...]]:
        """In which an IR must be for a pass to be applied, of the passes that are not at home in all."""
        return {name: entry.phases for name, entry in self.catalog.entries.items() if entry.phases}

    @property
    def explorers(self) -> int:
        """Compilers that may work side by side; each holds the network's weights."""
        return min(self.threads, MOST_COMPILERS)

    @property
    def memory(self) -> Path:
        """The file of what is known of this network with this compiler on this device, whoever found it out."""
        identity = {
            "version": MEMORY_VERSION,
            "model": self.model.sha256,
            "inputs": [[name, str(kind)] for name, kind in self.model.inputs.items()] + [self.model.batch],
            "target": self.target,
            "tvm": [self.toolchain.tvm_version, self.toolchain.tvm_commit, str(self.toolchain.python)],
            "catalogs": self.catalogs_sha256,
            "factories": dict(self.factories),
            "phases": {name: list(phases) for name, phases in self.phases.items()},
            "threads": self.threads,
            "device": dict(self.sensors.device),
            "passes": dialect_digest(self.toolchain.dialect),
        }
        digest = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()
        return cache_folder() / "memory" / f"{self.model.name}-{digest[:16]}.jsonl"

    def evaluator(
        self,
        log: Log,
        folder: Path,
        *,
        memory: Log | None = None,
        output_cases: tuple[int | str, ...] = OUTPUT_CASES,
    ) -> Evaluator:
        """An evaluator for this setting that keeps its files in ``folder``."""
        folder.mkdir(parents=True, exist_ok=True)
        start = partial(
            Worker,
            self.toolchain.python,
            bridge=self.dialect.bridge,
            target=self.target,
            log=folder / "workers.log",
            paths=self.paths,
            gpu=self.gpu,
            states=folder / STATES,
            sharers=self.explorers,
        )
        loadable = imported(
            self.model,
            toolchain=self.toolchain,
            dialect=self.dialect,
            target=self.target,
            folder=cache_folder() / "models",
            deadline_s=self.deadline_s,
        )
        subject = Subject(
            source=loadable.to_request(),
            factories=self.factories,
            start=lambda threads: start(threads=threads),
            device=self.device,
            threads=self.threads,
            approximates=self.catalog.approximates,
            tolerance=self.tolerance,
            deadline_s=self.deadline_s,
            output_cases=output_cases,
            meter=self.sensors.meter,
            lock=cache_folder() / "locks" / f"{self.gpu}.lock" if self.gpu else None,
            idle=self.idle,
            phases=self.phases,
        )
        return Evaluator(subject, log=log, artifacts=folder, memory=memory)


def device_of(target: str) -> str:
    """The device that runs what is compiled for a target, from the target's kind."""
    return "cuda:0" if target.startswith(("cuda", "nvidia/")) else "cpu"


def open_session(
    model: ModelFile,
    *,
    toolchain: str | None,
    target: str | None,
    catalogs: Sequence[Path] = (),
    tolerance: float | None = None,
    deadline_s: float = DEADLINE_S,
) -> Session:
    """Choose the toolchain and the target and load the catalog.

    Raises:
        EnvironmentFault: No toolchain is installed.
        UserError: Unknown toolchain, one that cannot import the network, a catalog file that cannot be read, or a
            target that leaves open which GPU is meant where there is none.
    """
    chosen = get_toolchain(toolchain or model.toolchain)
    formats = dialect(chosen.dialect).formats
    if model.format not in formats:
        raise UserError(
            f"`{model.source}` is {model.format}, and toolchain `{chosen.name}` ({chosen.dialect}) imports "
            f"{', '.join(sorted(formats))}; export ONNX, or choose another toolchain."
        )
    return Session(
        model=model,
        toolchain=chosen,
        target=_with_architecture(target) if target else host_target(chosen),
        catalog=load(chosen.dialect, *catalogs),
        tolerance=tolerance,
        deadline_s=deadline_s,
        paths=tuple(sorted({str(path.resolve().parent) for path in catalogs})),
        catalogs_sha256=_digest(catalogs),
    )


def _with_architecture(target: str) -> str:
    """A target of CUDA with the architecture of the GPU that will run it, where it names none.

    TVM would ask the driver for it, in a process whose forks could not use CUDA from then on.
    """
    if target.split()[0] != "cuda" or re.search(r"\s-+arch[=\s]", target):
        return target
    found = probe(device_of(target))
    if "arch" not in found.device:
        raise UserError(
            f"Target `{target}` names no architecture, and no GPU here tells one ({found.unavailable['power_w']}). "
            f"Give it, for example: {target} -arch=sm_80"
        )
    return f"{target} -arch={found.device['arch']}"


def _digest(catalogs: Sequence[Path]) -> str:
    """A digest that changes with the user's entries and with the code of their passes."""
    modules = {module for path in catalogs for module in path.resolve().parent.glob("*.py")}
    files = sorted({path.resolve() for path in catalogs} | modules)
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest() if files else ""
