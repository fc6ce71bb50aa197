"""A toolchain as a value and as JSON."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from passsearch.core import Json
from passsearch.errors import EnvironmentFault


@dataclass(frozen=True)
class Toolchain:
    """An interpreter with one TVM in it, as it answered when it was probed.

    Attributes:
        name: As the user types it.
        python: Absolute path of the interpreter; never resolved, because an environment's is a link.
        dialect: Name of the dialect that goes with its TVM.
        tvm_version: As TVM says it.
        tvm_commit: Likewise; empty if it does not say.
        llvm_version: Empty if TVM was built without LLVM or does not say.
        targets: Architectures LLVM can make code for; empty if TVM is too old to say.
        cuda: Whether TVM was built with CUDA.
        cuda_device: Whether it saw a CUDA device when probed.
        default_triple: What LLVM makes code for unless told; may not be the host.
        host_triple: The machine the interpreter runs on.
        python_version: Of the interpreter.
    """

    name: str
    python: Path
    dialect: str
    tvm_version: str
    tvm_commit: str
    llvm_version: str
    targets: tuple[str, ...]
    cuda: bool
    cuda_device: bool
    default_triple: str
    host_triple: str
    python_version: str

    def to_json(self) -> dict[str, Json]:
        """The form of ``toolchains.json``."""
        return asdict(self) | {"python": str(self.python), "targets": list(self.targets)}

    @classmethod
    def from_json(cls, data: Mapping[str, Json]) -> "Toolchain":
        """Inverse of ``to_json``; unknown keys are ignored.

        Raises:
            EnvironmentFault: A key is missing; names it.
        """
        missing = [field.name for field in fields(cls) if field.name not in data]
        if missing:
            raise EnvironmentFault(f"A registered toolchain lacks `{missing[0]}`; remove and add it again.")
        known = {field.name: data[field.name] for field in fields(cls)}
        targets = known["targets"]
        assert isinstance(targets, list)
        texts = {"python": Path(str(known["python"])), "targets": tuple(map(str, targets))}
        return cls(**{**known, **texts})  # type: ignore[arg-type]
