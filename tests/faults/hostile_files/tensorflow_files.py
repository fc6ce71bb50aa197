"""SavedModels, frozen graphs and TFLite files whose operators write, read or call Python."""

import struct
from collections.abc import Iterator
from pathlib import Path

from hostile_files.wire import field, number

SIGNATURE = field(5, field(1, "serving_default") + field(2, field(2, field(1, "y") + field(2, field(1, "y:0")))))
WRITERS = (
    *("WriteFile", "DatasetToTFRecord", "CreateSummaryFileWriter", "DebugIdentityV2", "DebugIdentity", "PrintV2"),
    *("PyFunc", "EagerPyFunc", "ReadFile", "GenerateVocabRemapping", "XlaCallModule", "Save", "SaveV2", "RpcServer"),
    *("DatasetFromGraph", "TfLiteSubgraphExecute", "DumpTensor", "FileSystemSetConfiguration"),
)


def node(operator: str, name: str = "n", *inputs: str, function: str = "", padding: int = 0) -> bytes:
    """Return the message of an operator; ``function`` stands in one of its attributes."""
    attribute = field(5, field(1, "f") + field(2, field(10, field(1, function)))) if function else b""
    texts = field(1, name) + field(2, operator, padding=padding) + b"".join(field(3, each) for each in inputs)
    return texts + attribute


def graph(*nodes: bytes, functions: "dict[str, bytes] | None" = None) -> bytes:
    """Return a graph; each function holds one operator."""
    library = b"".join(
        field(1, field(1, field(1, name)) + field(3, inner)) for name, inner in (functions or {}).items()
    )
    return b"".join(field(1, each) for each in nodes) + (field(2, library) if library else b"")


def saved(folder: Path, meta: bytes) -> Path:
    """Write the folder of a SavedModel with one graph."""
    (folder / "variables").mkdir(parents=True)
    (folder / "saved_model.pb").write_bytes(field(1, 1) + field(2, meta))
    return folder


def saver(save: str, restore: str) -> bytes:
    """Return the field of a saver."""
    return field(3, field(1, "path:0") + field(2, f"{save}:0") + field(3, restore))


def write(folder: Path) -> Iterator[Path]:
    """Write the files, and yield their paths."""
    for operator in WRITERS:
        yield saved(folder / f"sm-{operator}", field(2, graph(node(operator))))
    yield from _hidden(folder)
    yield from _saving(folder)
    yield from _folders(folder)
    for operator in ("WriteFile", "RestoreV2", "SaveV2"):
        (folder / f"{operator}.pb").write_bytes(graph(node("Placeholder", "x"), node(operator)))
        yield folder / f"{operator}.pb"
    (folder / "function.pb").write_bytes(graph(node("f", "x"), functions={"f": node("WriteFile")}))
    yield folder / "function.pb"
    (folder / "cut.pb").write_bytes(graph(node("Relu", "x"))[:-2])
    yield folder / "cut.pb"
    for name, code in (("flex", "FlexWriteFile"), ("custom", "Mine"), ("delegate", "")):
        (folder / f"{name}.tflite").write_bytes(tflite(code, number=32 if code else 51))
        yield folder / f"{name}.tflite"
    (folder / "cut.tflite").write_bytes(tflite("Mine")[:30])
    yield folder / "cut.tflite"


def _hidden(folder: Path) -> Iterator[Path]:
    """Write SavedModels whose operator is not where it is looked for first."""
    writer = node("WriteFile")
    in_function = graph(node("PartitionedCall", function="f"), functions={"f": writer})
    yield saved(folder / "sm-function", field(2, in_function))
    yield saved(folder / "sm-long-length", field(2, graph(node("WriteFile", padding=1))))
    yield saved(folder / "sm-operator-twice", field(2, graph(node("Relu") + field(2, "WriteFile"))))
    yield saved(folder / "sm-graph-twice", field(2, graph(node("Relu"))) + field(2, graph(writer)))
    yield saved(folder / "sm-operator-as-function", field(2, graph(writer, functions={"WriteFile": node("Relu")})))
    yield saved(folder / "sm-group", field(2, graph(node("Relu"))) + b"\x0b" + field(2, "WriteFile") + b"\x0c")
    second = saved(folder / "sm-second-graph", field(2, graph(node("Relu"))))
    with (second / "saved_model.pb").open("ab") as file:
        file.write(field(2, field(2, graph(writer))))
    yield second


def _saving(folder: Path) -> Iterator[Path]:
    """Write SavedModels that use what saves a model for other ends."""
    objects = field(7, field(1, b""))
    call, save = node("StatefulPartitionedCall", "save", "path", function="f"), node("SaveV2")
    both = field(2, graph(node("Placeholder", "path"), call, functions={"f": save}))
    yield saved(folder / "sm-save-initializer", both + saver("save", "save") + field(7, field(2, field(1, "f"))))
    yield saved(folder / "sm-save-elsewhere", field(2, graph(node("SaveV2", "y"))) + SIGNATURE + objects)
    signed = field(2, graph(node("Placeholder", "path"), node("SaveV2", "y", "path")))
    yield saved(folder / "sm-save-signature", signed + saver("y", "y") + SIGNATURE + objects)
    restored = field(2, graph(node("Placeholder", "path"), node("WriteFile", "r", "path")))
    yield saved(folder / "sm-restore", restored + saver("r", "r"))
    saving = field(2, graph(node("Const", "p"), node("SaveV2", "s", "p"), node("NoOp", "r", "^s")))
    yield saved(folder / "sm-restore-and-save", saving + saver("r", "r"))
    # A field of another type than the schema's is none for TensorFlow.
    yield saved(folder / "sm-no-objects", saving + saver("r", "r") + field(7, 1))
    yield saved(folder / "sm-fixed-objects", saving + saver("r", "r") + number(7 << 3 | 5) + bytes(4))
    functions = {"writing": save, "reading": node("NoOp")}
    calls = [node("StatefulPartitionedCall", f"{name}-call", function=name) for name in functions]
    implementations = b"".join(_implementation(name, inner) for name, inner in functions.items())
    exchanged = field(2, graph(*calls) + field(2, implementations))
    yield saved(folder / "sm-exchanged", exchanged + saver("writing-call", "writing-call") + SIGNATURE + objects)
    two = saved(folder / "sm-two-graphs", saving + saver("s", "r") + objects)
    with (two / "saved_model.pb").open("ab") as file:
        file.write(field(2, field(2, graph(node("Relu"))) + objects))
    yield two
    yield saved(folder / "sm-restore-by-saving", field(2, graph(node("SaveV2", "r"))) + saver("s", "r"))


def _implementation(name: str, inner: bytes) -> bytes:
    """Return a function that may stand for all others of the same interface."""
    interface = field(5, field(1, "api_implements") + field(2, field(2, "any")))
    return field(1, field(1, field(1, name)) + field(3, inner) + interface)


def _folders(folder: Path) -> Iterator[Path]:
    """Write SavedModels with more than their graph."""
    harmless = field(2, graph(node("Relu")))
    yield saved(folder / "sm-asset", harmless + field(6, field(2, "../../etc/passwd")))
    for name in ("saved_model.pbtxt", "saved_model.cpb"):
        second = saved(folder / f"sm-{name}", harmless)
        (second / name).write_text("meta_graphs { }")
        yield second
    linked = saved(folder / "sm-link", harmless)
    (linked / "variables" / "variables.index").symlink_to("/etc/passwd")
    yield linked


def tflite(code: str, number: int = 32) -> bytes:
    """Return a TFLite file with one operator code."""
    text = struct.pack("<I", len(code)) + code.encode() + b"\0"
    # Places: 8 table of the model's fields, 16 model, 28 list of codes, 36 fields of the code, 48 code, 64 its name.
    model = struct.pack("<4H", 8, 12, 4, 8) + struct.pack("<iII", 8, 0, 4)
    codes = struct.pack("<II", 1, 16) + struct.pack("<6H", 12, 16, 12, 4, 0, 8)
    entry = struct.pack("<iIib3x", 12, 12, number, min(number, 127))
    return struct.pack("<I4s", 16, b"TFL3") + model + codes + entry + text
