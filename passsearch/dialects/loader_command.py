# ruff: noqa: B905, T201
"""The part of a deployment's Python loader that does not depend on the dialect: examples, and its command line.

Standard library and numpy only, Python 3.8 on: an exported folder holds a copy beside its loader.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
EXAMPLES, INDEX = "examples", "index.txt"
"""Names in a built folder: the folder of examples, and the file with their tolerance, number and names."""

MAIN = "main"
"""Name of the entry function of a network that has one."""

CPP_LOADER = "run_model.cc"


def own_device() -> str:
    """Return the device that the pipeline beside this file builds for."""
    target = str(json.loads((HERE / "pipeline.json").read_text())["target"])
    return "cuda" if "cuda" in target or "nvidia/" in target else "cpu"


def example_folder(folder: Path, entry: str) -> Path:
    """Return the folder of the examples of an entry function."""
    return folder / EXAMPLES if entry == MAIN else folder / EXAMPLES / entry


def entries(folder: Path) -> list[str]:
    """Return the names of the entry functions that have examples."""
    if (folder / EXAMPLES / INDEX).exists():
        return [MAIN]
    return sorted(index.parent.name for index in (folder / EXAMPLES).glob(f"*/{INDEX}"))


def write_examples(folder: Path, inputs: dict[str, Any], outputs: list[Any], tolerance: float) -> None:
    """Write example inputs and the outputs that a checked build gave for them, for the loaders to compare with."""
    folder.mkdir(parents=True)
    for number, array in enumerate(inputs.values()):
        np.save(folder / f"input-{number}.npy", array)
    for number, array in enumerate(outputs):
        np.save(folder / f"output-{number}.npy", array)
    (folder / INDEX).write_text("\n".join([f"{tolerance!r} {len(outputs)}", *inputs, ""]))


def read_examples(folder: Path) -> tuple[dict[str, Any], list[Any], float]:
    """Return the example inputs by name, the expected outputs, and the tolerance."""
    head, *names = (folder / INDEX).read_text().splitlines()
    tolerance, outputs = head.split()
    inputs = {name: np.load(folder / f"input-{number}.npy") for number, name in enumerate(names)}
    return inputs, [np.load(folder / f"output-{number}.npy") for number in range(int(outputs))], float(tolerance)


def main(load: Any, compile_options: Any) -> None:
    """Run a built network on its examples, or compile the C++ loader.

    Args:
        load: Function that returns the network of a folder as a function of arrays by name, which returns a list.
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
    names = entries(folder)
    if not names:
        sys.exit(f"{folder} has no examples; run build_model.py first, on a machine that runs the network")
    failed = [name for name in names if not agrees(folder, load, name)]
    sys.exit(int(bool(failed)))


def agrees(folder: Path, load: Any, entry: str) -> bool:
    """Run one entry function on its examples, print how far the outputs deviate, and return whether that is allowed."""
    inputs, expected, tolerance = read_examples(example_folder(folder, entry))
    network = load(folder) if entry == MAIN else load(folder, function=entry)
    outputs = network(inputs)  # the first run is slower
    start = time.perf_counter()
    outputs = network(inputs)
    milliseconds = 1e3 * (time.perf_counter() - start)
    if len(outputs) != len(expected):
        sys.exit(f"The network has {len(outputs)} outputs, {len(expected)} are expected")
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
    command = [cpp_compiler(), "-std=c++17", "-O2", f"-I{HERE}", str(HERE / CPP_LOADER), "-o", str(program), *options]
    done = subprocess.run(command, check=False)
    if done.returncode:
        sys.exit(f"The compiler failed: {' '.join(command)}")
    print(f"compiled {program}; run it with: {program.resolve()} {HERE / 'built'}")


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
