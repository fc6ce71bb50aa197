"""The lock files and frameworks that an environment is installed from."""

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
    """Everything that decides which packages an environment holds.

    Attributes:
        dialect: The dialect whose compiler is installed.
        host: The interpreter that the environment is created with.
        frameworks: Frameworks that are installed beside the compiler.
    """

    dialect: Dialect
    host: HostPython
    frameworks: tuple[Framework, ...]

    @property
    def lock(self) -> Path:
        """Lock file of the packages that TVM needs."""
        # Frameworks that pin versions of shared packages (numpy, protobuf) to what they accept need another base lock
        # file, whose versions suit all frameworks of the dialect together. Not every dialect has such frameworks.
        has_second_base = any(self.dialect.requirements.glob("py*-frameworks.txt"))
        suffix = "-frameworks" if self.frameworks and has_second_base else ""
        return self.dialect.requirements / f"{self.host.tag}{suffix}.txt"

    @property
    def framework_locks(self) -> tuple[Path, ...]:
        """Lock files of those frameworks that have one."""
        names = (framework.name for framework in self.frameworks if not framework.requirement)
        return tuple(self.dialect.requirements / f"{self.host.tag}-{name}.txt" for name in names)

    @property
    def unlocked_requirements(self) -> tuple[str, ...]:
        """Requirements of the frameworks without a lock file; pip chooses the builds of their dependencies."""
        return tuple(filter(None, (framework.requirement for framework in self.frameworks)))

    @property
    def compatibility(self) -> Path | None:
        """The ``.pth`` file that this Python version needs to run the compiler, if any."""
        file = self.lock.with_suffix(".pth")
        return file if file.is_file() else None

    @property
    def digest(self) -> str:
        """SHA-256 over all files and requirements that decide what is installed."""
        compiler = self.dialect.compiler
        compiler_lock = compiler and self.dialect.requirements / compiler.lock
        files = (self.lock, self.compatibility, compiler_lock, *self.framework_locks)
        content = b"".join(file.read_bytes() for file in files if file)
        return hashlib.sha256(content + "\n".join(self.unlocked_requirements).encode()).hexdigest()

    def to_json(self) -> dict[str, Json]:
        """Return the content of the marker file that an installed environment carries."""
        names: list[Json] = [framework.name for framework in self.frameworks]
        return {"digest": self.digest, "host": asdict(self.host), "frameworks": names}

    @property
    def arguments(self) -> str:
        """Arguments of ``passsearch toolchain install`` for this recipe: ``DIALECT --with torch``."""
        names = ",".join(framework.name for framework in self.frameworks)
        return f"{self.dialect.name} --with {names}" if names else self.dialect.name


def make_recipe(dialect: Dialect, host: HostPython, *, frameworks: Collection[str]) -> Recipe:
    """Return the recipe of an environment with a dialect's compiler and some frameworks.

    Args:
        dialect: The dialect whose compiler is installed.
        host: The interpreter that the environment is created with.
        frameworks: Names of the frameworks.

    Raises:
        EnvironmentFault: There are no wheels for the interpreter's platform or version.
    """
    # The dialect's order, because it is the order of installing.
    recipe = Recipe(dialect, host, tuple(entry for entry in dialect.frameworks if entry.name in frameworks))
    if not host.is_supported_platform:
        raise EnvironmentFault(
            f"There are no {dialect.name} wheels for {host.platform}, only for x86-64 Linux with glibc; "
            "build TVM yourself and run: passsearch toolchain add NAME --python PATH"
        )
    if not recipe.lock.is_file():
        raise EnvironmentFault(
            f"Toolchain `{recipe.arguments}` needs {_supported_pythons(recipe)}, but this is Python "
            f"{host.version_text}; run: passsearch toolchain install {recipe.arguments} --python PATH"
        )
    return recipe


def check_frameworks(frameworks: Sequence[str], dialect: Dialect) -> None:
    """Check that a dialect's toolchain can hold all of these frameworks.

    Raises:
        UserError: A name is not among the dialect's frameworks; the message proposes the nearest.
    """
    names = [framework.name for framework in dialect.frameworks]
    for name in frameworks:
        if name not in names:
            near = get_close_matches(name, names, n=1)
            hint = f"did you mean `{near[0]}`? Choose" if near else "choose"
            choices = ", ".join(names) or "none"
            raise UserError(f"Unknown framework `{name}` for {dialect.name}; {hint} from: {choices}.")


def _supported_pythons(recipe: Recipe) -> str:
    """Return the range of Python versions that have the recipe's base lock file, for an error message."""
    suffix = recipe.lock.name.removeprefix(recipe.host.tag)
    files = recipe.dialect.requirements.glob(f"py3[0-9][0-9]{suffix}")
    minors = sorted(int(file.name[len("py3") :].removesuffix(suffix)) for file in files)
    return f"Python 3.{minors[0]} to 3.{minors[-1]}"
