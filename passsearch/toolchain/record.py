"""The record of one toolchain, and its JSON form."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from passsearch.core import Json
from passsearch.errors import EnvironmentFault


@dataclass(frozen=True)
class Toolchain:
    """A Python interpreter with one TVM, as the last probe described it.

    Attributes:
        name: The name that the user types.
        python: Absolute path of the interpreter. Links in it are kept, because the interpreter of an environment is a
            link to another one.
        dialect: Name of the dialect that passsearch uses with this TVM version.
        tvm_version: The version that TVM reports.
        tvm_commit: The git commit that TVM reports; empty if it reports none.
        llvm_version: The LLVM version that TVM reports; empty if TVM has no LLVM or does not report it.
        targets: Architectures that LLVM generates code for; empty if TVM is too old to list them.
        cuda: True if TVM was built with CUDA.
        cuda_device: True if TVM found a CUDA device when it was probed.
        default_triple: The triple that LLVM uses if a target has none; it may differ from the host's.
        host_triple: The triple of the machine that the interpreter runs on.
        python_version: The version of the interpreter.
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
        """Return the entry that ``toolchains.json`` holds for this toolchain."""
        return asdict(self) | {"python": str(self.python), "targets": list(self.targets)}

    @classmethod
    def from_json(cls, data: Mapping[str, Json]) -> "Toolchain":
        """Read an entry that ``to_json`` wrote; unknown keys are ignored.

        Raises:
            EnvironmentFault: A key is missing; the message names it.
        """
        missing = [field.name for field in fields(cls) if field.name not in data]
        if missing:
            raise EnvironmentFault(f"A registered toolchain lacks `{missing[0]}`; remove and add it again.")
        # A newer passsearch may have written more keys; this version runs beside it on the same file.
        values = {field.name: data[field.name] for field in fields(cls)}
        targets = values["targets"]
        if not isinstance(targets, list):
            raise EnvironmentFault("A registered toolchain has no list of `targets`; remove and add it again.")
        converted = {"python": Path(str(values["python"])), "targets": tuple(map(str, targets))}
        return cls(**{**values, **converted})  # type: ignore[arg-type]
