"""One network on one toolchain for one target: the record that all evaluation starts from."""

import hashlib
import json
import logging
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from passsearch.catalog import Catalog, load
from passsearch.core import (
    DEADLINE_S,
    FLOAT32,
    SOURCE,
    Candidate,
    ErrorBudget,
    PassSpec,
    SameBits,
    physical_cores,
    safe_file_name,
)
from passsearch.dialects import Dialect, dialect
from passsearch.errors import UserError
from passsearch.evaluate.code_digest import dialect_digest
from passsearch.evaluate.devices import complete_target, device_lock, device_of, has_driver
from passsearch.evaluate.plans import MeasurementPlans
from passsearch.frontends import ModelFile, simplifier_version
from passsearch.measure import Sensors, probe
from passsearch.standalone.deployment.input_values import EDGES
from passsearch.toolchain import (
    Toolchain,
    cache_folder,
    get_toolchain,
    host_target,
    target_triple,
)

# Every compiler holds the network's weights, and together they may fill 40 % of the machine's memory with states
# (`STATE_MEMORY_SHARE` of `worker.client`).
MOST_COMPILERS = 8
"""Largest number of compilers that explore side by side."""

FACT_CACHE_VERSION = 7
"""Grows when cached facts change their meaning."""

# Edge inputs show what random ones do not: overflows, divisions by a sum that is zero, and what becomes of NaN.
OUTPUT_CASES: tuple[int | str, ...] = (1, 2, 3, *EDGES)
"""Seeds of random inputs, and edge inputs, on which outputs are compared."""

# `OUTPUT_CASES` has the seeds 1 to 3.
DEPLOYMENT_SEED = 4
"""Seed of the inputs whose outputs a deployment compares; searches use other seeds."""

# Outputs that agree on the inputs of the search may agree there only.
AUDIT_CASES: tuple[int | str, ...] = (101, 102, 103, *EDGES)
"""Inputs on which an audit compares outputs: seeds that no search or deployment uses, and edge inputs."""

RUN_SHARE, LEAST_SHARE_S = 0.25, 20.0
"""Part of a run's time limit that one pass or one build may take, and seconds that it may take in a short run.

TVM has passes and builds that do not end on some networks. A search that waits for one has time for others afterwards.
"""

TIMES_SLOWEST, MOST_RUN_SHARE = 5.0, 0.5
"""Times as long as the slowest build so far that a build may take, and part of the run that it may take even then."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class WorkerLimits:
    """What one worker may use.

    Attributes:
        deadline_s: Longest time one request to a worker may take.
        memory_bytes: Memory of one worker, and of each of its forks; ``None`` for a share of the machine's.
        timeout_s: Time limit of the run that the worker is of; infinite without one.
    """

    deadline_s: float = DEADLINE_S
    memory_bytes: int | None = None
    timeout_s: float = math.inf

    @property
    def share_s(self) -> float:
        """Part of the run that one pass or one build may take, in seconds."""
        return min(self.deadline_s, max(self.timeout_s * RUN_SHARE, min(self.timeout_s, LEAST_SHARE_S)))

    def longest_build_s(self, slowest_s: float) -> float:
        """Return the longest time of a build, of which the slowest so far took ``slowest_s``; both in seconds."""
        return min(self.deadline_s, max(self.share_s, min(TIMES_SLOWEST * slowest_s, self.timeout_s * MOST_RUN_SHARE)))

    def deadline_of(self, verb: str) -> float:
        """Return the longest time of a request in seconds, if nothing else is said with the request."""
        # Only these: a run imports the network, builds the baseline and confirms the winner beyond its time limit.
        return self.share_s if verb in ("apply", "variants") else self.deadline_s


@dataclass(frozen=True)
class RecordedReference:
    """What a finished run compared outputs with.

    Attributes:
        record: The key ``reference`` of the run's result.
        file: File with the outputs; it may be missing.
    """

    record: Mapping[str, Any]
    file: Path


@dataclass(frozen=True)
class Session:
    """A network, its compiler and its device, and the rules by which outputs are judged and artifacts are timed.

    Attributes:
        model: The model file.
        toolchain: The interpreter with the TVM that compiles it.
        target: TVM's target.
        catalog: Passes, sequences and class rules, the user's own included.
        tolerance: Largest deviation of outputs, as a share of the largest reference output, of pipelines with a pass
            that may change numerics; ``None`` judges them as strictly as all others.
        budget: What pipelines that store weights in fewer bits may change; ``None`` for ``tolerance``.
        limits: Time and memory that one worker may use.
        paths: Import paths of the user's own passes.
        own_factories: ``module:function`` of passes that the catalog does not have.
        catalogs_sha256: Digest of the user's catalog files and of the modules and packages beside them; empty
            without any.
        output_cases: Inputs on which outputs are compared with the reference.
        plans: Plans by which artifacts are timed.
        probe_sensors: Function that finds the sensors of a device.
        reference: What outputs are compared with, one of ``REFERENCES``.
        recorded: What the outputs of a finished run were compared with, and the file of these outputs.
        same_bits: The bits that a search must keep; ``None`` for any.
        precision: ``TF32`` for the catalog in TF32, else ``FLOAT32``.
    """

    model: ModelFile
    toolchain: Toolchain
    target: str
    catalog: Catalog
    tolerance: float | None = None
    budget: ErrorBudget | None = None
    limits: WorkerLimits = field(default_factory=WorkerLimits)
    paths: tuple[str, ...] = ()
    own_factories: Mapping[str, str] = field(default_factory=dict)
    catalogs_sha256: str = ""
    output_cases: tuple[int | str, ...] = OUTPUT_CASES
    plans: MeasurementPlans = field(default_factory=MeasurementPlans)
    probe_sensors: Callable[[str], Sensors] = probe
    reference: str = SOURCE
    recorded: RecordedReference | None = None
    same_bits: SameBits | None = None
    precision: str = FLOAT32

    @property
    def dialect(self) -> Dialect:
        """Dialect of the toolchain's TVM."""
        return dialect(self.toolchain.dialect)

    @property
    def device(self) -> str:
        """Device that kernels run on, from the target's kind."""
        return device_of(self.target)

    @property
    def device_kind(self) -> str:
        """``cpu`` or ``gpu``, as catalog entries name devices."""
        return "cpu" if self.device == "cpu" else "gpu"

    @cached_property
    def sensors(self) -> Sensors:
        """Sensors of the device; they are probed once."""
        return self.probe_sensors(self.device)

    @property
    def gpu(self) -> str | None:
        """UUID of the GPU that kernels run on."""
        return str(self.sensors.device["uuid"]) if "uuid" in self.sensors.device else None

    @property
    def device_lock(self) -> Path | None:
        """File that is locked while kernels run on the device, so that searches take turns; ``None`` for a CPU."""
        return device_lock(self.gpu)

    @property
    def cannot_run_reason(self) -> str:
        """Reason why nothing compiled for the target runs on this machine; empty where it runs.

        Where it is set, outputs are not compared and nothing is timed: a candidate only has a compile time.
        """
        if self.device != "cpu":
            # CUDA ends its list at the first name of no device, so an empty variable or -1 hides all GPUs.
            first = os.environ.get("CUDA_VISIBLE_DEVICES", "0").partition(",")[0].strip()
            hidden = not (first.isdecimal() or first.startswith(("GPU-", "MIG-")))
            # NVML does not list every GPU that CUDA can use, for example a MIG slice. The toolchain saw the device when
            # it was added, perhaps on another machine that shares its folder: this one must have a driver, too.
            usable = self.gpu is not None or (self.toolchain.cuda_device and has_driver() and not hidden)
            return "" if usable else f"no GPU here: {self.sensors.unavailable['power_w']}"
        # Kernels for another CPU family cannot run here. Those for a newer CPU of the same family are the user's
        # choice.
        family, host = (triple.partition("-")[0] for triple in (target_triple(self.target), self.toolchain.host_triple))
        return "" if family in ("", host) else f"this machine is {host}, the target is {family}"

    @property
    def threads(self) -> int:
        """Number of kernel threads: one for each physical core this process may use."""
        return physical_cores()

    @property
    def factories(self) -> Mapping[str, str]:
        """``module:function`` of every pass, by name."""
        return {**{name: entry.factory for name, entry in self.catalog.entries.items()}, **self.own_factories}

    @property
    def reference_steps(self) -> tuple[PassSpec, ...]:
        """Passes of the build whose outputs all others are compared with, where the catalog has them."""
        names = self.dialect.reference_passes if self.device_kind == "cpu" else ()
        return tuple(map(PassSpec.of, names)) if {*names} <= {*self.factories} else ()

    @property
    def phases_by_pass(self) -> Mapping[str, tuple[str, ...]]:
        """Phases of the IR in which each pass may be applied, by name; passes without an entry apply in all phases."""
        return {name: entry.phases for name, entry in self.catalog.entries.items() if entry.phases}

    @property
    def explorers(self) -> int:
        """Number of compilers that may work side by side."""
        return min(self.threads, MOST_COMPILERS)

    @property
    def cache_path(self) -> Path:
        """File of the fact cache for this network with this compiler on this device."""
        identity = {
            **self._compiler_identity,
            "model": [self.model.sha256, *([simplifier_version()] if self.model.format == "onnx" else [])],
            "inputs": [[name, str(kind)] for name, kind in self.model.inputs.items()] + [self.model.batch],
            **self.model.calls,
            **({"samples": self.model.samples_sha256} if self.model.samples else {}),
            "catalogs": self.catalogs_sha256,
            "phases": {name: list(phases) for name, phases in self.phases_by_pass.items()},
        }
        # The folder keeps its old name, because users' caches are in it.
        return cache_folder() / "memory" / f"{safe_file_name(self.model.name)}-{_digest(identity)}.jsonl"

    @property
    def kernel_cache_path(self) -> Path:
        """File of the times of kernels, which all networks share, with this compiler and own passes on this device."""
        # Only if there are own passes, so that caches of earlier versions stay valid.
        own = {"catalogs": self.catalogs_sha256} if self.catalogs_sha256 else {}
        return cache_folder() / "kernels" / f"{self.toolchain.name}-{_digest({**self._compiler_identity, **own})}.jsonl"

    def plans_key(self, *names: str) -> str:
        """Return what keys of measured facts end with where these plans are not the usual ones, else an empty text.

        Times by other plans are other facts. The usual ones are not named, so facts of earlier versions stay valid.
        """
        usual = MeasurementPlans()
        plans = {name: getattr(self.plans, name) for name in names}
        unusual = {name: repr(plan) for name, plan in plans.items() if plan != getattr(usual, name)}
        return f" {_digest(unusual)}" if unusual else ""

    @property
    def _compiler_identity(self) -> dict[str, object]:
        """Everything but the network that decides what a recorded fact says."""
        # A run with other values must not read the fact: an IR depends on the code of the passes, samples depend on the
        # device and on the number of threads.
        return {
            "version": FACT_CACHE_VERSION,
            "target": self.target,
            # The interpreter's path too: two TVMs that users built themselves may have one version and no commit.
            "tvm": [self.toolchain.tvm_version, self.toolchain.tvm_commit, str(self.toolchain.python)],
            "factories": dict(self.factories),
            "threads": self.threads,
            "device": dict(self.sensors.device),
            "passes": dialect_digest(self.toolchain.dialect),
        }

    def deviation_limit(self, candidate: Candidate, *, strict: float) -> float:
        """Return the largest deviation that a candidate's outputs may have; ``strict`` is the limit of exact passes."""
        tolerated = self.tolerated(candidate)
        return strict if tolerated is None else tolerated

    def has_budget(self, candidate: Candidate) -> bool:
        """Return whether the user's error budget is for this candidate: it stores weights in fewer bits."""
        return self.budget is not None and candidate.pipeline.narrows

    def tolerated(self, candidate: Candidate) -> float | None:
        """Return the deviation that the user allows a candidate's outputs; ``None`` for the strict limit."""
        if self.budget is not None and self.has_budget(candidate):
            return self.budget.bound
        # A tolerance for everyone would hide the errors of exact passes: a limit of 1e-3 is about 400 times the
        # deviation of correct float32 pipelines (docs/evidence/measurement.md).
        return self.tolerance if self.catalog.approximates(candidate) else None


def open_session(
    model: ModelFile,
    *,
    toolchain: str | None,
    target: str | None,
    catalogs: Sequence[Path] = (),
    tolerance: float | None = None,
    limits: WorkerLimits | None = None,
    plans: MeasurementPlans | None = None,
    probe_sensors: Callable[[str], Sensors] = probe,
    reference: str = SOURCE,
) -> Session:
    """Choose the toolchain and the target, and load the catalog.

    Args:
        model: The model file.
        toolchain: Name of the toolchain; the model's own or the first there is by default.
        target: TVM's target; the host CPU by default.
        catalogs: YAML files with the user's own passes.
        tolerance: See ``Session``.
        limits: Time and memory that one worker may use; those of ``WorkerLimits`` by default.
        plans: Plans by which artifacts are timed; those of ``MeasurementPlans`` by default.
        probe_sensors: Function that finds the sensors of a device.
        reference: See ``Session``.

    Raises:
        EnvironmentFault: No toolchain is installed.
        UserError: Unknown toolchain, one that cannot import the network, a catalog file that cannot be read, or a
            target that leaves open which GPU is meant where there is none.
    """
    # Some models exist in one toolchain only: an IR module that was saved by it, for example.
    selected = get_toolchain(toolchain or model.toolchain)
    _log.debug("toolchain by %s", "the user's choice" if toolchain else "the model" if model.toolchain else "default")
    formats = dialect(selected.dialect).formats
    if model.format not in formats:
        raise UserError(
            f"`{model.source}` is {model.format}, and toolchain `{selected.name}` ({selected.dialect}) imports "
            f"{', '.join(sorted(formats))}; export ONNX, or choose another toolchain."
        )
    if model.cases and not dialect(selected.dialect).has_cases:
        names = ", ".join(case.name for case in model.cases)
        raise UserError(
            f"Toolchain `{selected.name}` ({selected.dialect}) builds one function at one size, and {names} are asked "
            "for; tune each in a run of its own, or choose a toolchain of another dialect."
        )
    if target:
        full_target = complete_target(target, selected, probe_sensors)
    else:
        full_target = host_target(selected, tiles_for_threads=dialect(selected.dialect).tiles_for_threads)
    _log.info("%s with toolchain %s (TVM %s) for `%s`", model.source, selected.name, selected.tvm_version, full_target)
    return Session(
        model=model,
        toolchain=selected,
        target=full_target,
        catalog=load(selected.dialect, *catalogs),
        tolerance=tolerance,
        limits=limits or WorkerLimits(),
        paths=tuple(sorted({str(path.resolve().parent) for path in catalogs})),
        catalogs_sha256=_catalogs_digest(catalogs),
        plans=plans or MeasurementPlans(),
        probe_sensors=probe_sensors,
        reference=reference,
    )


def _catalogs_digest(catalogs: Sequence[Path]) -> str:
    """Return a digest that changes with the user's entries and with the code of their passes."""
    files = catalog_files(catalogs)
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest() if files else ""


def catalog_files(catalogs: Sequence[Path]) -> list[Path]:
    """Return the files that decide what the user's passes do: the catalogs, and the code beside them."""
    # Factories are imported from the folder of the catalog file, so every module or package in it may be part of a
    # pass. Other folders in it, such as an environment, are not read.
    files = {path.resolve() for path in catalogs}
    for folder in {path.parent for path in files}:
        files |= {*folder.glob("*.py")}
        files |= {module for package in folder.glob("*/__init__.py") for module in package.parent.rglob("*.py")}
    return sorted(files)


def _digest(identity: Mapping[str, object]) -> str:
    """Return 16 digits that tell settings apart."""
    return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:16]
