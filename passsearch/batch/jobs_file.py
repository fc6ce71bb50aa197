"""The YAML file of a batch: networks, objectives, compilers and devices, whose product is the list of jobs."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import cast

from passsearch.catalog import Fields, read_yaml
from passsearch.core import RULES, Json, printable
from passsearch.errors import UserError
from passsearch.objectives import parse_objectives

EXECUTORS = ("local", "slurm")
OPTIONS = (
    "trials",
    "timeout",
    "seed",
    "confirm",
    "keep_throughput",
    "least_gain",
    "tolerance",
    "reference",
    "deadline",
    "memory",
    "passes",
    "additional",
    "catalogs",
    "trust",
    "sampler",
    "remember",
    "rivals",
)
"""Arguments of ``tune`` that a batch sets for all of its jobs."""

_KEYS = ("runs", "executor", "networks", "objectives", "toolchains", "targets", "options", "devices")
_NETWORK_KEYS = ("model", "batch", "inputs", "samples")
_SLURM_TEXTS = ("partition", "constraint", "account", "qos", "gres")
_SLURM_NUMBERS = {"cpus": "cpus_per_task", "memory_gb": "mem", "minutes": "time"}
_DEVICE_KEYS = (
    *("toolchains", "targets", "gpu", "at_once", "container", "setup"),
    *(*_SLURM_TEXTS, *_SLURM_NUMBERS, "exclusive", "slurm"),
)
_PLAIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,59}")
_UUID = re.compile(r"[A-Za-z0-9-]*")
_BREAK = re.compile("[\0\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")
"""What ends a line, or a text, in a script or on a terminal."""
_SLURM_OPTION = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
_DAY_MIN = 24 * 60
# A run may exceed its limit by a tenth, and a node has to load the network and its frameworks first.
_OVERTIME, _START_MIN = 1.1, 15


@dataclass(frozen=True)
class Network:
    """A network of a batch.

    Attributes:
        text: The network as the file has it.
        model: The network as ``tune`` takes it; a path is absolute.
        batch: Size of the first dimension; ``None`` leaves it to the file of the network.
        inputs: Types of inputs that the file of the network leaves open.
        samples: File of samples; ``None`` without one.
    """

    text: str
    model: str
    batch: int | None = None
    inputs: tuple[str, ...] = ()
    samples: Path | None = None


@dataclass(frozen=True)
class Device:
    """The hardware that some jobs run on, and how they are started there.

    Attributes:
        name: Name of the device in the file.
        toolchains: Toolchains that compile for it; ``None`` is the first of the node.
        targets: TVM's targets; ``None`` is the CPU of the node.
        gpu: UUID of the GPU; empty leaves the choice to the scheduler.
        at_once: Jobs of this device that run at the same time on a cluster.
        container: Command that starts a program in a container; empty for none.
        setup: Shell lines before the job.
        slurm: Parameters of a Slurm job by submitit's names.
    """

    name: str
    toolchains: tuple[str | None, ...] = (None,)
    targets: tuple[str | None, ...] = (None,)
    gpu: str = ""
    at_once: int = 1
    container: str = ""
    setup: tuple[str, ...] = ()
    slurm: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True)
class JobsFile:
    """The content of a batch's YAML file.

    Attributes:
        path: The file.
        runs: Folder of the runs; on a cluster all nodes see it.
        executor: One of ``EXECUTORS``.
        networks: The networks.
        objectives: Objectives; two with a comma are one Pareto front.
        devices: The devices.
        options: Arguments of ``tune`` by name.
    """

    path: Path
    runs: Path
    executor: str
    networks: tuple[Network, ...]
    objectives: tuple[str, ...]
    devices: tuple[Device, ...]
    options: Mapping[str, Json]


def read_jobs(path: Path) -> JobsFile:
    """Read the YAML file of a batch; paths in it are relative to its folder.

    Raises:
        UserError: The file cannot be read, or a key is unknown, missing or has a wrong value.
    """
    document, folder = read_yaml(path, what="file of jobs"), path.resolve().parent
    if not isinstance(document, dict):
        raise UserError(f"`{path}`: got no keys; allowed: a mapping with {', '.join(_KEYS)}. See docs/guide/batch.md")
    fields = Fields(document, str(path), "top level")
    fields.allow_only(_KEYS)
    options = _options(fields, folder)
    return JobsFile(
        path=path,
        runs=_runs(fields, folder),
        executor=fields.one_of("executor", EXECUTORS, default="local"),
        networks=tuple(_network(fields, item, folder) for item in _required_items(fields, "networks")),
        objectives=tuple(_objective(fields, item) for item in _required_items(fields, "objectives")),
        devices=_devices(fields, options),
        options=options,
    )


def _runs(fields: Fields, folder: Path) -> Path:
    runs = folder / _line(fields, "runs")
    # Scripts of a cluster and tables name it.
    if not str(runs).isprintable():
        raise fields.fault("runs", printable(str(runs)), allowed="a path without control characters, its folder's too")
    return runs


def _required_items(fields: Fields, name: str) -> tuple[Json, ...]:
    items = fields.items(name)
    if not items:
        raise fields.fault(name, "nothing", allowed="a list with at least one item")
    return items


def _network(owner: Fields, item: Json, folder: Path) -> Network:
    fields = owner.inner("networks", {"model": item} if isinstance(item, str) else item)
    fields.allow_only(_NETWORK_KEYS)
    text = _line(fields, "model")
    model = text if text.startswith("zoo:") else str(folder / text)
    if model != text and not Path(model).exists():
        raise fields.fault("model", text, allowed=f"`zoo:NAME`, or a file in `{folder}`")
    batch = fields.integer("batch", low=1, high=10**6) if "batch" in fields.values else None
    samples = folder / _line(fields, "samples") if "samples" in fields.values else None
    if samples is not None and not samples.is_file():
        raise fields.fault("samples", str(samples), allowed=f"a NumPy file (.npz) in `{folder}`")
    return Network(text, model, batch, fields.texts("inputs"), samples)


def _objective(fields: Fields, item: Json) -> str:
    texts = [str(name) for name in item] if isinstance(item, list) else str(item)
    try:
        return ",".join(objective.name for objective in parse_objectives(texts))
    except UserError as error:
        raise _refusal(fields, error) from None


def _options(owner: Fields, folder: Path) -> dict[str, Json]:
    fields = owner.inner("options", dict(owner.mapping("options")))
    fields.allow_only(OPTIONS)
    try:
        options = {name: cast(Json, RULES[name].accept(name, value)) for name, value in fields.values.items()}
    except UserError as error:
        raise _refusal(fields, error) from None
    if "catalogs" in options:
        options["catalogs"] = [str(folder / name) for name in fields.texts("catalogs")]
    return options


def _refusal(fields: Fields, error: UserError) -> UserError:
    return UserError(f"`{fields.origin}`: {error}")


def _devices(owner: Fields, options: Mapping[str, Json]) -> tuple[Device, ...]:
    devices = owner.mapping("devices") or {"cpu": {}}
    # A device without keys of its own (`a100:`) is nothing in YAML.
    return tuple(_device(owner, str(name), values or {}, options) for name, values in devices.items())


def _device(owner: Fields, name: str, values: Json, options: Mapping[str, Json]) -> Device:
    # It gets into the scripts and the names of jobs.
    if not _PLAIN_NAME.fullmatch(name):
        allowed = "a name of letters, digits, `.`, `_` and `-`, 60 at most"
        raise owner.fault("devices", printable(name), allowed=allowed)
    fields = owner.inner(f"devices.{name}", values)
    fields.allow_only(_DEVICE_KEYS)
    return Device(
        name,
        toolchains=fields.texts("toolchains") or owner.texts("toolchains") or (None,),
        targets=fields.texts("targets") or owner.texts("targets") or (None,),
        gpu=_gpu(fields),
        at_once=fields.integer("at_once", low=1, high=1000, default=1),
        container=_line(fields, "container", default=""),
        setup=_setup(fields),
        slurm=_slurm_parameters(fields, options),
    )


def _line(fields: Fields, name: str, *, default: str | None = None) -> str:
    """Return a text that becomes a part of a line of a script; its own line breaks would begin new ones."""
    value = fields.values.get(name)
    if isinstance(value, str) and _BREAK.search(value):
        raise fields.fault(name, printable(value), allowed="a text in one line")
    return fields.text(name, default=default)


def _setup(fields: Fields) -> tuple[str, ...]:
    lines = fields.texts("setup")
    if line := next((line for line in lines if "\0" in line), None):
        raise fields.fault("setup", printable(line), allowed="lines of a shell, without NUL")
    return lines


def _slurm_options(owner: Fields) -> dict[str, Json]:
    fields = owner.inner("slurm", dict(owner.mapping("slurm")))
    for name, value in fields.values.items():
        if not isinstance(name, str) or not _SLURM_OPTION.fullmatch(name):
            raise owner.fault("slurm", printable(str(name)), allowed="names of options of `sbatch`, without `--`")
        # A list or mapping is written as Python writes it, without a break.
        if isinstance(value, str) and _BREAK.search(value):
            raise fields.fault(name, printable(value), allowed="a text in one line")
    return dict(fields.values)


def _gpu(fields: Fields) -> str:
    # It gets into the name of a lock.
    allowed = "the UUID of a GPU: letters, digits and `-`"
    return fields.matching("gpu", _UUID, allowed=allowed) if "gpu" in fields.values else ""


def _slurm_parameters(fields: Fields, options: Mapping[str, Json]) -> dict[str, Json]:
    parameters: dict[str, Json] = {name: _line(fields, name) for name in _SLURM_TEXTS if name in fields.values}
    parameters |= {
        parameter: fields.integer(name, low=1, high=10**6)
        for name, parameter in _SLURM_NUMBERS.items()
        if name in fields.values
    }
    parameters.setdefault("time", _minutes(options))
    if "mem" in parameters:
        parameters["mem"] = f"{parameters['mem']}GB"
    # A GPU is allotted to one job by its `gres`. A CPU is measured undisturbed only if the job has the whole node.
    if fields.flag("exclusive", default="gres" not in fields.values):
        parameters["exclusive"] = True
    if "slurm" in fields.values:
        parameters["additional_parameters"] = _slurm_options(fields)
    return parameters


def for_comparison(device: Device, options: Mapping[str, Json]) -> Device:
    """Return a device with a day as its time limit, unless the file states one.

    A comparison has no time limit of its own.

    Args:
        device: The device of a search.
        options: Options of the search, from which the usual time limit of its job comes.
    """
    is_stated = device.slurm.get("time") != _minutes(options)
    return device if is_stated else replace(device, slurm={**device.slurm, "time": _DAY_MIN})


def _minutes(options: Mapping[str, Json]) -> int:
    """Return the time limit of a Slurm job, from the time limit of the run."""
    timeout_s = options.get("timeout")
    if not isinstance(timeout_s, int | float):
        return _DAY_MIN
    return _START_MIN + math.ceil(_OVERTIME * timeout_s / 60)
