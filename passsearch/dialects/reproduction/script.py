"""The text of a script: the functions of a template that one fault needs."""

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from pprint import pformat
from typing import Any

CRASH, REFUSAL, WRONG, SLOW = "crash", "refusal", "wrong result", "slowdown"
"""Kinds of faults."""

SECOND = 'of_tvm(FAULT["sides"][1], data)'
ONNX, ONNX_RUNTIME = "of_onnx(data)", "of_onnxruntime(data)"
"""What is compared with: the second pipeline, the file as it stands, or as ONNX Runtime optimises it."""

RUNTIME = "onnxruntime"
"""What users call ONNX Runtime."""

MOST_LINES = 60
"""Lines of a script from which it does without blank ones."""

_TEMPLATE = Path(__file__).with_name("template.py")

_TRIED = """try:
    outputs, run = of_tvm(FAULT["sides"][0], data)
except Exception as error:
    say(refused=f"{type(error).__name__}: {(str(error).strip() or '?').splitlines()[-1][:400]}")"""


@dataclass(frozen=True)
class ScriptForm:
    """What a script is made of.

    Attributes:
        kind: Kind of the fault that it shows; empty for a script that finds out.
        other: What it compares with.
        dialect: Dialect whose own function builds with TVM alone; empty to build with passsearch.
    """

    kind: str
    other: str
    dialect: str = ""

    @property
    def needs(self) -> str:
        """What its interpreter must have, in words."""
        runtime = ["onnxruntime"] if self.other == ONNX_RUNTIME else []
        *names, last = ["TVM", "onnx", *([] if self.dialect else ["passsearch"]), *runtime]
        return f"{', '.join(names)} and {last}"


def script_text(form: ScriptForm, fault: Mapping[str, Any], *, seen: str = "") -> str:
    """Return a script.

    Args:
        form: What it is made of.
        fault: What the script calls ``FAULT``.
        seen: What it shows, in words.
    """
    functions = _functions(_TEMPLATE)
    if form.dialect:
        functions |= _functions(_TEMPLATE.parents[1] / form.dialect / "reproduction.py")
    if form.kind in (WRONG, SLOW):
        functions["of_tvm"] = re.sub(r"\n +say\(step=.*", "", functions["of_tvm"])
    main, used = _main(form), set[str]()
    while more := {name for name in functions if f"{name}(" in "\n".join([main, *(functions[n] for n in used)])} - used:
        used |= more
    body = [functions[name] for name in functions if name in used] + [main]
    text = re.sub(r": Any\b|: list\[float\]| -> (Any|float|None)\b|: object", "", "\n\n".join(body))
    # An index inside of an f-string has the other quotes.
    keys = {match[1] for match in re.finditer(r"""FAULT\[["'](\w+)["']\]""", text)}
    read = {key: value for key, value in fault.items() if key in keys}
    facts = pformat(read, width=400, compact=True, sort_dicts=False)
    seen = seen.replace("\\", "/").replace('"', "'")
    title = f'"""{seen or "A fault of a compiler."} Needs {form.needs}."""'
    settings = f'FAULT = {facts}\nMODEL = Path(__file__).parent / "network.onnx"'
    script = "\n\n".join([title, _imports(text), settings, text]) + "\n"
    # The first line and the functions' names say enough where lines are few.
    for needless, instead in ((r"\n\n+", "\n"), (r'\n +""".*"""(?=\n)', "")):
        if script.count("\n") > MOST_LINES:
            script = re.sub(needless, instead, script)
    return script


def _functions(path: Path) -> dict[str, str]:
    """Return the text of each function of a file, without blank lines."""
    text = path.read_text()
    return {
        node.name: re.sub(r"\n\n+", "\n", str(ast.get_source_segment(text, node)))
        for node in ast.parse(text).body
        if isinstance(node, ast.FunctionDef)
    }


def _main(form: ScriptForm) -> str:
    plain = 'outputs, run = of_tvm(FAULT["sides"][0], data)'
    lines = ["data = dict(random_inputs())", plain if form.kind in (WRONG, SLOW) else _TRIED]
    if not form.kind:
        lines += ["    raise SystemExit from None"]
    if form.kind not in (CRASH, REFUSAL):
        lines += [f"expected, other = {form.other}"]
    if form.kind in ("", WRONG):
        lines += ["say(deviation=deviation(outputs, expected))"]
    if form.kind == SLOW or (not form.kind and form.other == SECOND):
        lines += ["time_pairs(run, other)"]
    return "\n".join(lines)


def _imports(code: str) -> str:
    """Return the imports of the template whose names the code has."""
    plain, other = [], []
    for node in ast.parse(_TEMPLATE.read_text()).body:
        if isinstance(node, ast.Import) and not node.names[0].asname and re.search(rf"\b{node.names[0].name}\.", code):
            plain += [node.names[0].name]
        elif isinstance(node, ast.ImportFrom) and re.search(rf"\b{node.names[0].name}\b", f"{code} Path"):
            other += [ast.unparse(node)]
    return "\n".join([f"import {', '.join(plain)}", *other, "import numpy as np"])
