"""What an environment is to be made of."""

import hashlib
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from difflib import get_close_matches
from pathlib import Path

from passsearch.core import Json
from passsearch.dialects import Dialect, Framework
from passsearch.errors import EnvironmentFault, UserError
from passsearch.toolchain.host_python import HostPython


@dataclass(frozen=True)
class Recipe:
    """What an environment is made of.

    Attributes:
        dialect: Whose compiler.
        host: The interpreter it is based on.
        frameworks: What it holds beside the compiler.
    """

    dialect: Dialect
    host: HostPython
    frameworks: tuple[Framework, ...]

    @property
    def lock(self) -> Path:
        """What TVM needs, pinned with hashes; beside frameworks that pin versions too, in those that suit all."""
        pinning = any(not framework.requirement for framework in self.dialect.frameworks)
        suffix = "-frameworks" if self.frameworks and pinning else ""
        return self.dialect.requirements / f"{self.host.tag}{suffix}.txt"

    @property
    def framework_locks(self) -> tuple[Path, ...]:
        """What the frameworks add, pinned with hashes."""
        locked = (framework.name for framework in self.frameworks if not framework.requirement)
        return tuple(self.dialect.requirements / f"{self.host.tag}-{name}.txt" for name in locked)

    @property
    def resolved(self) -> tuple[str, ...]:
        """What no lock file holds."""
        return tuple(filter(None, (framework.requirement for framework in self.frameworks)))

    @property
    def compatibility(self) -> Path | None:
        """``.pth`` line this Python needs to run the compiler, if any."""
        file = self.lock.with_suffix(".pth")
        return file if file.is_file() else None

    @property
    def digest(self) -> str:
        """SHA-256 over everything that decides what is installed."""
        compiler = self.dialect.compiler
        compiler_lock = compiler and self.dialect.requirements / compiler.lock
        files = (self.lock, self.compatibility, compiler_lock, *self.framework_locks)
        content = b"".join(file.read_bytes() for file in files if file) + "\n".join(self.resolved).encode()
        return hashlib.sha256(content).hexdigest()

    def to_json(self) -> dict[str, Json]:
        """What the environment made of it remembers."""
        names: list[Json] = [framework.name for framework in self.frameworks]
        return {"digest": self.digest, "host": asdict(self.host), "frameworks": names}

    @property
    def words(self) -> str:
        """How the command line names it: ``DIALECT --with torch``."""
        names = ",".join(framework.name for framework in self.frameworks)
        return f"{self.dialect.name} --with {names}" if names else self.dialect.name


def make_recipe(wanted: Dialect, host: HostPython, *, frameworks: Collection[str]) -> Recipe:
    """The recipe for an environment with these frameworks, on this interpreter.

    Raises:
        EnvironmentFault: There are no wheels for its platform or its Python.
    """
    recipe = Recipe(wanted, host, tuple(each for each in wanted.frameworks if each.name in frameworks))
    if not host.is_supported_platform:
        raise EnvironmentFault(
            f"There are no {wanted.name} wheels for {host.platform}, only for x86-64 Linux with glibc; "
            "build TVM yourself and run: passsearch toolchain add NAME --python PATH"
        )
    if not recipe.lock.is_file():
        raise EnvironmentFault(
            f"Toolchain `{recipe.words}` needs {_pythons(recipe)}, but this is Python {host.version_text}; "
            f"run: passsearch toolchain install {recipe.words} --python PATH"
        )
    return recipe


def check_frameworks(frameworks: Sequence[str], wanted: Dialect) -> None:
    """Refuse frameworks that a dialect's toolchain cannot hold.

    Raises:
        UserError: One is not among them; proposes the nearest.
    """
    known = [framework.name for framework in wanted.frameworks]
    for name in frameworks:
        if name not in known:
            near = get_close_matches(name, known, n=1)
            hint = f"did you mean `{near[0]}`? Choose" if near else "choose"
            choices = ", ".join(known) or "none"
            raise UserError(f"Unknown framework `{name}` for {wanted.name}; {hint} from: {choices}.")


def _pythons(recipe: Recipe) -> str:
    others = recipe.lock.name.removeprefix(recipe.host.tag)
    files = recipe.dialect.requirements.glob(f"py3[0-9][0-9]{others}")
    minors = sorted(int(file.name[len("py3") :].removesuffix(others)) for file in files)
    return f"Python 3.{minors[0]} to 3.{minors[-1]}"
