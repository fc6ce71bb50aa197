"""No module outside ``objectives/`` names an objective: what is particular to one has one place."""

import ast
from collections.abc import Iterator
from pathlib import Path

import passsearch
from passsearch.objectives import OBJECTIVES

ROOT = Path(passsearch.__file__).parent
NAMES = {objective.name for objective in OBJECTIVES}
OTHER_MEANINGS = {
    "analysis/activation.py": "the operator power",
    "analysis/kinds.py": "the operator power",
    "analysis/normalization.py": "the operator power",
    "api/application.py": "the option memory, a limit of the compiler",
    "api/compiling.py": "the option memory, a limit of the compiler",
    "api/exploration.py": "the option memory, a limit of the compiler",
    "api/profiling.py": "the option memory, a limit of the compiler",
    "batch/cross.py": "the option memory, a limit of the compiler",
    "batch/jobs_file.py": "the option memory, a limit of the compiler",
    "cli/explore.py": "the option memory, a limit of the compiler",
    "cli/options.py": "the option memory, a limit of the compiler",
    "core/arguments.py": "the option memory, a limit of the compiler",
    "dialects/relax/phases.py": "a phase of compilation",
    "evaluate/session.py": "the folder of the fact cache",
    "report/batch.py": "the title of a column",
    "report/compiled.py": "the title of a column",
    "report/engines.py": "titles of columns, of engines and not of candidates",
    "report/profile.py": "the title of a line",
    "search/profiling.py": "what bounds a kernel",
    "store/cache_limit.py": "the folder of the fact cache",
    "worker/client.py": "a limit of a process",
    "worker/limits.py": "a controller of Linux control groups",
    "worker/server.py": "a limit of a process",
}
"""Modules in which a word that is also the name of an objective means something else."""


def modules_with_names() -> Iterator[str]:
    """Yield the modules outside the room with a text that is the name of an objective."""
    for path in sorted(ROOT.rglob("*.py")):
        module = path.relative_to(ROOT)
        if module.parts[0] in ("objectives", "standalone"):  # what is in `standalone` knows no search
            continue
        values = [node.value for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Constant)]
        if any(isinstance(value, str) and value in NAMES for value in values):
            yield str(module)


def test_objectives_are_named_in_their_room_only() -> None:
    assert list(modules_with_names()) == sorted(OTHER_MEANINGS)
