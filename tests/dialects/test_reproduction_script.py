"""Scripts of reproductions: each has what its fault needs, and few lines."""

import ast
import builtins

import numpy as np
import pytest

from passsearch.dialects import DIALECTS
from passsearch.dialects.reproduction import (
    CRASH,
    ONNX,
    ONNX_RUNTIME,
    REFUSAL,
    SECOND,
    SLOW,
    WRONG,
    ScriptForm,
    script_text,
)
from passsearch.dialects.reproduction.script import MOST_LINES
from passsearch.dialects.reproduction.template import deviation

SIDE = {"passes": [["FoldConstant", "tvm.relax.transform:FoldConstant", {}]], "build": {"opt_level": 3}}
FAULT = {"target": "llvm -mcpu=x", "bridge": "a:b", "threads": 2, "sides": [SIDE, SIDE]}
FORMS = [(CRASH, ONNX), (REFUSAL, SECOND), (WRONG, ONNX), (WRONG, SECOND), (SLOW, SECOND), (SLOW, ONNX_RUNTIME)]


@pytest.mark.parametrize("dialect", ["", *DIALECTS])
@pytest.mark.parametrize(("kind", "other"), FORMS)
def test_a_script_is_short_and_has_all_names_that_it_reads(dialect: str, kind: str, other: str) -> None:
    script = script_text(ScriptForm(kind, other, dialect), FAULT, seen='A "wrong" \\ result.')
    assert len(script.splitlines()) <= MOST_LINES
    tree = ast.parse(script)
    stored = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    stored |= {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    stored |= {
        node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.ExceptHandler) if node.name
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            stored |= {(each.asname or each.name).partition(".")[0] for each in node.names}
    read = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    assert read <= stored | {*dir(builtins), "__file__"}
    assert ("passsearch" in script) == (not dialect)
    (facts,) = [
        each.value for each in tree.body if isinstance(each, ast.Assign) and ast.unparse(each.targets[0]) == "FAULT"
    ]
    indices = [
        each for each in ast.walk(tree) if isinstance(each, ast.Subscript) and ast.unparse(each.value) == "FAULT"
    ]
    assert {ast.literal_eval(each.slice) for each in indices} == set(ast.literal_eval(facts))


def test_a_script_states_the_passes_and_nothing_that_it_does_not_read() -> None:
    script = script_text(ScriptForm(CRASH, SECOND, "relax"), FAULT)
    assert "tvm.relax.transform:FoldConstant" in script
    assert "threads" not in script and "onnxruntime" not in script


def test_outputs_of_another_shape_deviate_like_those_that_are_not_finite() -> None:
    output = np.ones((1, 2, 4, 3), "float32")
    assert deviation([output], [output]) == 0.0
    for other in ((1, 4, 4, 3), (1, 2, 4, 1)):  # numpy does not broadcast the first, but the second
        assert deviation([output], [np.ones(other, "float32")]) == 1e30
