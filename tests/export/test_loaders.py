"""Loaders of a built network: threads, inputs, and files that are not as they were made. Relay and Relax."""

import json
import os
import random
import shlex
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from deployments import deploy_by_worker
from onnx import TensorProto, helper, numpy_helper

import passsearch
from passsearch.core import physical_cores
from passsearch.export import write_deployment
from passsearch.standalone.deployment.checked_files import write_sums
from passsearch.standalone.deployment.processor import THREADS
from passsearch.toolchain import Toolchain

PROGRAMS = Path(__file__).parent / "programs"
SIZE = 1024
"""Rows and columns of the weights, which have 4 MB."""


CALLS_OF_A_THREAD = 60

SEPARATE = "relax, weights in files"
"""The weights are in files as if they were large."""


every_kind = pytest.mark.parametrize(
    "kind",
    ["relay", "relax", pytest.param(SEPARATE, marks=pytest.mark.slow)],
    indirect=True,
    scope="module",
)
mostly_relax = pytest.mark.parametrize(
    "kind", ["relax", pytest.param("relay", marks=pytest.mark.slow)], indirect=True, scope="module"
)
"""For tests of code that is the same for both dialects."""


@pytest.fixture(scope="module", params=["relay", "relax"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def toolchain(kind: str, request: pytest.FixtureRequest) -> Toolchain:
    found: Toolchain = request.getfixturevalue(kind.partition(",")[0])
    return found


_LOADERS: dict[str, tuple[bytes, str]] = {}
"""The compiled loader of each compiler, which is the same for all networks, and the options of the C++ compiler."""


@pytest.fixture(scope="module")
def original(kind: str, toolchain: Toolchain, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A built deployment of a network with two inputs, ``image`` and ``bias``."""
    home = tmp_path_factory.mktemp("network")
    deploy = write_deployment(home / "deploy", deploy_by_worker(toolchain, _save_network(home / "two.onnx"), home))
    program = [
        f"import runpy, sys; sys.path.insert(0, {str(deploy)!r})",
        "import separate_weights; separate_weights.LEAST_BYTES = 1" if kind == SEPARATE else "",
        f"runpy.run_path({str(deploy / 'build_model.py')!r}, run_name='__main__')",
    ]
    done = run(toolchain.python, "-c", "\n".join(program))
    assert done.returncode == 0, done.stderr
    if toolchain.name not in _LOADERS:
        (compiler := home / "c++").write_text('#!/bin/sh\nexec c++ "$@" -O0\n')  # half of the time of -O2
        compiler.chmod(0o755)
        command = (toolchain.python, deploy / "run_model.py", "--compile", deploy / "run_model")
        compiled = run("env", f"CXX={compiler}", *command)
        assert compiled.returncode == 0, compiled.stderr
        options = compiled.stdout.rpartition("is compiled with: ")[2]
        _LOADERS[toolchain.name] = (deploy / "run_model").read_bytes(), options.replace(str(deploy), "{deploy}")
    program, options = _LOADERS[toolchain.name]
    (deploy / "run_model").write_bytes(program)
    (deploy / "run_model").chmod(0o755)
    (home / "options.txt").write_text(options.replace("{deploy}", str(deploy)))
    return deploy


@pytest.fixture
def deploy(original: Path, tmp_path: Path) -> Path:
    """A copy that a test may change."""
    shutil.copytree(original, tmp_path / "deploy", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path / "deploy"


def _save_network(path: Path) -> Path:
    nodes = [
        helper.make_node("Relu", ["image"], ["positive"]),
        helper.make_node("MatMul", ["positive", "weights"], ["product"]),
        helper.make_node("Add", ["product", "bias"], ["y"]),
    ]
    weights = np.random.default_rng(0).normal(0, 0.1, (SIZE, SIZE)).astype("float32")
    types = {name: helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, SIZE]) for name in ("image", "bias", "y")}
    graph = helper.make_graph(
        nodes, "two", [types["image"], types["bias"]], [types["y"]], [numpy_helper.from_array(weights, "weights")]
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), str(path))
    return path


def run(*command: object) -> subprocess.CompletedProcess[str]:
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("PYTHON") and name not in THREADS
    }
    return subprocess.run(
        list(map(str, command)), cwd="/", env=environment, capture_output=True, text=True, timeout=600
    )


def refused(done: subprocess.CompletedProcess[str]) -> str:
    """Return the one line of a refusal."""
    assert done.returncode in (1, 2), done
    (line,) = done.stderr.splitlines()
    return line


def load_network(toolchain: Toolchain, deploy: Path, *lines: str) -> subprocess.CompletedProcess[str]:
    """Load a compiled network as ``passsearch.load`` does, in a process with the compiler, and run some lines."""
    program = [
        f"import sys; sys.path += {[str(Path(passsearch.__file__).parents[1]), sysconfig.get_path('purelib')]!r}",
        "from passsearch.api.compiled_network import CompiledNetwork",
        "from passsearch.errors import UserError",
        f"try: CompiledNetwork({{'folder': {str(deploy)!r}}}).load()",
        "except UserError as error: sys.exit(str(error))",
        *lines,
    ]
    return run(toolchain.python, "-c", "\n".join(program))


def load_by_each(toolchain: Toolchain, deploy: Path) -> list[subprocess.CompletedProcess[str]]:
    """Load a built network by the loaders in Python and C++ and, where it can run beside the compiler, passsearch."""
    done = [run(toolchain.python, deploy / "run_model.py"), run(deploy / "run_model", deploy / "built")]
    return [*done, load_network(toolchain, deploy)] if runs_passsearch(toolchain) else done


def runs_passsearch(toolchain: Toolchain) -> bool:
    """Return True if the toolchain's interpreter can have this one's packages."""
    version = run(toolchain.python, "-c", "import sys; print(*sys.version_info[:2])").stdout
    return version.split() == list(map(str, sys.version_info[:2]))


@every_kind
@pytest.mark.parametrize("threads", [pytest.param(2, marks=pytest.mark.slow), 4])
def test_threads_share_one_loaded_network_and_its_weights(toolchain: Toolchain, original: Path, threads: int) -> None:
    done = run(toolchain.python, PROGRAMS / "threads.py", original, threads, CALLS_OF_A_THREAD)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["faults"] == []
    assert report["machines"] >= 1
    # The weights of one machine have 4 MB.
    assert report["grown"] < 2 * SIZE * SIZE


@every_kind
def test_threads_share_one_loaded_network_in_cpp(original: Path, tmp_path: Path) -> None:
    options = shlex.split(original.with_name("options.txt").read_text())
    program = tmp_path / "threads"
    made = run("c++", PROGRAMS / "threads.cc", "-o", program, *options, "-O0")
    assert made.returncode == 0, made.stderr
    done = run(program, original / "built", 4, CALLS_OF_A_THREAD)
    wrong, *faults = done.stdout.splitlines()
    assert wrong == "0", done
    assert faults == [
        f"Input image must be float32[1, {SIZE}], and is float32[8, {SIZE}]",
        f"Input image must have {4 * SIZE} bytes, and has 16",
        "This loader has no type >f4",
    ]


COUNTING = """
import sys; sys.path.insert(0, sys.argv[1])
import run_model, tvm
run_model.load(f"{sys.argv[1]}/built")
print(tvm.get_global_func("runtime.NumThreads")())
"""


@every_kind
def test_a_call_runs_on_every_core(toolchain: Toolchain, original: Path, tmp_path: Path) -> None:
    assert run(toolchain.python, "-c", COUNTING, original).stdout == f"{physical_cores()}\n"
    if toolchain.dialect == "relax" and runs_passsearch(toolchain):  # Relay has a loader of its own only
        loaded = load_network(toolchain, original, "import tvm", COUNTING.splitlines()[-1])
        assert loaded.stdout == f"{physical_cores()}\n", loaded
    options, program = shlex.split(original.with_name("options.txt").read_text()), tmp_path / "count_threads"
    made = run("c++", PROGRAMS / "count_threads.cc", "-o", program, *options, "-O0")
    assert made.returncode == 0, made.stderr
    # A TVM that was built without threads makes one task, whatever the variable says.
    one, all_of_them = (
        run("env", f"TVM_NUM_THREADS={count}", program, original / "built").stdout for count in (1, physical_cores())
    )
    assert run(program, original / "built").stdout == all_of_them
    assert one == "1\n", "the user's number counts"


CALLS = {
    "network(image)": "`bias` is missing; the network takes `image` float32[1, 1024], `bias` float32[1, 1024]",
    "network(image, bias, image)": "3 arrays are too many; ",
    "network(image, bias, image=image)": "`image` is there twice, by place and by name; ",
    "network(image=image, bais=bias)": "No input `bais`, `bias` is missing; ",
    "network({'image': image})": "`bias` is missing; ",
    "network(image.astype('float64'), bias)": "`image` must be float32[1, 1024], and is float64[1, 1024]; convert it: ",
    "network(np.zeros((8, 1024), 'float32'), bias)": "is float32[8, 1024]; call it once for each batch of 1, or export",
    "network(image[0], bias)": "`image` must be float32[1, 1024], and is float32[1024]",
    "network(image, 'text')": "`bias` must be float32[1, 1024], and is the text 'text'; give an array of numbers",
    "network(image, None)": "`bias` must be float32[1, 1024], and is None; give an array of numbers",
    "network(image, [[1], [1, 2]])": "`bias` is no array: ",
}
"""What a network says to calls that it does not take."""


def test_a_wrong_input_is_one_clear_line(toolchain: Toolchain, original: Path) -> None:
    program = [
        f"import sys; sys.path.insert(0, {str(original)!r})",
        "import json, numpy as np, run_model",
        f"network = run_model.load({str(original / 'built')!r})",
        "image = np.random.default_rng(0).normal(size=(1, 1024)).astype('float32'); bias = image + 1",
        "lines = []",
        f"for call in {list(CALLS)!r}:",
        "    try: eval(call); lines.append('accepted')",
        "    except run_model.InputError as error: lines.append(str(error))",
        "same = [network({'image': image, 'bias': bias}), network(bias=bias, image=image), network(image, bias=bias)]",
        "turned = np.asfortranarray(np.broadcast_to(image.T, (1024, 1)).T)",
        "same += [network(image, bias), network(turned, bias)]",
        "lines.append(all(np.array_equal(same[0][0], each[0]) for each in same))",
        "print(json.dumps(lines))",
    ]
    done = run(toolchain.python, "-c", "\n".join(program))
    assert done.returncode == 0, done.stderr
    *lines, is_same = json.loads(done.stdout)
    assert is_same
    for line, expected in zip(lines, CALLS.values(), strict=True):
        assert expected in line and "\n" not in line


def flip(path: Path, seed: int = 0) -> None:
    """Change one bit."""
    content = bytearray(path.read_bytes())
    content[random.Random(seed).randrange(len(content))] ^= 4
    path.write_bytes(content)


def cut(path: Path) -> None:
    """Leave the first third."""
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 3])


@every_kind
@pytest.mark.parametrize("change", [flip, *(pytest.param(each, marks=pytest.mark.slow) for each in (cut, Path.unlink))])
def test_a_damaged_library_is_refused_by_both_loaders(
    toolchain: Toolchain, deploy: Path, change: Callable[[Path], None]
) -> None:
    program = deploy / "run_model"
    (library,) = (deploy / "built").glob("*.so")
    change(library)
    for command in ((toolchain.python, deploy / "run_model.py"), (program, deploy / "built")):
        line = refused(run(*command))
        assert library.name in line and "run build_model.py again" in line


separate_kind = pytest.mark.parametrize("kind", [SEPARATE], indirect=True, scope="module")


@separate_kind
def test_weights_that_are_not_as_they_were_built_are_refused_by_both_loaders(
    toolchain: Toolchain, deploy: Path
) -> None:
    built = deploy / "built"
    (library,), (weight,) = built.glob("*.so"), (built / "constants").iterdir()
    assert library.stat().st_size < SIZE * SIZE < weight.stat().st_size

    def replace(path: Path) -> None:
        """Write another array of the same type and shape."""
        other = np.load(weight).T.copy()
        with path.open("wb") as file:
            np.save(file, other)

    table, content = built / "weights.json", weight.read_bytes()
    for path, change in ((weight, flip), (weight, Path.unlink), (weight, replace), (table, flip)):
        change(path)
        # Every loader compares digests; the quickest one does for the other kinds of damage.
        loaded = load_by_each(toolchain, deploy) if change is flip else [run(deploy / "run_model", built)]
        for done in loaded:
            line = refused(done)
            assert path.name in line and "run build_model.py again" in line
        weight.write_bytes(content)


@separate_kind
def test_weights_that_the_build_has_not_written_are_refused(toolchain: Toolchain, deploy: Path) -> None:
    built = deploy / "built"
    (weight,) = (built / "constants").iterdir()
    shutil.copy(weight, built / "other.npy")
    (built / "weights.json").write_text(json.dumps({"main": ["../other"]}))
    sums = (built / "SHA256SUMS").read_text().splitlines(keepends=True)
    (built / "SHA256SUMS").write_text("".join(line for line in sums if "weights.json" not in line))
    for done in load_by_each(toolchain, deploy):
        assert "SHA256SUMS has no digest of weights.json" in refused(done)


@separate_kind
def test_a_function_loads_without_the_weights_of_another(toolchain: Toolchain, deploy: Path) -> None:
    table = deploy / "built" / "weights.json"
    table.write_text(json.dumps({**json.loads(table.read_text()), "main_b": ["missing"]}))
    write_sums(deploy / "built")
    for done in load_by_each(toolchain, deploy):
        assert done.returncode == 0, done


@separate_kind
def test_a_weight_of_another_size_than_its_array_is_refused_and_not_kept_in_memory(
    original: Path, tmp_path: Path
) -> None:
    program, file = tmp_path / "map_arrays", tmp_path / "array.npy"
    options = shlex.split(original.with_name("options.txt").read_text())
    made = run("c++", PROGRAMS / "map_arrays.cc", "-o", program, *options, "-O0")
    assert made.returncode == 0, made.stderr
    np.save(file, np.arange(SIZE, dtype="float32"))
    assert run(program, file).stdout == f"{SIZE} numbers\nmapped\n"
    cut(file)
    assert run(program, file).stdout == f"{file} has another size than its array; run build_model.py again.\n"
    np.save(file, np.zeros(SIZE, "complex64"))
    assert run(program, file).stdout == "This loader has no type <c8\n"


@mostly_relax
@pytest.mark.parametrize(
    "name", ["network.json", "pipeline.json", "checked_files.py", "rebuild_checks.py", "README.md"]
)
def test_a_damaged_export_is_refused_before_anything_is_built(toolchain: Toolchain, deploy: Path, name: str) -> None:
    for change in (flip, cut, Path.unlink):
        path = deploy / name
        content = path.read_bytes()
        change(path)
        done = run(toolchain.python, deploy / "build_model.py", "--check-only")
        path.write_bytes(content)
        assert name.partition(".")[0] in refused(done) and "copy the exported folder again" in done.stderr
        assert done.stdout == ""


@mostly_relax
@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ("tvm 0.", "tvm 9.", "was built by TVM 9."),
        ("processor ", "processor riscv64 ", "was built for a processor with riscv64, which this one lacks"),
        ("\nfunction", " avx99\nfunction", "was built for a processor with avx99, which this one lacks"),
    ],
)
def test_a_build_from_elsewhere_is_refused_by_both_loaders(
    toolchain: Toolchain, deploy: Path, old: str, new: str, line: str
) -> None:
    program = deploy / "run_model"
    conditions = deploy / "built" / "conditions.txt"
    conditions.write_text(conditions.read_text().replace(old, new, 1))
    write_sums(deploy / "built")
    for command in ((toolchain.python, deploy / "run_model.py"), (program, deploy / "built")):
        assert line in refused(run(*command))


@mostly_relax
def test_a_build_for_a_device_that_is_not_here_is_refused(toolchain: Toolchain, deploy: Path) -> None:
    conditions = deploy / "built" / "conditions.txt"
    conditions.write_text(conditions.read_text().replace("device cpu", "device opencl", 1))
    write_sums(deploy / "built")
    line = refused(run(toolchain.python, deploy / "run_model.py"))
    assert line.endswith(
        "runs on the device `opencl`, which this machine lacks; tune and export for this machine, or run "
        "build_model.py with --target."
    )


@mostly_relax
@pytest.mark.parametrize(
    ("target", "line"),
    [
        ("nonsense", "TVM has no target `nonsense`"),
        ("llvm -mcpu=nonsense", "`llvm -mcpu=nonsense`"),
        ("llvm -mtriple=riscv64-unknown-linux-gnu", "needs a processor with riscv64, which this one lacks"),
    ],
)
def test_a_target_that_this_machine_cannot_run_is_refused(
    toolchain: Toolchain, original: Path, target: str, line: str
) -> None:
    done = run(toolchain.python, original / "build_model.py", "--check-only", "--target", target)
    # LLVM prints a line of its own about a processor that it does not know.
    last = done.stderr.splitlines()[-1]
    assert done.returncode in (1, 2) and line in last and "--target" in last


def test_another_compiler_is_refused(toolchain: Toolchain, original: Path, relay: Toolchain, relax: Toolchain) -> None:
    other = relax if toolchain == relay else relay
    for script in ("build_model.py", "run_model.py"):
        line = refused(run(other.python, original / script))
        assert f"has TVM {other.tvm_version}, and this folder needs TVM {toolchain.tvm_version}" in line
