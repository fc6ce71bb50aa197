"""The part of a deployment script that does not depend on the dialect: arguments, passes, checks of IR and outputs."""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import importlib
import importlib.util
import json
import math
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import build_target
import checked_files
import input_values
import linker
import loader_command
import numpy as np

HERE = Path(__file__).resolve().parent

AGAIN, MOST_AGAIN_S = 100, 10.0
"""Most calls after which outputs are compared again, and seconds after which no further one begins."""

LEAST_MEAN = 1e-3
"""Deviation of the mean magnitude that is always allowed, as a share of it."""


@contextlib.contextmanager
def empty_working_folder() -> Any:
    """Run the block in an empty folder, which is deleted afterwards.

    TVM's Relay is imported in it: it makes a cache folder where it is imported, and does not start where it cannot.
    """
    working_folder = Path.cwd()
    with tempfile.TemporaryDirectory() as empty:
        os.chdir(empty)
        try:
            yield
        finally:
            os.chdir(working_folder)


def rebuild(compiler: Any, files: Any, record: Any) -> None:
    """Load the network, apply the passes, build it, check the result, and write it.

    Args:
        compiler: The dialect's steps: ``version``, ``parse_target(text)``, ``load(path)``,
            ``apply(module, transform, target)``, ``hash(module)``, ``inputs(module, function)``,
            ``build(module, options, target, folder)`` and ``open(folder, inputs, target, function)``, which returns the
            function that runs one entry function of what was built, and one that returns its inputs as they are in
            memory; and ``write_sizes(record, runs, inputs, folder, target)`` where a network has several sizes.
        files: Names of the files and folders that ``build`` may write.
        record: The content of the pipeline file.
    """
    os.environ.setdefault("CUDA_DEVICE_ORDER", "PCI_BUS_ID")  # so the first GPU is the one the target was read from
    options = parse_arguments()
    if not options.check_only:
        require_writable(options.out)
    target = build_target.parse(compiler.parse_target, options.target or record["target"])
    note = print_introduction(record, options.target, version=compiler.version)
    needed = build_target.needs(target)
    if record["expected"]:
        build_target.require_machine(target, needed)
    # The result is built in a temporary folder, so that --out never holds a network that failed a check.
    with tempfile.TemporaryDirectory() as scratch, explain(note):
        folder = Path(scratch) / "built"
        folder.mkdir()
        inputs = transform_and_build(compiler, record, target=target, folder=folder, note=note)
        if record["expected"]:
            runs = run_entries(compiler, record, inputs=inputs, folder=folder, target=target)
            write_examples(folder, runs, record, note)
            if record.get("sizes"):
                between = compiler.write_sizes(record, runs, inputs=inputs, folder=folder, target=target)
                print(f"sizes between the compiled ones: {between}")
        else:
            print("outputs not checked: they were recorded where nothing ran that is built for this target")
        if not options.check_only:
            checked_files.write_conditions(
                folder,
                tvm_version=compiler.version,
                device=build_target.device_kind(target),
                processor=needed,
                inputs=inputs,
            )
            checked_files.write_sums(folder)
            checked_files.put_in_place(folder, options.out)
            names = [name for name in (*files, loader_command.EXAMPLES) if (folder / name).exists()]
            print(f"written to {options.out}: {', '.join(names)}")


@contextlib.contextmanager
def explain(note: str) -> Any:
    """Add the differences from the recorded build to an error of the block."""
    try:
        yield
    except (RuntimeError, TypeError, ValueError, AttributeError, ImportError, LookupError) as error:
        if not note or isinstance(error, checked_files.DeploymentError):
            raise
        fault = checked_files.last_line(error)
        raise checked_files.DeploymentError(f"{fault}{note}; build what was recorded, or tune again.") from error


def transform_and_build(compiler: Any, record: Any, *, target: Any, folder: Path, note: str) -> dict[str, list[Any]]:
    """Apply the passes and build the network into the folder; return the inputs of its entry functions."""
    module, inputs, apply_s = load_and_transform(compiler, record, target=target, note=note)
    build_s = build(compiler, module, record, target=target, folder=folder)
    print(f"compile time: {apply_s + build_s:.2f} s (passes {apply_s:.2f} s, build {build_s:.2f} s)")
    return inputs


def write_examples(folder: Path, runs: Any, record: Any, note: str) -> None:
    """Compare the outputs with the recorded ones, and write them and the inputs as examples."""
    check_outputs([output for _, _, outputs in runs for output in outputs], record, note=note)
    for entry, inputs, outputs in runs:
        examples = loader_command.example_folder(folder, entry)
        if not examples.exists():  # a function of open sizes has examples of its first size
            loader_command.write_examples(examples, inputs, outputs, record["tolerance"])


def parse_arguments() -> Any:
    """Return the command line's arguments."""
    parser = argparse.ArgumentParser(description="Build the network with the recorded passes and check it.")
    parser.add_argument("--target", help="TVM target to use in place of the recorded one")
    parser.add_argument("--out", type=Path, default=HERE / "built", help="folder to write to (%(default)s)")
    parser.add_argument("--check-only", action="store_true", help="check everything, write nothing")
    return parser.parse_args()


def require_writable(folder: Path) -> None:
    """Exit if the folder, or the folder it will be made in, cannot be written, before the build takes its time."""
    existing = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
    if not existing.is_dir() or not os.access(str(existing), os.W_OK | os.X_OK):
        sys.exit(f"Cannot write to {folder}; choose another folder with --out, or use --check-only")


def print_introduction(record: Any, target: str | None, *, version: str) -> str:
    """Print what is built; return the differences from the recorded build, for error messages to repeat."""
    print(f"{record['model']['name']} for {target or record['target']}")
    reference = record.get("reference") or {}
    if reference and not reference["runtime"]:
        print(f"note: outputs were compared with the import only, which is unproven: {reference['reason']}")
    notes = []
    if version != record["tvm_version"]:
        notes.append(f"this is TVM {version}, recorded with {record['tvm_version']}")
    if target and target != record["target"]:
        notes.append(f"the target is not the recorded `{record['target']}`")
    if notes:
        print(f"note: {'; '.join(notes)}")
    return "".join(f" ({note})" for note in notes)


def load_and_transform(
    compiler: Any, record: Any, *, target: Any, note: str
) -> tuple[Any, dict[str, list[Any]], float]:
    """Load the network, apply every recorded pass, and check the IR before and after it.

    Only the last module is held, because a pass may return all weights in another layout.

    Returns:
        The module, the inputs of the entry functions, and the seconds the passes took.
    """
    module = compiler.load(HERE / "network.json")
    check_hash(compiler.hash(module), record["states"][0], place="the network as loaded, before any pass", note=note)
    entries = list(dict.fromkeys(call["entry"] for call in record.get("calls", ()))) or [loader_command.MAIN]
    inputs = {entry: compiler.inputs(module, entry) for entry in entries}
    total_s = 0.0
    for number, step in enumerate(record["passes"], start=1):
        place = f"pass {number} of {len(record['passes'])}, {step['name']}"
        print(f"{place} {json.dumps(step['arguments'])}: ", end="", flush=True)
        start = time.perf_counter()
        module = compiler.apply(module, load_factory(step)(**local_arguments(step)), target)
        seconds = time.perf_counter() - start
        total_s += seconds
        check_hash(compiler.hash(module), record["states"][number], place=place, note=note)
        print(f"hash ok, {seconds:.2f} s")
    return module, inputs, total_s


def local_arguments(step: Any) -> dict[str, Any]:
    """Return the arguments of a pass; a file or folder that was exported with it is the copy beside this file."""
    return {**step["arguments"], **{name: str(HERE / copy) for name, copy in step.get("folders", {}).items()}}


def load_factory(step: Any) -> Any:
    """Return the function that makes a pass: one of TVM's own, or one from a file or package beside this one."""
    module, _, function = step["factory"].partition(":")
    if step["file"] is None:
        return getattr(importlib.import_module(module), function)
    # Loaded by path and under another name: an installed module of the same name must not take its place.
    path = HERE / step["file"]
    file, folders = (path / "__init__.py", [str(path)]) if path.is_dir() else (path, None)
    name = f"exported_{path.stem}"
    spec: Any = importlib.util.spec_from_file_location(name, file, submodule_search_locations=folders)
    if spec.name not in sys.modules:
        sys.modules[spec.name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[spec.name])
    return getattr(sys.modules[spec.name], function)


def check_hash(actual: str, expected: str, *, place: str, note: str) -> None:
    """Compare the IR's structural hash with the recorded one; if they differ, print where and exit."""
    # A recorded hash ends with "+" if another IR of the search had the same hash.
    if actual != expected.rstrip("+"):
        sys.exit(f"\nThe IR diverged at {place}: expected {expected}, got {actual}{note}")


def build(compiler: Any, module: Any, record: Any, *, target: Any, folder: Path) -> float:
    """Build the network into a folder; return the seconds that took."""
    start = time.perf_counter()
    compiler.build(module, record["build"], target, folder)
    seconds = time.perf_counter() - start
    options = record["build"]
    without = f" without {', '.join(options['disabled'])}" if options["disabled"] else ""
    print(f"build at opt_level {options['opt_level']}{without}: {seconds:.2f} s")
    return seconds


def require_linker() -> str:
    """Return the path of the C compiler that links kernels; exit if there is none."""
    try:
        return linker.find_linker()  # type: ignore[no-any-return]
    except FileNotFoundError as error:
        sys.exit(str(error))


def make_inputs(record: Any) -> dict[str, Any]:
    """Return the inputs of the recorded outputs, in the order of the record, which decides the values."""
    return _inputs_of(record, record["seed"])


def _inputs_of(record: Any, seed: int) -> dict[str, Any]:
    inputs: dict[str, Any] = input_values.make_inputs(record["inputs"], record.get("ranges", {}), seed)
    return inputs


def run_entries(compiler: Any, record: Any, *, inputs: Any, folder: Path, target: Any) -> list[tuple[str, Any, Any]]:
    """Run every entry function of the built network; return its name, inputs and outputs.

    Exit if a function computes something else once it has run many times, or changes its inputs.
    """
    arrays, others = make_inputs(record), _inputs_of(record, record["seed"] + 1)
    if not record.get("calls"):
        network, held = compiler.open(folder, inputs[loader_command.MAIN], target, loader_command.MAIN)
        return [(loader_command.MAIN, arrays, run_again(network, held, arrays, others, record["tolerance"]))]
    runs = []
    for call in record["calls"]:
        network, held = compiler.open(folder, inputs[call["entry"]], target, call["entry"])
        # The inputs of all entries are in one record, under the name of the case and their own.
        own, other = ({name: each[f"{call['name']}.{name}"] for name in call["inputs"]} for each in (arrays, others))
        runs.append((call["entry"], own, run_again(network, held, own, other, record["tolerance"])))
    return runs


def run_again(network: Any, held: Any, inputs: Any, others: Any, tolerance: float) -> list[Any]:
    """Return the outputs of a network; exit if they are others after many calls, or if its inputs are changed.

    Args:
        network: Runs the network on arrays by name.
        held: Returns the inputs as they are in memory after a run, by name.
        inputs: The inputs.
        others: Inputs of the calls in between, so that outputs which are not computed again are not those expected.
        tolerance: Largest deviation, as a share of the largest magnitude.
    """
    outputs: list[Any] = [np.array(output) for output in network(inputs)]
    check_inputs(held(), inputs)
    calls, end = 0, time.perf_counter() + MOST_AGAIN_S
    while calls < AGAIN and (not calls or time.perf_counter() < end):
        network(others)
        calls += 1
    for number, (output, again) in enumerate(zip(outputs, network(inputs))):
        if np.array_equal(output, again, equal_nan=output.dtype.kind == "f"):
            continue
        deviation = np.abs(np.asarray(again, "float64") - output).max() / max(np.abs(output).max(), 1e-30)
        # `not <=` instead of `>`: a deviation that is NaN must fail.
        if not deviation <= tolerance:
            sys.exit(f"After {calls + 1} calls, output {number} is another one on equal inputs: the code is wrong.")
    return outputs


def check_inputs(held: Any, inputs: Any) -> None:
    """Exit if the network has changed its inputs."""
    for name, array in held.items():
        if not np.array_equal(array, inputs[name], equal_nan=array.dtype.kind == "f"):
            sys.exit(f"The network changes its input `{name}`: the code is wrong.")


def check_outputs(outputs: list[Any], record: Any, *, note: str) -> None:
    """Compare the outputs with the recorded ones; if they differ by more than the tolerance, print it and exit."""
    expected, tolerance = record["expected"], record["tolerance"]
    if len(outputs) != len(expected):
        sys.exit(f"The network has {len(outputs)} outputs, recorded were {len(expected)}.")
    if all(has_same_bits(*pair) for pair in zip(outputs, expected)):
        print("outputs ok: bit-identical")
        return
    if record.get("same_bits"):
        first = next(place for place, pair in enumerate(zip(outputs, expected)) if not has_same_bits(*pair))
        sys.exit(
            f"Output {first} has other bits than recorded, and those of {record['same_bits']} were to be kept; bits "
            f"hold for one version of TVM and one target{note}"
        )
    for pair in zip(outputs, expected):
        if fault := finer_fault(*pair, record.get("mean_tolerance") or tolerance):
            sys.exit(f"The outputs diverged though the IR is the recorded one after every pass: {fault}{note}")
    deviation = max(output_deviation(*pair) for pair in zip(outputs, expected))
    # `not <=` instead of `>`: a deviation that is NaN must fail.
    if not deviation <= tolerance:
        sys.exit(
            f"The outputs diverged though the IR is the recorded one after every pass: they deviate by "
            f"{deviation:.2g} of the largest value, {tolerance:.2g} is allowed{note}"
        )
    print(f"outputs ok: they deviate by {deviation:.2g} of the largest value, {tolerance:.2g} is allowed")


def has_same_type(output: Any, expected: Any) -> bool:
    """Return True if an output has the recorded shape and dtype."""
    return [list(output.shape), str(output.dtype)] == [expected["shape"], expected["dtype"]]


def has_same_bits(output: Any, expected: Any) -> bool:
    """Return True if an output equals the recorded one in every bit."""
    return has_same_type(output, expected) and hashlib.sha256(output.tobytes()).hexdigest() == expected["sha256"]


def finer_fault(output: Any, expected: Any, mean_tolerance: float) -> str:
    """Return what of an output's mean magnitude or of its slices is wrong; empty if nothing is."""
    if not has_same_type(output, expected) or not np.issubdtype(output.dtype, np.floating) or not output.size:
        return ""
    magnitudes = np.where(np.isfinite(output), np.abs(output.astype("float64")), 0.0)
    mean, recorded = float(magnitudes[np.isfinite(output)].mean()), expected.get("mean_abs")
    allowed = max(mean_tolerance, LEAST_MEAN)
    if recorded and not abs(mean / recorded - 1.0) <= allowed:
        return f"the mean magnitude is {mean / recorded:.3g} times the recorded one, {allowed:.2g} of it is allowed"
    floor = 8 * float(np.finfo(output.dtype).eps) * expected["max_abs"]
    for axis, slices in expected.get("slices", {}).items():
        others = tuple(place for place in range(output.ndim) if place != int(axis))
        known, found = np.array(slices), magnitudes.max(axis=others)
        # A slice that is small beside the others may be lost without a large deviation.
        lost = (known > floor) & (np.abs(found - known) > known / 2 + floor)
        if lost.any():
            return f"slice {int(lost.argmax())} of axis {axis} has another largest magnitude than the recorded one"
    return ""


def output_deviation(output: Any, expected: Any) -> float:
    """Return the largest deviation from the recorded values, as a share of the largest recorded magnitude.

    Infinite for an output of another type, for integers that differ, and for other places of NaN or infinity.
    """
    if has_same_bits(output, expected):
        return 0.0
    if not has_same_type(output, expected) or not np.issubdtype(output.dtype, np.floating):
        return math.inf
    # The record has a sample of the values, evenly spaced, because a whole output can be megabytes.
    values, last = np.array(expected["values"], dtype="float64"), output.size - 1
    places = [index * last // max(len(values) - 1, 1) for index in range(len(values))]
    finite = np.abs(output[np.isfinite(output)].astype("float64"))
    # The largest magnitude is compared as well: it is the one value that depends on every element.
    actual = np.append(output.ravel()[places].astype("float64"), finite.max(initial=0.0))
    recorded = np.append(values, expected["max_abs"])
    both = np.isfinite(actual) & np.isfinite(recorded)
    if not np.array_equal(actual[~both], recorded[~both], equal_nan=True):
        return math.inf
    return float(np.abs(actual[both] - recorded[both]).max() / max(expected["max_abs"], 1e-30))
