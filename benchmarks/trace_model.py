"""Trace where a network's file goes between ``passsearch.tune`` and the network's first state.

``trace_checkout`` runs this file as ``trace_model.py tune CHECKOUT OUT``, which calls ``tune`` on a small ONNX network.
A patched ``subprocess.Popen`` runs it again in front of all Python code that ``tune`` starts, so that the worker is
traced by the same rules. Standard library only, because a worker's interpreter has nothing else.

``OUT`` gets one line ``MODULE <tab> FORM`` for each module of passsearch in which a function was called with an
argument that carries the network, and the form in which it did. A function counts when an argument is a form, or when
an object it gets (``self`` included) has a form as an attribute. A form is

* the file's path or its SHA-256, as text or as ``Path`` (one form),
* a network in memory: ONNX's ``ModelProto`` or TVM's ``IRModule``,
* a record (a dataclass or a mapping) that holds one of these, at whatever depth of records inside records.
"""

import dataclasses
import hashlib
import inspect
import os
import runpy
import subprocess
import sys
import threading
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path, PurePath
from tempfile import TemporaryDirectory
from types import FrameType

FOREIGN = frozenset({"ModelProto", "IRModule"})
"""Types that are a network in memory; named, not imported, since most processes have only one of the libraries."""

MOST_VALUES = 64
"""Entries of one mapping that are looked at; larger ones are catalogs, never carriers of one network."""

MOST_DEPTH = 6
"""Records inside records that are followed: enough for options that hold a session that holds a model file."""

TIMEOUT_S = 600


class Tracer:
    """Writes down which modules get the network and in which form, until the first state has an identity."""

    def __init__(self, checkout: str, out: str, tokens: list[str]) -> None:
        self._prefix = str(Path(checkout) / "passsearch") + "/"
        self._out, self._tokens = Path(out), frozenset(tokens)
        self._pairs: set[tuple[str, str]] = set()
        self.done = False

    def start(self) -> None:
        threading.setprofile(self._profile)
        sys.setprofile(self._profile)

    def _profile(self, frame: FrameType, event: str, result: object) -> None:
        if self.done or event not in ("call", "return"):
            return
        code = frame.f_code
        if code.co_filename.startswith(self._prefix):
            if event == "call":
                self._note(code.co_filename[len(self._prefix) :], frame)
        elif code.co_filename.endswith("json/__init__.py"):
            # The pipe speaks JSON: the worker's answer to the first `load` is the first text with a state.
            message = frame.f_locals.get("obj") if event == "call" else result
            self.done = isinstance(message, dict) and "state" in message

    def _note(self, module: str, frame: FrameType) -> None:
        forms = set[str]().union(*map(self.forms, _arguments(frame)))
        for form in forms - {form for name, form in self._pairs if name == module}:
            self._pairs.add((module, form))
            # Written at once, because a worker is ended by a signal and runs nothing at its exit.
            with self._out.open("a") as file:
                file.write(f"{module}\t{form}\n")

    def forms(self, argument: object) -> set[str]:
        """Names of the forms in which an argument carries the network; empty if it does not."""
        form = self._form(argument)
        if form or isinstance(argument, type) or not hasattr(argument, "__dict__"):
            return {form} if form else set()
        return {form for value in vars(argument).values() if (form := self._form(value))}

    def _form(self, value: object, depth: int = 0) -> str:
        if isinstance(value, str | PurePath):
            return "path" if str(value) in self._tokens else ""
        if type(value).__name__ in FOREIGN:
            return type(value).__name__
        return type(value).__name__ if any(self._form(each, depth + 1) for each in _values(value, depth)) else ""


def _arguments(frame: FrameType) -> list[object]:
    code, values = frame.f_code, frame.f_locals
    named = code.co_argcount + code.co_kwonlyargcount
    arguments = [values.get(name) for name in code.co_varnames[:named]]
    extra = named
    if code.co_flags & inspect.CO_VARARGS:
        arguments += values.get(code.co_varnames[extra], ())
        extra += 1
    if code.co_flags & inspect.CO_VARKEYWORDS:
        arguments += values.get(code.co_varnames[extra], {}).values()
    return arguments


def _values(record: object, depth: int) -> list[object]:
    if depth >= MOST_DEPTH or isinstance(record, type):
        return []
    if isinstance(record, Mapping):
        return list(record.values()) if len(record) <= MOST_VALUES else []
    if dataclasses.is_dataclass(record):
        return [getattr(record, field.name, None) for field in dataclasses.fields(record)]
    return []


def trace_checkout(checkout: Path) -> dict[str, list[str]] | str:
    """Return the modules a network passes before its first state, each with its forms, or why there is no trace."""
    with TemporaryDirectory(prefix="passsearch-trace-") as folder:
        out = Path(folder) / "trace.tsv"
        # An empty cache folder, because a network that an earlier run imported would not be loaded again.
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        environment["XDG_CACHE_HOME"] = str(Path(folder) / "cache")
        command = [sys.executable, __file__, "tune", str(checkout.resolve()), str(out)]
        try:
            process = subprocess.run(
                command, env=environment, cwd=folder, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
            )
        except subprocess.TimeoutExpired:
            return f"no first state within {TIMEOUT_S} s"
        if process.returncode:
            return (process.stderr.strip().splitlines() or ["no message"])[-1]
        forms = defaultdict(list)
        for module, form in sorted(line.split("\t") for line in out.read_text().splitlines()):
            forms[module].append(form)
        return dict(forms)


def trace_children(checkout: str, out: str, tokens: list[str]) -> None:
    """Make ``subprocess`` start Python code through this file from now on."""
    original = subprocess.Popen

    class TracedPopen(original):
        def __init__(self, command: object, *rest: object, **options: object) -> None:
            if isinstance(command, list) and len(command) > 2 and command[1] in ("-c", "-m"):
                command = [command[0], __file__, "child", checkout, out, ",".join(tokens), *command[1:]]
            super().__init__(command, *rest, **options)

    subprocess.Popen = TracedPopen


def run_child(checkout: str, out: str, tokens: str, *command: str) -> None:
    """Run ``-c CODE`` or ``-m MODULE`` as the interpreter would, traced."""
    kind, code, *arguments = command
    sys.path[0] = ""
    sys.argv = [kind, *arguments]
    Tracer(checkout, out, tokens.split(",")).start()
    if kind == "-m":
        runpy.run_module(code, run_name="__main__", alter_sys=True)
    else:
        exec(compile(code, "<string>", "exec"), {"__name__": "__main__"})


def run_tune(checkout: str, out: str) -> None:
    """Call ``tune`` and stop it as soon as the network has its first state."""
    sys.path[0] = checkout
    import passsearch

    if not str(passsearch.__file__).startswith(checkout):
        raise SystemExit(
            f"`{passsearch.__file__}` would be traced instead of `{checkout}`; run in another environment."
        )
    model = Path(out).with_name("small.onnx")
    tokens = [str(_write_network(model)), hashlib.sha256(model.read_bytes()).hexdigest()]
    trace_children(checkout, out, tokens)
    tracer = Tracer(checkout, out, tokens)

    def stop(*_: object) -> None:
        if tracer.done:
            raise KeyboardInterrupt

    tune = passsearch.tune
    tracer.start()
    try:
        tune(str(model), trials=1, confirm=0, out=model.with_name("run"), progress=stop)
    except KeyboardInterrupt:
        return
    raise SystemExit("The search ended before its first state was seen.")


def _write_network(path: Path) -> Path:
    import onnx
    from onnx import TensorProto, helper

    tensors = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 8]) for name in ("data", "result")]
    nodes = [helper.make_node("Relu", ["data"], ["active"]), helper.make_node("Add", ["active", "data"], ["result"])]
    graph = helper.make_graph(nodes, "small", tensors[:1], tensors[1:])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), str(path))
    return path


if __name__ == "__main__":
    {"tune": run_tune, "child": run_child}[sys.argv[1]](*sys.argv[2:])
