"""Draw names and docstrings for a reader who has not seen the code: ``python -m benchmarks.draw_reading --seed 1``.

Prints JSON: names of functions, classes and parameters with their modules, and docstrings with their signatures; never
a body. The reader writes down what each means. Readings that differ from the code show which names and docstrings to
mend.
"""

import ast
import json
import random
from collections.abc import Iterator

from benchmarks.common import ROOT, options

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def definitions() -> Iterator[tuple[str, Definition]]:
    """Yield every class and function of the package with the path of its module."""
    for path in sorted((ROOT / "passsearch").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, Definition):
                yield str(path.relative_to(ROOT)), node


def signature(node: Definition) -> str:
    """Return the first line of a definition, arguments and types included."""
    if isinstance(node, ast.ClassDef):
        return f"class {node.name}"
    returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    return f"def {node.name}({ast.unparse(node.args)}){returns}"


def names() -> Iterator[dict[str, str]]:
    """Yield the names of definitions and of their parameters; dunder names and single letters are no choice."""
    for module, node in definitions():
        if not node.name.startswith("__"):
            yield {"module": module, "name": node.name}
        if not isinstance(node, ast.ClassDef):
            arguments = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
            for name in (argument.arg for argument in arguments if len(argument.arg) > 1):
                if name not in ("self", "cls"):
                    yield {"module": module, "name": f"{node.name}({name}=…)"}


def main() -> None:
    arguments = options(__doc__, seed=1, number=30)
    texts = [
        {"module": module, "signature": signature(node), "docstring": text}
        for module, node in definitions()
        if (text := ast.get_docstring(node))
    ]
    rng = random.Random(arguments.seed)
    draw = {name: rng.sample(each, arguments.number) for name, each in (("docstrings", texts), ("names", [*names()]))}
    print(json.dumps(draw, indent=1, ensure_ascii=False))


if __name__ == "__main__":
    main()
