"""Files of PyTorch that call operators on files, import by name, load libraries or have tensors out of bounds."""

import io
import json
import os
import pickle
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hostile_files.zip_files import HARMLESS, HOSTILE, archive, program

TARGETS = (
    *("torch.os.system", "torch.ops.load_library", "torch.ops.aten.from_file.default", "torch.ops.aten.save.default"),
    *(
        "torch.ops.higher_order.call_torchbind",
        "torch.ops.mine.run.default",
        "_operator.call",
        "_operator.methodcaller",
    ),
    *("torch.ops.aten.relu.__globals__", "math.__loader__.load_module", "torch.ops.aten._nested_view_from_buffer"),
)
SIZES = (
    "__import__('os').system('true')",
    "Add('__import__(\"os\")')",
    "s0.func",
    "Lambda(s0, eval('x'))",
    "9**9**9**9",
    "s0**(1<<40)",
    "Pow(9, 10**12)",
    "9^9^9^9",  # which sympy takes for powers
    "RisingFactorial(10**9, 10**9)",
    "Float(1, 10**9)",
    "RShift(1, 10**12)",
    "*".join(["(s0 + s1)"] * 60),
)
LINES = (
    *("torch.save(x, '/tmp/x')", "torch.from_file('/etc/passwd')", "ops.mine.run(x)", "x.save('/tmp/x')"),
    *(
        "f = torch.save\n    f(x, '/tmp/x')",
        "t = torch\n    t.save(x, '/tmp/x')",
        "ops.prim.PythonOp(x)",
        "open('/tmp/x')",
    ),
    "ops.aten.save(x, '/tmp/x')",
    "f = x.from_file\n    f('/tmp/x')",
    "f = torch.relu\n    f = x.save\n    f('/tmp/x')",
    "len = x.save\n    len('/tmp/x')",
    "getattr(x, 'save')('/tmp/x')",
    "[x.save][0]('/tmp/x')",
    "c = __torch__.torch.classes.dist_c10d.FileStore\n    c('/tmp/x')",
)
PYTHON = "__import__('os').system('true')"
PARTS: dict[str, Any] = {
    "guard": {"guards_code": [f"{PYTHON} == 0"]},
    "guard-attribute": {"guards_code": ["L['x'].__class__ == 0"]},
    "argument": {"inputs": [{"arg": {"as_operator": "torch.ops.aten.from_file.default"}}]},
    "input": {"inputs": [{"as_tensor": {"name": f"x={PYTHON}"}}]},
    "argument-name": {"forward_arg_names": [f"x={PYTHON}"]},
    "parameter": {"parameter_name": f'w") or {PYTHON} or getattr(self, "w'},
    "constant": {"arg": {"as_string": f"' or {PYTHON} or '"}},
}
SPECS: dict[str, Any] = {
    "keyword": {"type": "builtins.dict", "context": json.dumps([f"a':{PYTHON},'b"]), "children_spec": []},
    "enum": {"type": "builtins.dict", "context": '[{"__enum__": true, "fqn": "this:x"}]', "children_spec": []},
    "no-children": {"type": "builtins.dict", "context": '[{"__enum__": true, "fqn": "this:x"}]'},
    "space": {"type": "builtins.list", "context": ' {"__enum__": true, "fqn": "this:x"}', "children_spec": []},
}
CONTEXT = r'{"default_factory_\u006dodule": "os", "default_factory_name": "abort"}'
SPEC = json.dumps([1, {"type": "collections.defaultdict", "context": CONTEXT, "children_spec": []}])
CODE = "class M(Module):\n  def {method}(self, x: Tensor) -> Tensor:\n    {line}\n    return x\n"


class _Call:
    def __init__(self, *call: object) -> None:
        self.call = call

    def __reduce__(self) -> tuple[object, ...]:
        return self.call


def script(
    path: Path, line: str = "y = torch.relu(x)", *, method: str = "forward", data: bytes = b"", **more: bytes
) -> Path:
    """Write an archive of TorchScript."""
    entries: dict[str, str | bytes] = {"m/code/__torch__.py": CODE.format(line=line, method=method), "m/version": "3"}
    others = {f"m/{name}": content for name, content in more.items()}
    return archive(path, {**entries, "m/data.pkl": data or pickle.dumps({}, 2), **others})


def write(folder: Path) -> Iterator[Path]:
    """Write the files, and yield their paths."""
    for place, target in enumerate(TARGETS):
        yield program(folder / f"target{place}.pt2", json.dumps({"graph": {"nodes": [{"target": target}]}}))
    for place, size in enumerate(SIZES):
        yield program(folder / f"size{place}.pt2", json.dumps({"sizes": [{"as_expr": {"expr_str": size}}]}))
    config = json.dumps({"config": {"w": {"path_name": "opaque_obj_0"}}})
    yield program(folder / "pickle.pt2", **{"data__weights__model_weights_config.json": config})
    yield program(folder / "factory.pt2", json.dumps({"in_spec": SPEC}))
    spec = json.dumps([1, {"type": None, "context": CONTEXT, "children_spec": []}])
    yield program(folder / "factory-text.pt2", json.dumps({"graph": {"in_spec": spec}}))
    for name, part in PARTS.items():
        yield program(folder / f"part-{name}.pt2", json.dumps({"graph": part}))
    for name, each in SPECS.items():
        yield program(folder / f"spec-{name}.pt2", json.dumps({"in_spec": " " + json.dumps([1, each])}))
    yield from _tensors(folder)
    yield archive(folder / "library.pt2", {"m/models/model.json": "{}", "m/data/aotinductor/model/x.so": "x"})
    yield archive(folder / "ending.pt2", {"m/models/model-json": HOSTILE})
    for place, line in enumerate(LINES):
        yield script(folder / f"line{place}.pt", line)
    hidden = "y = x+ACM- torch.save(x, '/tmp/x')"  # which Python reads as a comment in the encoding of the first line
    code = "# coding: utf-7\n" + CODE.format(line=hidden, method="forward")
    yield archive(folder / "coding.pt", {"m/code/__torch__.py": code, "m/data.pkl": pickle.dumps({}, 2)})
    yield script(folder / "method.pt", "self.w.save('/tmp/x')", method="save")
    yield script(folder / "syntax.pt", "import os; (")
    yield script(folder / "call.pt", data=pickle.dumps(_Call(print, ("x",)), 2))
    yield script(folder / "evaluate.pt", data=b"cbuiltins\neval\n(S'1'\ntR.")
    yield script(folder / "storage.pt", data=_tensor(1 << 40, (4,), (1,)), **{"data/0": b"0123456789abcdef"})
    yield script(folder / "beyond.pt", data=_tensor(4, (1 << 30,), (1,)), **{"data/0": b"0123456789abcdef"})
    yield script(folder / "negative.pt", data=_tensor(4, (4,), (-(1 << 30),)), **{"data/0": b"0123456789abcdef"})
    yield archive(folder / "old.pt", {"m/model.json": "{}", "m/code/x.txt": "x"})
    (folder / "pickle.pth").write_bytes(b"cos\nsystem\n(S'true'\ntR.")
    yield folder / "pickle.pth"
    yield from _folders(folder)


def saved(data: bytes, *, method: int = zipfile.ZIP_STORED, **records: bytes) -> bytes:
    """Return an archive of ``torch.save``."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", method) as file:
        for name, each in {"data.pkl": data, **records}.items():
            file.writestr(f"archive/{name}", each)
    return content.getvalue()


def _tensors(folder: Path) -> Iterator[Path]:
    """Write programs whose tensors are not in their records, or fill the memory."""
    meta = {"sizes": [{"as_int": 1 << 40}], "strides": [{"as_int": 1}]}
    entry = {"w": {"path_name": "weight_0", "use_pickle": False, "tensor_meta": meta}}
    weights = {"data__weights__model_weights_config.json": json.dumps({"config": entry})}
    yield program(folder / "zeros.pt2", **weights, data__weights__weight_0="")
    yield program(folder / "case.pt2", **weights, data__weights__weight_0="1", data__weights__WEIGHT_0="")
    key = pickle.dumps(({f"a'{PYTHON}": 1}, {}), 2)
    bomb = saved(pickle.dumps({}, 2), method=zipfile.ZIP_DEFLATED, **{"data/0": bytes(128 << 20)})
    beyond = saved(_tensor(1 << 40, (4,), (1,)), **{"data/0": bytes(16)})
    inner = {"key": saved(key), "bomb": bomb, "beyond": beyond, "call": saved(pickle.dumps(_Call(print, ("x",)), 2))}
    for name, content in inner.items():
        yield program(folder / f"inputs-{name}.pt2", **{"data__sample_inputs__model.pt": content})
    old = {"extra_files/models/model-json": HOSTILE, "serialized_exported_program.json": HARMLESS}
    yield archive(folder / "old-and-new.pt2", {"extra_files/version": "3", **old})
    nested = b")q\x00" + b"h\x00h\x00\x86q\x00" * 60
    storage = b"(X\x07\x00\x00\x00storageN"
    pickles = {
        "memo": b"Nr\xff\xff\xff\xff",
        "text": b"X\xff\xff\xff\xff",
        "bytes": b"\x96" + bytes(8),
        "hash": b"}" + nested + b"Ns",
        "name": storage + nested + b"NK\x01tQ",
        "classes": b"".join(b"c__torch__\nM%d\n0" % each for each in range(20_000)) + b"N",
    }
    for name, data in pickles.items():
        yield script(folder / f"pickle-{name}.pt", data=b"\x80\x02" + data + b".")


def _tensor(count: int, sizes: tuple[int, ...], strides: tuple[int, ...]) -> bytes:
    """Return a pickle of a tensor on the storage ``0``."""
    identity = b"((X\x07\x00\x00\x00storagectorch\nFloatStorage\nX\x01\x00\x00\x000X\x03\x00\x00\x00cpu"
    numbers = [b"(" + b"".join(b"I%d\n" % each for each in values) + b"t" for values in (sizes, strides)]
    storage = identity + b"I%d\ntQ" % count
    return b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n" + storage + b"I0\n" + b"".join(numbers) + b"\x89}tR."


def _folders(folder: Path) -> Iterator[Path]:
    """Write folders of transformers that load code or other folders."""
    configurations = {
        "code": {"auto_map": {"AutoModel": "evil.Model"}},
        "kernel": {"attn_implementation": "someone/kernel"},
        "kernel-part": {"attn_implementation": {"text_config": "someone/kernel"}},
        "quantized": {"quantization_config": {"quant_method": "someone"}},
        "backbone": {"backbone": "local-dir:/tmp/x", "use_timm_backbone": True},
        "architecture": {"model_type": "timm_wrapper", "architecture": "local-dir:/tmp/x"},
        "checkpoint": {"model_type": "timm_wrapper", "model_args": {"checkpoint_path": "/tmp/x"}},
        "download": {"backbone": "resnet18", "use_pretrained_backbone": True},
    }
    for name, configuration in configurations.items():
        (folder / f"t-{name}").mkdir()
        (folder / f"t-{name}" / "config.json").write_text(json.dumps({"model_type": "bert", **configuration}))
        yield folder / f"t-{name}"
    (folder / "t-pipe").mkdir()
    (folder / "t-pipe" / "config.json").write_text('{"model_type": "bert"}')
    os.mkfifo(folder / "t-pipe" / "model.safetensors")
    yield folder / "t-pipe"
    for name in ("pipe.onnx", "pipe.pt"):
        os.mkfifo(folder / name)
        yield folder / name
    others = {
        "adapter": ("adapter_config.json", '{"base_model_name_or_path": "/tmp/x"}'),
        "shard": ("model.safetensors.index.json", '{"weight_map": {"w": "../../x.safetensors"}}'),
        "pickle": ("pytorch_model.bin", "cos\nsystem\n(S'true'\ntR."),
    }
    for name, (file, content) in others.items():
        (folder / f"t-{name}").mkdir()
        (folder / f"t-{name}" / "config.json").write_text('{"model_type": "bert"}')
        (folder / f"t-{name}" / file).write_text(content)
        yield folder / f"t-{name}"
