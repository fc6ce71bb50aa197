"""What files of networks would run is found without their frameworks."""

import json
import struct
import time
import zipfile
from pathlib import Path
from typing import Any

import pytest

from passsearch.errors import UserError
from passsearch.frontends import find_code, resolve

HONEST_SIZES = [
    *("s0", "2*s0 + 1", "Symbol('s77', positive=True, integer=True)", "Max(1, s0)", "Eq(Mod(s0, 4), 0)"),
    *("Pow(Symbol('s0', integer=True), Integer(2))", "TruncToInt(Mul(Float('1.5', precision=53), ToFloat(s0)))"),
]
GUARDS = {
    "L['x'].size()[1] % 2 == 0": True,
    "1 + (((-3) + L['x'].size()[2]) // 2) >= 1": True,
    "math.trunc(1.5*torch.sym_float(L['flat_args'][0].size()[2])) != 1": True,
    "L['x'].__class__ == 1": False,
    "L['x'].item() == 1": False,
    "L['x\\'y'].size()[0] == 1": False,
    "math.factorial(10**9) == 1": False,
    "(lambda: 1)() == 1": False,
}
HONEST_OPERATORS = ["torch.ops.aten.add.Tensor", "torch.ops.aten.__and__.Scalar", "_operator.getitem", "torch.sym_int"]


def archive(path: Path, **entries: Any) -> Path:
    with zipfile.ZipFile(path, "w") as file:
        for name, content in entries.items():
            file.writestr(name, content if isinstance(content, str) else json.dumps(content))
    return path


def program(path: Path, *, target: str = HONEST_OPERATORS[0], size: str = "s0", weight: str = "weight_0") -> Path:
    """A file like those of ``torch.export.save``."""
    graph = {"nodes": [{"target": target}], "tensor_values": {"x": {"sizes": [{"as_expr": {"expr_str": size}}]}}}
    weights = {"w": {"path_name": weight, "use_pickle": False, "tensor_meta": {"sizes": [{"as_int": 1}]}}}
    entries = {"m/models/model.json": {"graph": graph}, "m/data/weights/config.json": {"config": weights}}
    return archive(path, **entries, **{"m/data/weights/weight_0": "1234"})


@pytest.mark.parametrize("size", HONEST_SIZES)
@pytest.mark.parametrize("target", HONEST_OPERATORS)
def test_an_honest_program_brings_no_code(tmp_path: Path, size: str, target: str) -> None:
    assert find_code(program(tmp_path / "m.pt2", target=target, size=size)) == []


@pytest.mark.parametrize(
    "parts",
    [
        {"target": "torch.os.system"},
        {"target": "torch.ops.load_library"},
        {"target": "torch.ops.aten.from_file.default"},
        {"target": "torch.ops.aten.__init__.__globals__"},
        {"target": "_operator.call"},
        {"target": "math.__loader__.load_module"},
        {"size": "__import__('os').system('x')"},
        {"size": "Add('__import__(\"os\")')"},
        {"size": "s0.func"},
        {"size": "[x for x in ()]"},
        {"size": "Lambda(s0, eval('x'))"},
        {"weight": "opaque_obj_0"},
    ],
    ids=str,
)
def test_find_code_an_exported_program_is_found(tmp_path: Path, parts: dict[str, str]) -> None:
    code, *_ = find_code(program(tmp_path / "m.pt2", **parts))
    assert next(iter(parts.values())) in code


@pytest.mark.parametrize(("guard", "is_honest"), GUARDS.items())
def test_guards_compare_sizes_and_do_nothing_else(tmp_path: Path, guard: str, is_honest: bool) -> None:
    path = archive(tmp_path / "m.pt2", **{"m/models/model.json": {"guards_code": [guard]}})
    assert (find_code(path) == []) is is_honest


@pytest.mark.parametrize(
    ("part", "is_honest"),
    [
        ({"name": "p_layers_0_weight", "parameter_name": "layers.0.weight"}, True),
        ({"tensor_values": {"context": {"dtype": 7}, "name": {"dtype": 7}}}, True),
        (
            {"metadata": {"stack_trace": "File \"x.py\", in f\n    x = g('y')", "nn_module_stack": "L['self'],,m.N"}},
            True,
        ),
        ({"arg": {"as_string": "ij,kj->ik"}}, True),
        ({"in_spec": '[1, {"type": "builtins.dict", "context": "[\\"pixel values\\"]", "children_spec": []}]'}, True),
        ({"as_name": "x; import os"}, False),
        ({"stack_trace": {"name": "x()"}}, False),
        ({"in_spec": '[1, {"type": "builtins.dict", "context": "[\\"a\'b\\"]", "children_spec": []}]'}, False),
    ],
)
def test_names_of_a_program_are_names(tmp_path: Path, part: dict[str, Any], is_honest: bool) -> None:
    path = archive(tmp_path / "m.pt2", **{"m/models/model.json": {"graph": part}})
    assert (find_code(path) == []) is is_honest


def test_an_entry_that_another_of_its_name_hides_is_read_too(tmp_path: Path) -> None:
    path = program(tmp_path / "m.pt2", target="torch.os.system")
    with pytest.warns(UserWarning, match="Duplicate"), zipfile.ZipFile(path, "a") as file:
        file.writestr("m/models/model.json", "{}")
    assert find_code(path)


@pytest.mark.parametrize(
    ("line", "refused"),
    [
        ("_0 = torch.relu(x)", False),
        ("_1 = ops.prim.NumToTensor(2)", False),
        ("_2 = torch.save(x, '/tmp/x')", True),
        ("_3 = torch.from_file('/etc/passwd')", True),
        ("_4 = ops.mine.run(x)", True),
        ("_5 = x.save('/tmp/x')", True),
        ("_6 = (self).helper(x, )", False),
        ("_7 = open(x)", True),
        ("_8 = __torch__.f\n    y = _8(x, )", False),
        ("_9 = getattr(self, '0')\n    y = (_9).helper(x, )", False),
        ("f = x.op\n    y = f(x)", True),
        ("f = torch.relu\n    f = x.op\n    y = f(x)", True),
        ("len = x.op\n    y = len(x)", True),
        ("y = getattr(x, 'op')(x)", True),
        ("y = [x.op][0](x)", True),
        ("y = x.unpack()", False),
        ("f = __torch__.torch.classes.quantized.LinearPackedParamsBase", False),
        ("f = __torch__.torch.classes.dist_rpc.WorkerInfo", True),
    ],
)
def test_torchscript_that_reads_or_writes_files_is_found(tmp_path: Path, line: str, refused: bool) -> None:
    path = archive(
        tmp_path / "m.pt", **{"m/code/__torch__.py": f"class M(Module):\n  def helper(self, x):\n    {line}"}
    )
    assert bool(find_code(path)) is refused


@pytest.mark.parametrize(
    ("layer", "refused"),
    [
        ({"class_name": "Dense", "module": "keras.layers", "config": {"activation": "relu"}}, False),
        ({"class_name": "Conv2D", "config": {}}, False),
        ({"class_name": "Sequential", "compile_config": {"optimizer": {"class_name": "Adam"}}}, False),
        ({"class_name": "Sequential", "compile_config": {"class_name": "function", "module": "my_losses"}}, True),
        ({"class_name": "TFOpLambda", "config": {"function": "math.multiply"}}, False),
        ({"class_name": "TFOpLambda", "config": {"function": "__operators__.add"}}, False),
        ({"class_name": "TFOpLambda", "config": {"function": "io.write_file"}}, True),
        ({"class_name": "InputLayer", "registered_name": "InputLayer", "config": {"dtype": "float32"}}, False),
        ({"class_name": "Lambda", "module": "keras.layers", "config": {}}, True),
        ({"class_name": "function", "module": "builtins", "config": "eval"}, True),
        ({"class_name": "Popen", "module": "subprocess", "config": {}}, True),
        ({"class_name": "Dense", "config": {"inner": {"class_name": "__lambda__"}}}, True),
        ({"class_name": "Dense", "module": "kerasevil.layers"}, True),
    ],
)
@pytest.mark.parametrize("kind", ["keras", "h5"])
def test_python_in_a_keras_model_is_found(tmp_path: Path, layer: dict[str, Any], refused: bool, kind: str) -> None:
    path, configuration = tmp_path / f"m.{kind}", {"class_name": "Functional", "config": {"layers": [layer]}}
    if kind == "keras":
        archive(path, **{"config.json": configuration})
    else:
        h5py = pytest.importorskip("h5py")
        with h5py.File(path, "w") as file:
            file.attrs["model_config"] = json.dumps(configuration)
    assert bool(find_code(path)) is refused


@pytest.mark.parametrize("name", [".h5", "old.keras"])
def test_files_without_a_stem_and_old_files_with_the_new_ending_are_checked(tmp_path: Path, name: str) -> None:
    h5py = pytest.importorskip("h5py")
    layers = [{"class_name": "Lambda", "config": {}}]
    with h5py.File(tmp_path / name, "w") as file:
        file.attrs["model_config"] = json.dumps({"class_name": "Functional", "config": {"layers": layers}})
    assert find_code(tmp_path / name)


def test_an_archive_without_a_stem_is_checked(tmp_path: Path) -> None:
    (tmp_path / ".json").write_text('{"nodes": [{"repr_str": "tir.call_extern"}]}')
    assert find_code(tmp_path / ".json")


def test_losses_of_the_model_itself_are_not_loaded(tmp_path: Path) -> None:
    compiled = {"class_name": "Sequential", "config": {}, "compile_config": {"class_name": "Mine", "module": "mine"}}
    assert find_code(archive(tmp_path / "m.keras", **{"config.json": compiled})) == []


@pytest.mark.parametrize(
    ("name", "refused"),
    [
        ("tir.call_extern", True),
        ("tirx.tvm_call_cpacked_lowered", True),
        ("relax.call_dps_packed", True),
        ("relax.expr.ExternFunc", True),
        ("pragma_import_c", True),
        ("Compiler", True),
        ("tir.call_e\\u0078tern", True),
        ("nn.contrib_dense_pack", False),
        ("relax.call_tir", False),
        ("größe", False),
    ],
)
def test_calls_out_of_a_compiler_module_are_found(tmp_path: Path, name: str, refused: bool) -> None:
    kind = "runtime.String" if "." not in name or name.endswith("\u0078tern") else "Op"
    (tmp_path / "m.json").write_text(f'{{"nodes": [{{"type_key": "{kind}", "repr_str": "{name}"}}]}}', encoding="utf-8")
    assert bool(find_code(tmp_path / "m.json")) is refused


@pytest.mark.parametrize("content", [b"PK\x03\x04broken", b"[" * 100_000])
@pytest.mark.parametrize("ending", [".pt2", ".pt", ".keras", ".json", ".onnx"])
def test_damaged_files_end_in_no_error(tmp_path: Path, content: bytes, ending: str) -> None:
    path = tmp_path / f"m{ending}"
    path.write_bytes(content)
    find_code(path)
    archive(path, **{"config.json": content.decode("latin-1")})
    find_code(path)


def test_such_a_file_is_refused_in_one_line_and_read_with_trust(tmp_path: Path) -> None:
    path = tmp_path / "m.json"
    path.write_text('{"root": 1, "nodes": [{"type_key": "Op", "repr_str": "tir.call_extern"}]}')
    with pytest.raises(UserError, match=r"call_extern.*--trust") as refusal:
        resolve(path, folder=tmp_path)
    assert "\n" not in str(refusal.value)
    assert resolve(path, folder=tmp_path, trust=True).format == "ir"


def test_a_long_name_does_not_make_a_long_message(tmp_path: Path) -> None:
    (code,) = find_code(program(tmp_path / "m.pt2", target="x" * 10_000))
    assert len(code) < 300


def test_one_text_of_many_operators_is_not_read_again_and_again(tmp_path: Path) -> None:
    text, count = b"x" * (4 << 20), 20_000
    model = struct.pack("<4H", 8, 12, 4, 8) + struct.pack("<iII", 8, 0, 4)
    table = 32 + 4 * count  # fields of the code at this place, the code after them, its name at the end
    codes = struct.pack("<I", count) + b"".join(struct.pack("<I", table + 12 - (32 + 4 * n)) for n in range(count))
    entry = struct.pack("<6H", 12, 16, 12, 4, 0, 8) + struct.pack("<iIib3x", 12, 12, 32, 32)
    content = struct.pack("<I4s", 16, b"TFL3") + model + codes + entry + struct.pack("<I", len(text)) + text + b"\0"
    (tmp_path / "m.tflite").write_bytes(content)
    started = time.monotonic()
    assert find_code(tmp_path / "m.tflite")
    assert time.monotonic() - started < 5
