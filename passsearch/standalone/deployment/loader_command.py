"""The part of a deployment's Python loader that does not depend on the dialect: examples, and its command line."""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import processor
from checked_files import PIPELINE, Built, DeploymentError, sha256

HERE = Path(__file__).resolve().parent
EXAMPLES, INDEX = "examples", "index.txt"
"""Names in a built folder: the folder of examples, and the file with their tolerance, number and names."""

MAIN = "main"
"""Name of the entry function of a network that has one."""

CPP_LOADER = "run_model.cc"


def check_machine(built: Any, tvm_version: str) -> None:
    """Raise an error if this TVM, this processor or this folder is another one than those of a build."""
    if tvm_version != built.tvm_version:
        raise DeploymentError(
            f"{built.folder} was built by TVM {built.tvm_version}, and {sys.executable} has {tvm_version}; use the "
            "interpreter that built it, or run build_model.py with this one."
        )
    if sha256(HERE / PIPELINE) != built.pipeline:
        raise DeploymentError(f"{built.folder} was built by another deployment than {HERE}; run build_model.py there.")
    lacking = processor.missing(built.processor[0], built.processor[1:])
    if lacking:
        raise DeploymentError(
            f"{built.folder} was built for a processor with {', '.join(lacking)}, which this one lacks; tune and "
            "export for this processor, or run build_model.py with --target."
        )


def check_device(folder: Path, device: str, place: Any) -> None:
    """Raise an error if this machine has no such device; ``place`` is TVM's object for it."""
    try:
        exists = bool(place.exist)
    except (RuntimeError, ValueError):
        exists = False
    if not exists:
        raise DeploymentError(
            f"{folder} runs on the device `{device}`, which this machine lacks; tune and export for this machine, or "
            "run build_model.py with --target."
        )


def example_folder(folder: Path, entry: str) -> Path:
    """Return the folder of the examples of an entry function."""
    return folder / EXAMPLES if entry == MAIN else folder / EXAMPLES / entry


def write_examples(folder: Path, inputs: dict[str, Any], outputs: list[Any], tolerance: float) -> None:
    """Write example inputs and the outputs that a checked build gave for them, for the loaders to compare with."""
    folder.mkdir(parents=True)
    for number, array in enumerate(inputs.values()):
        np.save(folder / f"input-{number}.npy", array)
    for number, array in enumerate(outputs):
        np.save(folder / f"output-{number}.npy", array)
    (folder / INDEX).write_text("\n".join([f"{tolerance!r} {len(outputs)}", *inputs, ""]))


def read_examples(built: Any, entry: str) -> tuple[dict[str, Any], list[Any], float]:
    """Return the example inputs by name, the expected outputs, and the tolerance, from files that are as written."""
    folder = example_folder(Path(), entry)

    def read(name: str) -> Any:
        return np.load(built.path(str(folder / name)))

    head, *names = built.path(str(folder / INDEX)).read_text().splitlines()
    tolerance, outputs = head.split()
    inputs = {name: read(f"input-{number}.npy") for number, name in enumerate(names)}
    return inputs, [read(f"output-{number}.npy") for number in range(int(outputs))], float(tolerance)


def main(load: Any, compile_options: Any) -> None:
    """Run a built network on its examples, or compile the C++ loader.

    Args:
        load: Function that returns a function of the network of a folder, by ``function``.
        compile_options: Function that returns the compiler's options for this interpreter's TVM.
    """
    parser = argparse.ArgumentParser(description="Run the built network on its example inputs and compare the outputs.")
    parser.add_argument("folder", type=Path, nargs="?", default=HERE / "built", help="what build_model.py has written")
    parser.add_argument("--compile", type=Path, metavar="FILE", help=f"compile {CPP_LOADER} to this program instead")
    options = parser.parse_args()
    if options.compile:
        compile_loader(options.compile, compile_options())
    else:
        run_examples(options.folder, load)


def run_examples(folder: Path, load: Any) -> None:
    """Run a network on its examples; exit with 1 if the outputs differ by more than the tolerance."""
    built = Built(folder)
    names = [name for name in built.inputs if built.has(str(example_folder(Path(), name) / INDEX))]
    if not names:
        sys.exit(f"{folder} has no examples: it was built where nothing runs it. Load it by run_model.load.")
    failed = [name for name in names if not agrees(built, load, name)]
    sys.exit(int(bool(failed)))


def agrees(built: Any, load: Any, entry: str) -> bool:
    """Run one entry function on its examples, print how far the outputs deviate, and return whether that is allowed."""
    inputs, expected, tolerance = read_examples(built, entry)
    network = load(built.folder, function=entry)
    outputs = network(inputs)  # the first run is slower
    start = time.perf_counter()
    outputs = network(inputs)
    milliseconds = 1e3 * (time.perf_counter() - start)
    if len(outputs) != len(expected):
        sys.exit(f"The network has {len(outputs)} outputs, {len(expected)} are expected; run build_model.py again")
    # numpy's maximum, because Python's loses a NaN that is not the first value.
    worst = float(np.max([deviation(*pair) for pair in zip(outputs, expected)]))
    print(
        f"{'' if entry == MAIN else entry + ': '}{len(outputs)} outputs deviate by {worst:.2g} of the largest value "
        f"({tolerance:.2g} is allowed); {milliseconds:.3g} ms an inference"
    )
    # A deviation that is NaN compares as false, and must fail.
    return worst <= tolerance


def deviation(output: Any, expected: Any) -> float:
    """Return the largest deviation as a share of the largest magnitude; infinite for another type or shape."""
    if output.dtype != expected.dtype or output.shape != expected.shape:
        return float("inf")
    if output.tobytes() == expected.tobytes():
        return 0.0
    if not np.issubdtype(output.dtype, np.floating):
        return float("inf")
    actual, wanted = output.astype("float64"), expected.astype("float64")
    finite = np.isfinite(wanted)
    if not np.array_equal(actual[~finite], wanted[~finite], equal_nan=True):
        return float("inf")
    largest = np.abs(wanted[finite]).max(initial=1e-30)
    return float(np.abs(actual[finite] - wanted[finite]).max(initial=0.0) / largest)


def compile_loader(program: Path, options: list[str]) -> None:
    """Compile the C++ loader with the headers and the runtime of this interpreter's TVM."""
    options = ["-std=c++17", "-O2", "-pthread", f"-I{HERE}", *options]
    command = [cpp_compiler(), str(HERE / CPP_LOADER), "-o", str(program), *options]
    done = subprocess.run(command, check=False)
    if done.returncode:
        sys.exit(f"The compiler failed: {' '.join(command)}")
    print(f"compiled {program}; run it with: {program.resolve()} {HERE / 'built'}")
    print(f"A program of your own that includes network.h is compiled with: {' '.join(options)}")


def cpp_compiler() -> str:
    """Return the path of a C++ compiler; exit if there is none."""
    for name in (os.environ.get("CXX", ""), "c++", "g++", "clang++"):
        path = shutil.which(name) if name else None
        if path:
            return path
    sys.exit("No C++ compiler found; install g++ or clang++, or name one in CXX.")


def link_options(folders: list[Path], libraries: list[str]) -> list[str]:
    """Return options that link libraries and find them again when the program starts."""
    places = [f"-L{folder}" for folder in folders] + [f"-Wl,-rpath,{folder}" for folder in folders]
    # TVM registers its functions when a library is loaded, whether or not the program calls one of them.
    return [*places, "-Wl,--no-as-needed", *(f"-l{library}" for library in libraries)]
