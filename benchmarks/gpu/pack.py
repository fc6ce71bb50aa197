"""Packs what ``session.py`` needs on a machine without a package index: ``python -m benchmarks.gpu.pack FOLDER``.

``FOLDER/pack.tar.xz`` gets the wheels of TVM, of what it needs for CUDA, and of passsearch's own requirements, for the
Python version of this interpreter or of ``--python``. Three things make it small: the wheels lose files that no session
loads (``DROPPED``), packages are left out that no session loads (``UNUSED``) or that the machine has (``--beside``, by
default what PyTorch brings), and everything is one solid xz stream with a filter for x86 code. ``--complete`` leaves no
package out. The weight of each package is printed.

Then the pack proves itself (``--no-proof`` skips it): it is installed into an empty environment without an index,
beside a folder that stands for PyTorch's packages, and ``passsearch`` builds a network for CUDA there.
"""

import argparse
import csv
import io
import lzma
import os
import site
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from configparser import ConfigParser
from fnmatch import fnmatch
from pathlib import Path
from zipfile import ZIP_STORED, ZipFile, ZipInfo

ROOT = Path(__file__).parents[2]
LOCKS = ROOT / "passsearch" / "dialects" / "relax" / "requirements"
PACK = "pack.tar.xz"
OWN_PYTHON = "{}.{}".format(*sys.version_info)
LIMIT_BYTES = 60 << 20
MOST_DICTIONARY_BYTES = 256 << 20
"""Enough for all of TVM's library."""

PLATFORMS = ("manylinux_2_28_x86_64", "manylinux_2_27_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64")

OF_PYTORCH = frozenset({"numpy", "networkx", "filelock", "typing_extensions", "markupsafe", "nvidia_cuda_nvrtc"})
"""Packages that PyTorch requires (a wheel of CUDA 13), and numpy, which is beside it nearly always."""

UNUSED = frozenset(
    {"alembic", "annotated_doc", "annotated_types", "mako", "markdown_it_py", "mdurl", "pydantic", "pydantic_core"}
    | {"rich", "shellingham", "sqlalchemy", "typer", "typing_inspection"}
)
"""Packages of passsearch's command line and of Optuna's databases, which a session does not load."""

DROPPED = (
    *("*/tests/*", "onnx/backend/test/*", "onnx/test/*", "scipy/io/*", "scipy/signal/*", "scipy/cluster/*"),
    *("yaml/_yaml.*.so", "*.pyx", "*.pxd", "*.pyi", "*.a", "*.alt.so.*"),
    *("cuda/*.cpp", "cuda/bindings/runtime.*.so", "cuda/bindings/cufile.*.so"),
    *("tvm/3rdparty/*", "tvm/include/*", "tvm/src/*", "tvm/web/*", "tvm_ffi/include/*"),
    *("nvidia/cu13/include/cccl/cub/*", "nvidia/cu13/include/cccl/thrust/*"),
)
"""Files of wheels that a session does not load: tests, sources, static libraries, interfaces of other libraries."""


def main() -> None:
    """Make the pack, print what each part weighs, and prove it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--python", default=OWN_PYTHON, help="version there (%(default)s)")
    parser.add_argument("--beside", default=",".join(sorted(OF_PYTORCH)), help="packages there (%(default)s)")
    parser.add_argument("--complete", action="store_true", help="leave no package out")
    parser.add_argument("--no-proof", action="store_true", help="do not install the pack")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="passsearch-") as folder:
        wheels = download(Path(folder), options.python)
        present = options.beside.split(",")
        beside = [] if options.complete else [wheel for wheel in wheels if name_of(wheel) in present]
        unused = [] if options.complete else [wheel for wheel in wheels if name_of(wheel) in UNUSED]
        pack = options.folder / PACK
        for name, size in compress([wheel for wheel in wheels if wheel not in (*beside, *unused)], pack):
            print(f"{size / 2**20:6.1f} MiB  {name}", flush=True)
        print(f"{pack.stat().st_size / 2**20:6.1f} MiB  {pack}; {verdict(pack.stat().st_size)}")
        if options.python != OWN_PYTHON:
            print(f"not proved: the pack is for Python {options.python}, and this is {OWN_PYTHON}")
        elif not options.no_proof:
            print(prove(pack, beside=beside))


def verdict(size: int) -> str:
    """Return how a size compares with the limit."""
    over = (size - LIMIT_BYTES) / 2**20
    return f"{over:.1f} MiB over the limit" if over > 0 else f"{-over:.1f} MiB below the limit"


def name_of(wheel: Path) -> str:
    """Return the name of a wheel's package."""
    return wheel.name.partition("-")[0].lower()


def download(folder: Path, python: str) -> list[Path]:
    """Download all wheels for a Python version: TVM by the lock files, and what passsearch requires beside it."""
    tag = "py" + python.replace(".", "")
    locks = [LOCKS / f"{tag}.txt", LOCKS / f"{tag}-cuda.txt"]
    for lock in locks:
        _pip_download(folder, python, "--no-deps", "--require-hashes", "--requirement", str(lock))
    setup = ConfigParser()
    setup.read(ROOT / "setup.cfg")
    requirements = setup["options"]["install_requires"].split()
    pins = "\n".join(line.split()[0] for lock in locks for line in lock.read_text().splitlines() if "==" in line)
    constraints = folder / "constraints.txt"
    constraints.write_text(pins)
    _pip_download(folder, python, "--constraint", str(constraints), *requirements, "pytest")
    # Text first: a stream that begins with code would take its statistics into the text.
    return sorted(
        folder.glob("*.whl"), key=lambda wheel: (not wheel.name.endswith("none-any.whl"), wheel.stat().st_size)
    )


def _pip_download(folder: Path, python: str, *arguments: str) -> None:
    platforms = [option for platform in PLATFORMS for option in ("--platform", platform)]
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--only-binary=:all:", "--dest", str(folder)]
    subprocess.run([*command, "--python-version", python, *platforms, *arguments], check=True)


def filters(size: int) -> list[dict[str, int]]:
    """Return the filters of the stream: addresses of calls become absolute, so that they repeat, before LZMA."""
    dictionary = max(1 << 20, min(size, MOST_DICTIONARY_BYTES))
    return [
        {"id": lzma.FILTER_X86},
        {"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME, "dict_size": dictionary, "pb": 0},
    ]


def compress(wheels: Sequence[Path], pack: Path) -> Iterator[tuple[str, int]]:
    """Write the pack; yield the name of each package and the bytes that it adds."""
    size = sum(info.file_size for wheel in wheels for info in ZipFile(wheel).infolist())
    with (
        pack.open("wb") as raw,
        lzma.open(raw, "wb", filters=filters(size)) as stream,  # type: ignore[call-overload]
        tarfile.open(fileobj=stream, mode="w|") as tar,
    ):
        for wheel in wheels:
            begin, content = raw.tell(), slim(wheel)
            info = tarfile.TarInfo(wheel.name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
            raw.flush()
            yield name_of(wheel), raw.tell() - begin


def slim(wheel: Path) -> bytes:
    """Return a wheel without the files that are dropped, and without compression of its own."""
    buffer = io.BytesIO()
    with ZipFile(wheel) as source, ZipFile(buffer, "w", ZIP_STORED) as target:
        for info in source.infolist():
            if info.is_dir() or is_dropped(info.filename):
                continue
            content = source.read(info)
            if info.filename.endswith(".dist-info/RECORD"):
                content = _record(content)
            member = ZipInfo(info.filename)
            member.external_attr = info.external_attr  # whether it may be executed
            target.writestr(member, content)
    return buffer.getvalue()


def is_dropped(name: str) -> bool:
    """Return true for files of a wheel that the pack leaves out."""
    return any(fnmatch(name, pattern) for pattern in DROPPED)


def _record(content: bytes) -> bytes:
    """Return the list of a wheel's files without those that are dropped."""
    text = io.StringIO(newline="")
    rows = csv.reader(io.StringIO(content.decode(), newline=""))
    csv.writer(text, lineterminator="\n").writerows(row for row in rows if row and not is_dropped(row[0]))
    return text.getvalue().encode()


def unpack(pack: Path, folder: Path) -> list[Path]:
    """Unpack the wheels of a pack into a folder and return them."""
    with tarfile.open(pack) as tar:
        # Python before 3.11.4 has no filters, and no argument for one.
        tar.extraction_filter = getattr(tarfile, "data_filter", None)
        tar.extractall(folder)
    return sorted(folder.glob("*.whl"))


def install(pack: Path, environment: Path) -> Path:
    """Make an environment with the packages of a pack alone, and return its interpreter."""
    # No pip: Debian's Python cannot put one into an environment, and that of the machine may be too old or missing.
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(environment)], check=True)
    python = environment / "bin" / "python"
    packages = _packages(python)
    with tempfile.TemporaryDirectory(prefix="passsearch-") as folder:
        for wheel in unpack(pack, Path(folder)):
            with ZipFile(wheel) as archive:
                archive.extractall(packages)
    # On all cores; the first processes of a session would compile the same files each.
    subprocess.run([str(python), "-m", "compileall", "-q", "-j", "0", str(packages)], check=False)
    return python


def install_beside(pack: Path, environment: Path, *folders: Path) -> Path:
    """Make an environment with a pack and the packages of this interpreter, which may be a virtual environment.

    Args:
        pack: The pack.
        environment: Folder of the environment.
        folders: Further folders to import from.
    """
    python = install(pack, environment)
    own = [*site.getsitepackages(), *([site.getusersitepackages()] if site.ENABLE_USER_SITE else [])]
    add_to_path(python, *own, *map(str, folders))
    return python


def add_to_path(python: Path, *folders: str) -> None:
    """Let an environment import from further folders."""
    (_packages(python) / "beside.pth").write_text("\n".join(folders) + "\n")


def _packages(python: Path) -> Path:
    """Return the folder of an environment's packages."""
    query = "import sysconfig; print(sysconfig.get_path('purelib'))"
    return Path(subprocess.check_output([str(python), "-c", query], text=True).strip())


PROOF = """
from pathlib import Path

import passsearch
from benchmarks.gpu.cubins import read_cubins

with passsearch.session("zoo:bert_tiny", toolchain="this", target="cuda -arch=sm_80", remember=False) as evaluator:
    built = evaluator.build(evaluator.graph.root, evaluator.session.dialect.baseline)
    [library] = Path(built.folder).glob("*.so")
    for cubin in read_cubins(library):
        print(f"built from the pack: {len(cubin.kernels)} kernels for {cubin.arch}")
"""


def prove(pack: Path, *, beside: Sequence[Path]) -> str:
    """Install a pack without an index, build a network for CUDA there, and return what was built.

    Args:
        pack: The pack.
        beside: Wheels that a machine with PyTorch has.
    """
    with tempfile.TemporaryDirectory(prefix="passsearch-") as name:
        folder = Path(name)
        python, node = install(pack, folder / "environment"), folder / "node"
        for wheel in beside:
            with ZipFile(wheel) as archive:
                archive.extractall(node)
        add_to_path(python, str(node), str(ROOT))
        own = {"PASSSEARCH_DATA_DIR": str(folder / "data"), "XDG_CACHE_HOME": str(folder / "cache")}
        environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"} | own
        done = subprocess.run([str(python), "-c", PROOF], env=environment, capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"The pack does not work: {done.stderr.strip().splitlines()[-1]}")
        return done.stdout.strip()


if __name__ == "__main__":
    main()
