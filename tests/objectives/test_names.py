"""No module outside ``objectives/`` names an objective: what is particular to one has one place."""

import ast
from collections.abc import Iterator
from pathlib import Path

import passsearch
from passsearch.objectives import OBJECTIVES

ROOT = Path(passsearch.__file__).parent
NAMES = {objective.name for objective in OBJECTIVES}
OPERATOR, OPTION = "an operator of a network", "an option, which limits the memory of a compiler process"
COLUMN, CACHE, LIMIT = "the title of a column", "the folder of the fact cache", "a limit of a process"
OTHER_MEANINGS = {
    ("analysis/activation.py", "power"): OPERATOR,
    ("analysis/kinds.py", "power"): OPERATOR,
    ("analysis/normalization.py", "power"): OPERATOR,
    ("api/torch_backend.py", "memory"): OPTION,
    ("batch/checks.py", "memory"): OPTION,
    ("batch/cross.py", "memory"): OPTION,
    ("batch/jobs_file.py", "memory"): OPTION,
    ("cli/bench.py", "memory"): OPTION,
    ("cli/options.py", "memory"): OPTION,
    ("cli/regress.py", "memory"): OPTION,
    ("dialects/relax/padding.py", "power"): OPERATOR,
    ("dialects/relax/phases.py", "memory"): "a phase of a compilation",
    ("evaluate/session.py", "memory"): CACHE,
    ("report/batch.py", "throughput"): COLUMN,
    ("report/compiled.py", "throughput"): COLUMN,
    ("report/engines.py", "throughput"): COLUMN,
    ("report/profile.py", "energy"): "the title of a line",
    **dict.fromkeys((("results/run.py", name) for name in NAMES), "what the schema of a verdict allows"),
    ("results/ablation.py", "compile_time"): "a gain that every ablation has",
    ("results/ablation.py", "throughput"): "a gain that every ablation has",
    ("results/shown_latency.py", "throughput"): "the ratio that a latency may contradict",
    ("store/cache_limit.py", "memory"): CACHE,
    ("studies/profiling.py", "memory"): "what limits the speed of a kernel",
    ("studies/referee.py", "memory"): "a check of what a kernel reads and writes",
    ("worker/client.py", "memory"): LIMIT,
    ("worker/limits.py", "memory"): "a controller of Linux control groups",
    ("worker/referee.py", "memory"): "a check of what a kernel reads and writes",
    ("worker/script.py", "memory"): LIMIT,
    ("worker/script_server.py", "memory"): LIMIT,
    ("worker/server.py", "memory"): LIMIT,
}
"""Modules with a word that is also the name of an objective, and what it means there."""


def names_outside() -> Iterator[tuple[str, str]]:
    """Yield module and text wherever a text outside the room is the name of an objective."""
    for path in sorted(ROOT.rglob("*.py")):
        module = path.relative_to(ROOT)
        if module.parts[0] == "objectives":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in NAMES:
                yield str(module), node.value


def test_objectives_are_named_in_their_room_only() -> None:
    assert {*names_outside()} == {*OTHER_MEANINGS}
