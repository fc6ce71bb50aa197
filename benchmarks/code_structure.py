"""Structure of a checkout in numbers: ``python benchmarks/code_structure.py [--root CHECKOUT] [--compare EARLIER]``.

Prints one row per measure, in the columns before and after where an earlier checkout is given. Both checkouts are
counted by the same code, from the syntax tree and the tokens of ``passsearch/**/*.py``; only the path of a model is
traced while ``tune`` runs (``trace_model.py``), for which a toolchain must be installed. ``--out FILE.json`` writes the
rows together with the names behind the numbers: modules, classes, arrows and members of the import knot.
"""

import argparse
import ast
import io
import json
import re
import shutil
import subprocess
import tokenize
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

import networkx as nx
from trace_model import trace_checkout

PACKAGE = "passsearch"

STEPS_BEFORE = (
    "errors < core < catalog analysis dialects < measure store frontends toolchain < search report export "
    "< batch < api < cli"
)
"""Rooms from the lowest to the highest where compiler processes and evaluation have no rooms of their own."""

STEPS = STEPS_BEFORE.replace("< search", "< worker < evaluate < search")
"""Rooms from the lowest to the highest where ``worker`` and ``evaluate`` are rooms."""

RUN_ROOMS = ("core", "evaluate", "search", "batch", "api")
"""Rooms that carry the options of a run; elsewhere the same word is another quantity, as the seed of random inputs."""

OPTIONS = frozenset(
    {"trials", "timeout", "timeout_s", "seed", "keep_throughput", "sampler", "repetitions", "confirm", "tolerance"}
    | {"deadline_s", "objectives"}
)
LOG_CALLS = frozenset({"debug", "info", "warning", "error", "exception", "critical"})
PRAGMA = re.compile(r"#\s*(type:\s*ignore|noqa\b|pragma\b|mypy:|ruff:|fmt:)")
OPENING = re.compile(r"(Of|By|As above|It has|From|In which)\b")
PARTICIPLES = frozenset({"told", "chosen", "asked", "given", "wanted", "known", "opened"})

Row: TypeAlias = tuple[str, float | None, object]
"""Name of a measure, its value (``None`` if it could not be counted), and what is behind it or the reason."""


@dataclass(frozen=True)
class Source:
    """One module.

    Attributes:
        name: Dotted name; a package has that of its folder.
        path: File below the package's folder, with slashes.
        text: The file's content.
    """

    name: str
    path: str
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        """The syntax tree."""
        return ast.parse(self.text)

    @property
    def nodes(self) -> Iterator[ast.AST]:
        """All nodes of the syntax tree."""
        return ast.walk(self.tree)

    @property
    def room(self) -> str:
        """First folder or module below the package; ``__init__`` for the package itself."""
        return self.path.split("/")[0].removesuffix(".py")

    @property
    def lines(self) -> int:
        """Number of lines, blank ones included."""
        return len(self.text.splitlines())


def read_sources(checkout: Path) -> list[Source]:
    """Return every module of the package in a checkout, sorted by path."""
    package = checkout / PACKAGE
    sources = []
    for path in sorted(package.rglob("*.py")):
        parts = [PACKAGE, *path.relative_to(package).with_suffix("").parts]
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        sources.append(Source(name, path.relative_to(package).as_posix(), path.read_text()))
    return sources


def count_lines(sources: Iterable[Source], *rooms: str) -> int:
    """Return the number of lines in some rooms, or in the whole package if none is named."""
    return sum(source.lines for source in sources if not rooms or source.room in rooms)


def count_any(sources: Iterable[Source]) -> int:
    """Return how often the name ``Any`` is used in annotations, type aliases and casts; imports do not count."""
    return sum(isinstance(node, ast.Name) and node.id == "Any" for source in sources for node in source.nodes)


def count_comments(sources: Iterable[Source], *, pragmas: bool) -> int:
    """Return the number of comment tokens, with or without instructions to tools such as ``# noqa``."""
    tokens = (token for source in sources for token in tokenize.generate_tokens(io.StringIO(source.text).readline))
    return sum(token.type == tokenize.COMMENT and (pragmas or not PRAGMA.match(token.string)) for token in tokens)


def count_log_calls(sources: Iterable[Source]) -> int:
    """Return the number of calls that write a message to a logger; ``getLogger`` itself writes none."""
    pairs = ((source, _loggers(source)) for source in sources)
    return sum(_is_log_call(node, loggers) for source, loggers in pairs for node in source.nodes)


def _loggers(source: Source) -> frozenset[str]:
    """Return the names that a module binds to ``getLogger(...)``."""
    bindings = [node for node in source.nodes if isinstance(node, ast.Assign) and _is_logger(node.value)]
    return frozenset(target.id for node in bindings for target in node.targets if isinstance(target, ast.Name))


def _is_logger(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and _last_name(node.func) == "getLogger"


def _last_name(function: ast.expr) -> str:
    """Return ``f`` for both ``f`` and ``module.f``."""
    return getattr(function, "attr", getattr(function, "id", ""))


def _is_log_call(node: ast.AST, loggers: frozenset[str]) -> bool:
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in LOG_CALLS):
        return False
    receiver = node.func.value
    return _is_logger(receiver) or (isinstance(receiver, ast.Name) and receiver.id in loggers)


def mapping_lines(sources: Iterable[Source], *rooms: str) -> int:
    """Return the number of lines with ``dict[str, Any]`` or ``Mapping[str, Any]``."""
    forms = {"dict[str, Any]", "Mapping[str, Any]"}
    lines = {
        (source.path, node.lineno)
        for source in sources
        for node in (source.nodes if source.room in rooms else ())
        if isinstance(node, ast.Subscript) and ast.unparse(node) in forms
    }
    return len(lines)


def restating_classes(sources: Iterable[Source]) -> list[str]:
    """Return the classes that store an option of ``tune`` although another class stores it already.

    A class stores an option if it has a field of that name, or if ``__init__`` assigns the parameter of that name to an
    attribute of that name, with or without an underscore. The first class of an option is the one that stores most
    options (the first by path if several do). A field whose type differs from the first class's is another quantity.
    """
    stores = {
        f"{source.path}:{node.name}": _stored_options(node)
        for source in sources
        for node in (source.nodes if source.room in RUN_ROOMS else ())
        if isinstance(node, ast.ClassDef)
    }
    ranked = sorted(stores, key=lambda name: -len(stores[name]))
    restating = set()
    for option in OPTIONS:
        owners = [name for name in ranked if option in stores[name]]
        restating |= {name for name in owners[1:] if stores[name][option] == stores[owners[0]][option]}
    return sorted(restating)


def _stored_options(definition: ast.ClassDef) -> dict[str, str]:
    """Return the annotation of every option that a class stores."""
    stored = {}
    for node in definition.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            stored[node.target.id.strip("_")] = ast.unparse(node.annotation)
        elif isinstance(node, ast.FunctionDef) and node.name == "__init__":
            arguments = [*node.args.args, *node.args.kwonlyargs]
            types = {each.arg: ast.unparse(each.annotation) for each in arguments if each.annotation}
            stored |= {name: types[name] for name in _copied_parameters(node) if name in types}
    return {name: kind for name, kind in stored.items() if name in OPTIONS}


def _copied_parameters(function: ast.FunctionDef) -> set[str]:
    """Return the parameters that a function assigns to an attribute of the same name."""
    copied = set()
    for assignment in (node for node in ast.walk(function) if isinstance(node, ast.Assign)):
        target, value = assignment.targets[0], assignment.value
        targets, values = [each.elts if isinstance(each, ast.Tuple) else [each] for each in (target, value)]
        for left, right in zip(targets, values, strict=False):
            if isinstance(left, ast.Attribute) and isinstance(right, ast.Name) and left.attr.strip("_") == right.id:
                copied.add(right.id)
    return copied


def import_graph(sources: Iterable[Source]) -> "nx.DiGraph[str]":
    """Return which module imports which.

    Imports inside functions, under ``TYPE_CHECKING`` and by ``import_module`` of a literal name count. Importing a
    submodule is no arrow to the packages around it: only what a statement names is one.
    """
    sources = list(sources)
    names = {source.name for source in sources}
    graph = nx.DiGraph()
    graph.add_nodes_from(names)
    for source in sources:
        targets = {target for node in source.nodes for target in _targets(node, source, names)}
        graph.add_edges_from((source.name, target) for target in targets & names - {source.name})
    return graph


def _targets(node: ast.AST, source: Source, names: set[str]) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        home = _home(node, source)
        for alias in node.names:
            yield f"{home}.{alias.name}" if f"{home}.{alias.name}" in names else home
    elif isinstance(node, ast.Call) and _last_name(node.func) == "import_module":
        yield from (str(name.value) for name in node.args[:1] if isinstance(name, ast.Constant))


def _home(node: ast.ImportFrom, source: Source) -> str:
    """Return the absolute name of the module that ``from ... import`` reads."""
    if not node.level:
        return node.module or ""
    inside = source.name.split(".") + ([""] if source.path.endswith("__init__.py") else [])
    return ".".join([*inside[: -node.level], *([node.module] if node.module else [])])


def rising_arrows(sources: Iterable[Source]) -> list[str]:
    """Return the imports that run from a lower room to a higher one.

    The package itself stands between ``api``, which its public names load, and ``cli``. A room that the order does not
    name stands above all others.
    """
    sources = list(sources)
    rooms = {source.name: source.room for source in sources}
    order = (STEPS if "evaluate" in rooms.values() else STEPS_BEFORE).split(" < ")
    ranks = {room: number for number, step in enumerate(order) for room in step.split()}
    ranks |= {"__init__": ranks["api"] + 0.5, "__main__": len(order) + 1}
    edges = import_graph(sources).edges
    heights = {name: ranks.get(room, len(order)) for name, room in rooms.items()}
    return sorted(f"{lower} -> {upper}" for lower, upper in edges if heights[lower] < heights[upper])


def largest_knot(sources: Iterable[Source]) -> list[str]:
    """Return the largest set of modules that all reach each other by imports; empty without import cycles."""
    largest: set[str] = max(nx.strongly_connected_components(import_graph(sources)), key=len, default=set())
    return sorted(largest) if len(largest) > 1 else []


def fragment_docstrings(sources: Iterable[Source]) -> list[str]:
    """Return the docstrings that begin with Of, By, As above, It has, From or In which."""
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    return [
        f"{source.path}:{getattr(node, 'lineno', 1)}"
        for source in sources
        for node in source.nodes
        if isinstance(node, kinds) and OPENING.match(ast.get_docstring(node) or "")
    ]


def participle_names(sources: Iterable[Source]) -> Counter[str]:
    """Return how often a parameter is declared, or a variable or attribute assigned, under one of ``PARTICIPLES``."""
    names = Counter(name.strip("_") for source in sources for node in source.nodes if (name := _bound_name(node)))
    return Counter({name: number for name, number in names.items() if name in PARTICIPLES})


def _bound_name(node: ast.AST) -> str:
    if isinstance(node, ast.arg):
        return node.arg
    if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
        return node.id if isinstance(node, ast.Name) else node.attr
    return ""


def duplicated_places(checkout: Path) -> tuple[int | None, object]:
    """Return the number of pairs of places that the command ``duplicates`` finds, boilerplate left out."""
    command = shutil.which("duplicates")
    if command is None:
        return None, "the command `duplicates` is not on PATH"
    arguments = [command, "--repo", str(checkout), "--most", "200", "--seconds", "120"]
    text = subprocess.run(arguments, capture_output=True, text=True, check=True).stdout
    problem = next((line for line in text.splitlines() if line.startswith("incomplete:")), "")
    return (None, problem) if problem else count_duplicates(text)


def count_duplicates(text: str) -> tuple[int, list[str]]:
    """Return the rows of a report of ``duplicates`` that are not boilerplate."""
    rows = [line for line in text.splitlines() if re.match(r"D\d+ ", line)]
    logic = [row for row in rows if "boilerplate" not in row.split()]
    return len(logic), logic


def measure(checkout: Path) -> list[Row]:
    """Return all rows of a checkout."""
    sources = read_sources(checkout)
    duplicates = ("pairs of duplicated places, tests and benchmarks included", *duplicated_places(checkout))
    paths = _trace_rows(trace_checkout(checkout))
    return [*paths, *_import_rows(sources), *_text_rows(sources), *_room_rows(sources), duplicates]


def _trace_rows(trace: Mapping[str, list[str]] | str) -> list[Row]:
    names = ("modules a model passes from `tune` to its first state", "forms a model takes on that path")
    if isinstance(trace, str):
        return [(name, None, trace) for name in names]
    forms = sorted({form for entry in trace.values() for form in entry})
    return [(names[0], len(trace), trace), (names[1], len(forms), forms)]


def _names_row(name: str, items: list[str]) -> Row:
    return name, len(items), items


def _import_rows(sources: list[Source]) -> list[Row]:
    return [
        _names_row("classes that restate an option of `tune`", restating_classes(sources)),
        _names_row("imports from a lower to a higher room", rising_arrows(sources)),
        _names_row("modules in the largest import knot", largest_knot(sources)),
    ]


def _text_rows(sources: list[Source]) -> list[Row]:
    lines = count_lines(sources)
    nonblank = sum(bool(line.strip()) for source in sources for line in source.text.splitlines())
    participles = participle_names(sources)
    return [
        ("`Any` per 1,000 lines", round(1000 * count_any(sources) / lines, 1), count_any(sources)),
        ("comments, % of all lines", round(100 * count_comments(sources, pragmas=True) / lines, 2), lines),
        (
            "comments without pragmas, % of non-blank lines",
            round(100 * count_comments(sources, pragmas=False) / nonblank, 2),
            nonblank,
        ),
        ("log calls per 1,000 lines", round(1000 * count_log_calls(sources) / lines, 2), count_log_calls(sources)),
        _names_row("docstrings that begin with Of, By, As above, It has, From, In which", fragment_docstrings(sources)),
        ("parameters, variables and attributes named by a participle", participles.total(), dict(participles)),
    ]


def _room_rows(sources: list[Source]) -> list[Row]:
    # Code moved between these rooms, so that only their sum compares one order of rooms with another.
    rooms = ("search", "evaluate", "worker", "measure")
    counters: dict[str, Callable[..., int]] = {
        "lines": count_lines,
        "lines with `dict[str, Any]` or `Mapping[str, Any]`": mapping_lines,
    }
    return [
        (f"{name}, {' + '.join(f'{room}/' for room in group)}", count(sources, *group), None)
        for name, count in counters.items()
        for group in (*((room,) for room in rooms), rooms)
    ]


def table(columns: Mapping[str, list[Row]]) -> str:
    """Return the rows of one or two checkouts as a Markdown table."""
    lines = [f"| measure | {' | '.join(columns)} |", f"| --- | {' | '.join('---:' for _ in columns)} |"]
    body = [f"| {rows[0][0]} | {' | '.join(map(_cell, rows))} |" for rows in zip(*columns.values(), strict=True)]
    return "\n".join(lines + body)


def _cell(row: Row) -> str:
    return f"null ({row[2]})" if row[1] is None else f"{row[1]:,}"


def document(rows: list[Row]) -> dict[str, Any]:
    """Return the rows with the names behind the numbers."""
    return {name: {"value": value, "detail": detail} for name, value, detail in rows}


def main() -> None:
    """Measure one or two checkouts and print the table."""
    parser = argparse.ArgumentParser(description="Structure of a checkout in numbers.")
    parser.add_argument("--root", type=Path, default=Path(__file__).parents[1], help="checkout to measure")
    parser.add_argument("--compare", type=Path, help="earlier checkout, shown in the column before")
    parser.add_argument("--out", type=Path, help="JSON file for the rows and the names behind them")
    arguments = parser.parse_args()
    checkouts = (
        {"before": arguments.compare, "after": arguments.root} if arguments.compare else {"value": arguments.root}
    )
    for checkout in checkouts.values():
        if not (checkout / PACKAGE).is_dir():
            parser.error(f"`{checkout}` has no folder `{PACKAGE}`; give the root of a checkout.")
    columns = {column: measure(checkout) for column, checkout in checkouts.items()}
    print(table(columns))
    if arguments.out:
        arguments.out.write_text(json.dumps({name: document(rows) for name, rows in columns.items()}, indent=1) + "\n")


if __name__ == "__main__":
    main()
