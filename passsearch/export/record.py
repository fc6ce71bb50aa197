"""A deployment as a record, and pipeline files, which hold it."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from passsearch.core import BuildOptions, Case, Json, Pipeline
from passsearch.dialects import Dialect, dialect
from passsearch.errors import UserError
from passsearch.store import NETWORK

SCHEMA = "passsearch-pipeline/1"
PIPELINE = "pipeline.json"
"""Name of the pipeline file in a deployment folder."""

_KIND_NAMES = {str: "a text", dict: "a mapping", list: "a list", int: "an integer"}
_Kind = TypeVar("_Kind", str, dict[str, Any], list[Any], int)


@dataclass(frozen=True)
class Deployment:
    """Everything needed to build a network with one pipeline, and the results that prove the build is the same.

    Attributes:
        dialect: The dialect of the network's IR.
        tvm_version: Version of the TVM that the search used.
        target: TVM's target.
        pipeline: Passes in order.
        factories: ``module:function`` that makes the pass, by pass name, for every pass of the pipeline.
        build: Options of the build after the pipeline.
        network: File with the imported network's IR, as a worker saved it.
        model: ``name``, ``source``, ``sha256`` and ``batch`` of the network.
        inputs: ``[shape, dtype]`` by input name, in order.
        ir_hashes: Hash of the network's IR, then of the IR after every pass.
        output_digests: Digest of every output (``passsearch.measure.outputs.digest``) for the inputs made from
            ``seed``.
        tolerance: Largest deviation of an output, as a share of the largest magnitude.
        seed: Seed of the inputs (``passsearch.standalone.deployment.input_values``).
        tvm_commit: Commit of the TVM, empty if it does not report one.
        import_paths: Folders with the user's passes, searched before this interpreter's own import path.
        reference: What the network's outputs were compared with; see docs/reference/result.md. Empty in files from
            before it was recorded.
        calls: The cases of a network with several (``passsearch.core.Case``), each an entry function with its inputs.
        ranges: Ranges of the values of inputs by name, which the inputs are made in.
        mean_tolerance: Largest deviation of an output's mean magnitude, as a share of it; ``None`` if it is unknown.
        form: How the network is called (``passsearch.frontends.CallForm``).
        sizes: What a call of another size than those of the cases takes; empty for a network of one size.
        choice: How the passes were chosen, as the end of a sentence on them.
        warning: What a user must know of the gain, as a sentence; empty if there is nothing.
        bits: The bits of the outputs, by input of the check; empty in files from before they were recorded.
        same_bits: What has these bits, where a search kept them: a build with others is then refused.
    """

    dialect: Dialect
    tvm_version: str
    target: str
    pipeline: Pipeline
    factories: Mapping[str, str]
    build: BuildOptions
    network: Path
    model: Mapping[str, Json]
    inputs: Mapping[str, Json]
    ir_hashes: Sequence[str]
    output_digests: Sequence[Mapping[str, Json]]
    tolerance: float
    seed: int = 0
    tvm_commit: str = ""
    import_paths: tuple[str, ...] = ()
    calls: tuple[Mapping[str, Json], ...] = ()
    reference: Mapping[str, Json] = field(default_factory=dict)
    ranges: Mapping[str, Json] = field(default_factory=dict)
    mean_tolerance: float | None = None
    form: Mapping[str, Json] = field(default_factory=dict)
    sizes: Mapping[str, Json] = field(default_factory=dict)
    choice: str = "were searched for it"
    warning: str = ""
    bits: Mapping[str, Json] = field(default_factory=dict)
    same_bits: str = ""

    @property
    def title(self) -> str:
        """Name of the network, with its batch if it has one."""
        name, batch = self.model.get("name"), self.model.get("batch")
        return str(name) if batch is None else f"{name}, batch {batch}"

    @classmethod
    def of_record(cls, record: Mapping[str, Any], **others: Any) -> "Deployment":
        """Return a deployment from what ``WorkerEvaluator.deployment`` recorded.

        Args:
            record: The record; one of an earlier version has fewer keys.
            others: The attributes that are not in the record.
        """
        return cls(
            inputs=record["inputs"],
            ranges=record.get("ranges", {}),
            mean_tolerance=record.get("mean_tolerance"),
            calls=tuple(Case.from_json(call).to_json() for call in record.get("calls", ())),
            ir_hashes=tuple(record["states"]),
            output_digests=tuple(record["expected"]),
            tolerance=record["tolerance"],
            seed=record["seed"],
            reference=record.get("reference", {}),
            bits=record.get("bits") or {},
            **others,
        )


def read_pipeline(path: Path) -> Deployment:
    """Read a pipeline file.

    Args:
        path: The file, or an exported folder with one in it.

    Returns:
        The deployment. Its ``network`` is a path beside the file, even if no file is there.

    Raises:
        UserError: The file does not exist or has another schema, or a key is missing or of the wrong kind.
    """
    path = path / PIPELINE if path.is_dir() else path
    fields = _Fields(path, read_record(path))
    steps = [_Fields(path, step, f"passes[{index}].") for index, step in enumerate(fields.items("passes"))]
    ir_hashes = [str(ir_hash) for ir_hash in fields.typed("states", list)]
    if len(ir_hashes) != len(steps) + 1:
        raise UserError(
            f"Pipeline file `{path}`: `states` holds {len(ir_hashes)} hashes; {len(steps)} passes need "
            f"{len(steps) + 1}. Export it again."
        )
    return Deployment(
        dialect=dialect(fields.typed("dialect", str)),
        tvm_version=fields.typed("tvm_version", str),
        target=fields.typed("target", str),
        pipeline=Pipeline.from_json([_pass_json(step, path.parent) for step in steps]),
        factories={step.typed("name", str): step.typed("factory", str) for step in steps},
        build=_build_options(_Fields(path, fields.typed("build", dict), "build.")),
        network=path.with_name(NETWORK),
        model=fields.typed("model", dict),
        inputs=fields.typed("inputs", dict),
        ir_hashes=tuple(ir_hashes),
        output_digests=tuple(fields.items("expected")),
        tolerance=fields.number("tolerance"),
        seed=fields.typed("seed", int),
        # Optional: wheels from PyPI do not report the commit they were built from.
        tvm_commit=str(fields.values.get("tvm_commit") or ""),
        calls=tuple(fields.items("calls")) if "calls" in fields.values else (),
        reference=fields.typed("reference", dict) if "reference" in fields.values else {},
        mean_tolerance=fields.number("mean_tolerance") if fields.values.get("mean_tolerance") is not None else None,
        ranges=fields.typed("ranges", dict) if "ranges" in fields.values else {},
        form=fields.typed("form", dict) if "form" in fields.values else {},
        sizes=fields.typed("sizes", dict) if "sizes" in fields.values else {},
    )


def read_record(path: Path) -> dict[str, Any]:
    """Return the content of a pipeline file.

    Raises:
        UserError: It cannot be read, or has another schema.
    """
    try:
        record = json.loads(path.read_text())
    except OSError as error:
        raise UserError(f"Cannot read pipeline file `{path}`: {error.strerror}. See: passsearch export") from error
    # Not JSONDecodeError alone: bytes that are not UTF-8 raise another ValueError.
    except ValueError as error:
        raise UserError(f"Pipeline file `{path}` is not JSON: {error}. Export it again.") from error
    schema = record.get("schema") if isinstance(record, dict) else None
    if schema != SCHEMA:
        raise UserError(f"`{path}` has schema `{schema}`; this version reads `{SCHEMA}`. Export it again.")
    return dict(record)


@dataclass(frozen=True)
class _Fields:
    """Checked access to one mapping of a pipeline file.

    Attributes:
        path: The pipeline file.
        values: The mapping.
        prefix: Position of the mapping in the file, for error messages, for example ``build.``.
    """

    path: Path
    values: Mapping[str, Any]
    prefix: str = ""

    def typed(self, key: str, kind: type[_Kind]) -> _Kind:
        """Return the value of a key.

        Raises:
            UserError: The key is missing, or its value is not of this kind.
        """
        value = self._value(key)
        if not isinstance(value, kind):
            raise self._wrong_kind(key, _KIND_NAMES[kind])
        return value

    def number(self, key: str) -> float:
        """Return a number."""
        value = self._value(key)
        # `True` is an int for Python, but not a number for JSON.
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self._wrong_kind(key, "a number")
        return float(value)

    def items(self, key: str) -> list[dict[str, Any]]:
        """Return a list of mappings."""
        values = self.typed(key, list)
        if not all(isinstance(value, dict) for value in values):
            raise self._wrong_kind(key, "a list of mappings")
        return values

    def _value(self, key: str) -> object:
        if key not in self.values:
            raise UserError(f"Pipeline file `{self.path}` lacks `{self.prefix}{key}`; export it again.")
        return self.values[key]

    def _wrong_kind(self, key: str, kind: str) -> UserError:
        value = str(self.values[key])[:60]
        return UserError(
            f"Pipeline file `{self.path}`: `{self.prefix}{key}` must be {kind}; got `{value}`. Export it again."
        )


def _pass_json(step: _Fields, folder: Path) -> dict[str, Json]:
    arguments = step.typed("arguments", dict)
    # A file or folder that was exported with its pass is the copy beside the file, wherever the file is now.
    copies = step.values.get("folders") or {}
    local = {name: str(folder.resolve() / str(copy)) for name, copy in copies.items() if name in arguments}
    return {"name": step.typed("name", str), "arguments": {**arguments, **local}}


def _build_options(fields: _Fields) -> BuildOptions:
    return BuildOptions.from_json(
        {
            "opt_level": fields.typed("opt_level", int),
            "required": fields.typed("required", list),
            "disabled": fields.typed("disabled", list),
            "config": fields.typed("config", dict),
        }
    )
