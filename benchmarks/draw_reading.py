"""Draw names and docstrings for a reader who has not seen the code: ``python benchmarks/draw_reading.py --seed 1``.

Prints JSON: names of functions, classes and parameters with their modules, and docstrings with their signatures; never
a body. The reader writes down what each means. Readings that differ from the code show which names and docstrings to
mend.
"""

import argparse
import ast
import json
import random
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def definitions(root: Path) -> Iterator[tuple[str, Definition]]:
    """Yield every class and function of the package with the path of its module."""
    for path in sorted((root / "passsearch").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, Definition):
                yield str(path.relative_to(root)), node


def signature(node: Definition) -> str:
    """Return the first line of a definition, arguments and types included."""
    if isinstance(node, ast.ClassDef):
        return f"class {node.name}"
    returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    return f"def {node.name}({ast.unparse(node.args)}){returns}"


def names(root: Path) -> Iterator[dict[str, str]]:
    """Yield the names of definitions and of their parameters; dunder names and single letters are no choice."""
    for module, node in definitions(root):
        if not node.name.startswith("__"):
            yield {"module": module, "name": node.name}
        if not isinstance(node, ast.ClassDef):
            arguments = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
            for name in (argument.arg for argument in arguments if len(argument.arg) > 1):
                if name not in ("self", "cls"):
                    yield {"module": module, "name": f"{node.name}({name}=…)"}


def docstrings(root: Path) -> Iterator[dict[str, str]]:
    """Yield the docstrings with their signatures."""
    for module, node in definitions(root):
        text = ast.get_docstring(node)
        if text:
            yield {"module": module, "signature": signature(node), "docstring": text}


def main() -> None:
    """Print the draw."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=Path, default=ROOT, help="checkout (this one)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--number", type=int, default=30)
    arguments = parser.parse_args()
    rng = random.Random(arguments.seed)
    draw = {
        "docstrings": rng.sample(list(docstrings(arguments.root)), arguments.number),
        "names": rng.sample(list(names(arguments.root)), arguments.number),
    }
    print(json.dumps(draw, indent=1, ensure_ascii=False))


if __name__ == "__main__":
    main()
