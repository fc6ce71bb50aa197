"""ONNX networks of one operator, with an attribute, an input or an output that a converter may not know.

``write`` needs the newest onnx, and runs in the tests' interpreter; ``unread`` runs in one with a dialect's compiler.
The networks come from ONNX's backend tests, what is added from ONNX's schemas.
"""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, helper, numpy_helper

OPERATOR_SETS = range(7, 23)
FURTHER = "further"
UNREAD = re.compile(r"the (attribute) (\w+) is not|(input) (\d+) is not|the output `(further)` is not")


def write(folder: Path) -> int:
    """Write the networks, named by operator, operator set, and what is added; return their number."""
    names = [
        onnx.save(model, str(folder / f"{name}.onnx"))
        for template, weights in _templates()
        for opset in _operator_sets(template)
        for name, model in _extended(template, weights, opset)
    ]
    return len(names)


def _templates() -> Iterator[tuple[onnx.ModelProto, dict[str, Any]]]:
    """Yield a test of each operator, with the values of its inputs but the first."""
    from onnx.backend.test.loader import load_model_tests

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tests = sorted(load_model_tests(kind="node"), key=lambda test: test.name)
    seen: set[str] = set()
    for test in tests:
        graph, (inputs, _) = test.model.graph, test.data_sets[0]
        kind = graph.node[0].op_type
        if len(graph.node) > 1 or graph.node[0].domain or kind in seen:
            continue
        if all(isinstance(value, (np.ndarray, np.generic)) for value in inputs):
            seen.add(kind)
            yield (
                test.model,
                dict(zip((each.name for each in graph.input[1:]), map(np.asarray, inputs[1:]), strict=False)),
            )


def _operator_sets(model: onnx.ModelProto) -> list[int]:
    """Return the operator sets that define the operator anew, as far as they are tested."""
    kind = model.graph.node[0].op_type
    schemas = {
        opset: onnx.defs.get_schema(kind, opset)
        for opset in OPERATOR_SETS
        if onnx.defs.has(kind) and _is_known(kind, opset)
    }
    return sorted({max(each.since_version, OPERATOR_SETS[0]) for each in schemas.values()})


def _is_known(kind: str, opset: int) -> bool:
    try:
        onnx.defs.get_schema(kind, opset)
    except onnx.defs.SchemaError:
        return False
    return True


def _extended(template: onnx.ModelProto, weights: dict[str, Any], opset: int) -> Iterator[tuple[str, onnx.ModelProto]]:
    kind = template.graph.node[0].op_type
    schema = onnx.defs.get_schema(kind, opset)
    for name, attribute in schema.attributes.items():
        value = _other_value(attribute)
        if value is not None:
            model = _frozen(template, weights, opset)
            node = model.graph.node[0]
            kept = [each for each in node.attribute if each.name != name]
            del node.attribute[:]
            node.attribute.extend([*kept, helper.make_attribute(name, value)])
            yield f"{kind} {opset} {name}", model
    for position in range(len(template.graph.node[0].input), len(schema.inputs)):
        model = _frozen(template, weights, opset)
        missing = position - len(model.graph.node[0].input)
        model.graph.node[0].input.extend([*[""] * missing, FURTHER])
        model.graph.initializer.append(numpy_helper.from_array(np.ones(1, "float32"), FURTHER))
        yield f"{kind} {opset} input {position + 1}", model
    for position in range(len(template.graph.node[0].output), len(schema.outputs)):
        model = _frozen(template, weights, opset)
        missing = position - len(model.graph.node[0].output)
        model.graph.node[0].output.extend([*[""] * missing, FURTHER])
        model.graph.output.append(helper.make_empty_tensor_value_info(FURTHER))
        yield f"{kind} {opset} output {position + 1}", model


def _other_value(attribute: Any) -> Any:
    """Return a value that is no default; ``None`` for a kind of attribute that has no simple ones."""
    default = helper.get_attribute_value(attribute.default_value) if attribute.default_value.type else 0
    kind = int(attribute.type.value)
    if kind in (AttributeProto.INT, AttributeProto.FLOAT):
        return default + {AttributeProto.INT: 1, AttributeProto.FLOAT: 0.25}[kind]
    others = {AttributeProto.STRING: "another", AttributeProto.INTS: [3], AttributeProto.FLOATS: [0.25]}
    return {**others, AttributeProto.STRINGS: ["another"]}.get(kind)


def _frozen(template: onnx.ModelProto, weights: dict[str, Any], opset: int) -> onnx.ModelProto:
    """Return a copy for an operator set, its inputs but the first as weights."""
    model = onnx.ModelProto()
    model.CopyFrom(template)
    del model.opset_import[:]
    model.opset_import.append(helper.make_opsetid("", opset))
    kept = [value for value in model.graph.input if value.name not in weights]
    del model.graph.input[:]
    model.graph.input.extend(kept)
    model.graph.initializer.extend(numpy_helper.from_array(value, name) for name, value in weights.items())
    return model


def unread(folder: Path, load: Callable[[Path], Any], error: type[Exception]) -> None:
    """Print a line of JSON for each network: what is added, and whether it is taken, unread, or refused otherwise."""
    for path in sorted(folder.glob("*.onnx")):
        state, message = "taken", ""
        try:
            load(path)
        except error as refusal:
            message = str(refusal)
            found = UNREAD.search(message)
            state = "unread" if found and path.stem.split(maxsplit=2)[2] in _names(found) else "refused"
        except Exception as failure:  # noqa: BLE001 a failure of any kind is one
            state, message = "failed", f"{type(failure).__name__}: {failure}"[:300]
        print(json.dumps({"case": path.stem, "state": state, "message": message}), flush=True)


def _names(found: re.Match[str]) -> tuple[str, ...]:
    if found[1]:
        return (found[2],)
    return (f"input {found[4]}",) if found[3] else ("output 2", "output 3", "output 4")
