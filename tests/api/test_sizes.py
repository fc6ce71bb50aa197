"""A network that is compiled for several sizes: one folder, which takes other sizes, too."""

import json
import os
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import passsearch
from passsearch.errors import UserError
from passsearch.report import compiled_text
from passsearch.results import Compilation
from passsearch.toolchain import Toolchain

PROGRAM = Path(__file__).parent / "programs" / "call_sizes.py"
WORDS, WIDTH = 500, 32
SIZES = "ids=1x8,1x16"


def encoder(path: Path, *, has_mask: bool) -> Path:
    """Write one layer of attention over embedded words and places."""
    rng = np.random.default_rng(0)
    weights = {
        "words": rng.standard_normal((WORDS, WIDTH), "f4"),
        "dense": rng.standard_normal((WIDTH, WIDTH), "f4") / 6,
        "places": rng.standard_normal((64, WIDTH), "f4"),
        "scale": np.ones(WIDTH, "f4"),
        "begin": np.array(0),
        "step": np.array(1),
        "one": np.array(1, "f4"),
        "lowest": np.array(-1e9, "f4"),
        "axes": np.array([1]),
    }
    inputs = {"ids": TensorProto.INT64, **({"mask": TensorProto.INT64} if has_mask else {})}
    hiding = [
        helper.make_node("Cast", ["mask"], ["shown"], to=TensorProto.FLOAT),
        helper.make_node("Sub", ["one", "shown"], ["hidden"]),
        helper.make_node("Mul", ["hidden", "lowest"], ["low"]),
        helper.make_node("Unsqueeze", ["low", "axes"], ["bias"]),
        helper.make_node("Add", ["raw", "bias"], ["scores"]),
    ]
    nodes = [
        helper.make_node("Shape", ["ids"], ["shape"], start=1),
        helper.make_node("Squeeze", ["shape"], ["length"]),
        helper.make_node("Range", ["begin", "length", "step"], ["range"]),
        helper.make_node("Gather", ["places", "range"], ["place"]),
        helper.make_node("Gather", ["words", "ids"], ["word"]),
        helper.make_node("Add", ["word", "place"], ["sum"]),
        helper.make_node("LayerNormalization", ["sum", "scale"], ["x"], axis=-1),
        helper.make_node("MatMul", ["x", "dense"], ["keys"]),
        helper.make_node("Transpose", ["keys"], ["turned"], perm=[0, 2, 1]),
        helper.make_node("MatMul", ["x", "turned"], ["raw" if has_mask else "scores"]),
        *(hiding if has_mask else []),
        helper.make_node("Softmax", ["scores"], ["shares"], axis=-1),
        helper.make_node("MatMul", ["shares", "x"], ["y"]),
    ]
    return save(path, nodes, inputs, weights, (1, "length", WIDTH))


def save(path: Path, nodes: Sequence[Any], inputs: dict[str, int], weights: dict[str, Any], shape: Any) -> Path:
    """Write a network whose inputs have an open length."""
    graph = helper.make_graph(
        nodes,
        path.stem,
        [helper.make_tensor_value_info(name, kind, [1, "length"]) for name, kind in inputs.items()],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
        [
            numpy_helper.from_array(array, name)
            for name, array in weights.items()
            if any(name in n.input for n in nodes)
        ],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    return path


def inputs_of(length: int, *, has_mask: bool, shown: int | None = None) -> dict[str, Any]:
    rng = np.random.default_rng(length)
    mask = (np.arange(length)[None] < (length if shown is None else shown)).astype("int64")
    return {"ids": rng.integers(0, WORDS, (1, length)), **({"mask": mask} if has_mask else {})}


def called(relax: Toolchain, folder: Path, calls: dict[int, dict[str, Any]]) -> tuple[dict[str, Any], Any]:
    """Return the outputs of calls by length, and which functions they took and which were refused."""
    arrays = {f"{name}_{length}": array for length, given in calls.items() for name, array in given.items()}
    np.savez(folder.with_name("inputs.npz"), **arrays)
    files: list[str | Path] = [folder.with_name("inputs.npz"), folder.with_name("outputs.npz")]
    ask = [relax.python, "-c", "import sys; print(*sys.version_info[:2])"]
    if subprocess.run(ask, capture_output=True, text=True, check=True).stdout.split() == [
        *map(str, sys.version_info[:2])
    ]:
        files.append(sysconfig.get_path("purelib"))  # then its interpreter has what passsearch needs
    done = subprocess.run(
        [relax.python, PROGRAM, folder, *files],
        env={**os.environ, "PYTHONPATH": str(Path(passsearch.__file__).parents[1])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    with np.load(folder.with_name("outputs.npz")) as outputs:
        return dict(outputs), json.loads(done.stdout.splitlines()[-1])


def deviation(network: Path, given: dict[str, Any], output: Any) -> float:
    session = onnxruntime.InferenceSession(network, providers=["CPUExecutionProvider"])
    expected = session.run(None, given)[0]
    assert output.shape == expected.shape
    return float(np.abs(output - expected).max() / np.abs(expected).max())


@pytest.fixture(scope="module")
def masked(relax: Toolchain, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, passsearch.CompiledNetwork]:
    folder = tmp_path_factory.mktemp("masked")
    network = encoder(folder / "masked.onnx", has_mask=True)
    options: Any = {"toolchain": relax.name, "rivals": ()}
    return network, passsearch.compile(network, to=folder / "deploy", sizes=SIZES, **options)


def test_a_masked_network_is_padded_and_longer_inputs_take_the_open_function(
    relax: Toolchain, masked: tuple[Path, passsearch.CompiledNetwork]
) -> None:
    network, compiled = masked
    calls = {length: inputs_of(length, has_mask=True) for length in (1, 5, 8, 11, 16, 20)}
    calls[6] = inputs_of(6, has_mask=True, shown=0)  # a row that is hidden as a whole is not padded
    outputs, told = called(relax, Path(compiled["folder"]), calls)
    for length, given in calls.items():
        assert deviation(network, given, outputs[f"y_{length}"]) < 1e-5, length
    expected = [_taken(compiled, length) for length in sorted(calls)]
    expected[2] = "main__open"
    assert told == {"taken": expected, "refused": {}}


def _taken(compiled: passsearch.CompiledNetwork, length: int) -> str:
    """Return the function that a call takes: it is padded where that was faster once the network was built."""
    for bucket in compiled["sizes"]["buckets"]:
        size = bucket["inputs"]["ids"][1]
        if length == size or bucket["padded_from"] <= length < size:
            return f"main_{bucket['name']}"
        if length < size:
            break
    return "main__open"


def test_the_result_says_what_each_size_takes(masked: tuple[Path, passsearch.CompiledNetwork]) -> None:
    _, compiled = masked
    sizes = compiled["sizes"]
    assert [bucket["name"] for bucket in sizes["buckets"]] == ["1x8", "1x16"]
    assert all(bucket["seconds"] > 0 for bucket in sizes["buckets"])
    assert [(row["inputs"]["ids"], row["bucket"]) for row in sizes["between"]] == [([1, 5], "1x8"), ([1, 13], "1x16")]
    assert all(row["deviation"] < 1e-5 and row["padded_s"] > 0 and row["open_s"] > 0 for row in sizes["between"])
    text = compiled_text(Compilation.from_json(compiled))
    froms = [bucket["padded_from"] for bucket in sizes["buckets"]]
    assert 1 <= froms[0] <= 8 and 9 <= froms[1] <= 16
    assert f"1x8 from {froms[0]}, 1x16 from {froms[1]}), else the open function, also beyond 1x16" in text
    readme = (Path(compiled["folder"]) / "README.md").read_text()
    assert "| 1x16 | `main_1x16` |" in readme and "share of the calls" not in readme


def test_weights_are_in_the_library_once(masked: tuple[Path, passsearch.CompiledNetwork]) -> None:
    network, compiled = masked
    words = next(each for each in onnx.load(network).graph.initializer if each.name == "words")
    library = (Path(compiled["folder"]) / "built" / "network.so").read_bytes()
    assert library.count(numpy_helper.to_array(words).tobytes()) == 1


@pytest.mark.slow
def test_the_loader_in_c_names_the_functions(
    relax: Toolchain, masked: tuple[Path, passsearch.CompiledNetwork], tmp_path: Path
) -> None:
    folder, program = Path(masked[1]["folder"]), tmp_path / "run_model"
    subprocess.run([relax.python, folder / "run_model.py", "--compile", program], check=True, capture_output=True)
    done = subprocess.run([program, folder / "built"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1 and "main_1x8" in done.stderr
    subprocess.run([program, folder / "built", "main_1x8"], check=True, capture_output=True)


def test_a_network_without_a_mask_is_never_padded(relax: Toolchain, tmp_path: Path) -> None:
    network = encoder(tmp_path / "plain.onnx", has_mask=False)
    compiled = passsearch.compile(network, to=tmp_path / "deploy", sizes=SIZES, toolchain=relax.name, rivals=())
    assert compiled["sizes"]["padding"] is None
    assert "not masked before a softmax" in compiled["sizes"]["padding_reason"]
    calls = {length: inputs_of(length, has_mask=False) for length in (5, 8, 11, 20)}
    outputs, told = called(relax, Path(compiled["folder"]), calls)
    assert told["taken"] == ["main__open", "main_1x8", "main__open", "main__open"]
    for length, given in calls.items():
        assert deviation(network, given, outputs[f"y_{length}"]) < 1e-5, length


def test_a_network_that_has_no_open_form_refuses_other_sizes_in_one_line(relax: Toolchain, tmp_path: Path) -> None:
    network = without_open_form(tmp_path / "closed.onnx")
    compiled = passsearch.compile(network, to=tmp_path / "deploy", sizes="x=1x8,1x16", toolchain=relax.name, rivals=())
    assert not compiled["sizes"]["open"] and compiled["sizes"]["padding"] is None
    given = {length: {"x": np.ones((1, length), "f4")} for length in (8, 9)}
    outputs, told = called(relax, Path(compiled["folder"]), given)
    assert deviation(network, given[8], outputs["y_8"]) < 1e-5
    assert told["taken"] == ["main_1x8"]
    assert "compiled for the sizes 1x8, 1x16, and not for `x` float32[1, 9]" in told["refused"]["9"]
    assert "\n" not in told["refused"]["9"]


def without_open_form(path: Path) -> Path:
    """Write a network with a range of floats up to its length, which TVM gives a size of its own."""
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"], start=1),
        helper.make_node("Squeeze", ["shape"], ["length"]),
        helper.make_node("Cast", ["length"], ["limit"], to=TensorProto.FLOAT),
        helper.make_node("Range", ["zero", "limit", "one"], ["places"]),
        helper.make_node("Add", ["x", "places"], ["sum"]),
        helper.make_node("Unsqueeze", ["sum", "last"], ["column"]),
        helper.make_node("LayerNormalization", ["column", "scale"], ["normal"], axis=-1),
        helper.make_node("Squeeze", ["normal", "last"], ["row"]),
        helper.make_node("Add", ["row", "sum"], ["y"]),
    ]
    weights = {"zero": np.array(0, "f4"), "one": np.array(1, "f4"), "last": np.array([2]), "scale": np.ones(1, "f4")}
    return save(path, nodes, {"x": TensorProto.FLOAT}, weights, (1, "length"))


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ("ids=1x16,1x8", "Sizes grow from each to the next; 1x8 follows 1x16"),
        ("ids=1x8,16", "Sizes of `ids` have one number of dimensions"),
        ("ids=1x8x1,1x16x1", "ids"),
        ("other=1x8,1x16", "other"),
        ("ids=1x8,1x8", "given twice"),
    ],
)
def test_bad_sizes_are_refused_in_one_line(relax: Toolchain, tmp_path: Path, sizes: str, message: str) -> None:
    network = encoder(tmp_path / "masked.onnx", has_mask=True)
    with pytest.raises(UserError, match=message) as caught:
        passsearch.compile(network, to=tmp_path / "deploy", sizes=sizes, toolchain=relax.name, rivals=())
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "deploy").exists()
