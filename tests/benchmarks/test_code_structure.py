"""Every counter of ``benchmarks/code_structure.py`` counts, on packages made up for it."""

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"

Read = Callable[[Mapping[str, str]], Any]


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(sys, "path", [str(BENCHMARKS), *sys.path])
    return import_module("code_structure")


@pytest.fixture
def read(benchmark: Any, tmp_path: Path) -> Read:
    """Write a package from its files, then read it."""

    def write(files: Mapping[str, str]) -> Any:
        for name, text in files.items():
            path = tmp_path / "passsearch" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return benchmark.read_sources(tmp_path)

    return write


def test_lines_are_counted_by_room(benchmark: Any, read: Read) -> None:
    sources = read({"search/space.py": "a = 1\n\nb = 2\n", "core/passes.py": "c = 3\n"})
    assert benchmark.count_lines(sources) == 4
    assert benchmark.count_lines(sources, "search") == 3


def test_any_counts_where_it_is_used_and_not_where_it_is_imported(benchmark: Any, read: Read) -> None:
    text = 'from typing import Any\n\ndef f(x: Any, y: dict[str, Any]) -> None:\n    "Any"\n'
    assert benchmark.count_any(read({"a.py": text})) == 2


def test_comments_are_tokens_and_pragmas_can_be_left_out(benchmark: Any, read: Read) -> None:
    sources = read({"a.py": 'a = "# text"  # a reason\nb = 1  # noqa: E501\nc = 2  # type: ignore[misc]\n'})
    assert benchmark.count_comments(sources, pragmas=True) == 3
    assert benchmark.count_comments(sources, pragmas=False) == 1


def test_log_calls_are_calls_on_a_logger(benchmark: Any, read: Read) -> None:
    text = (
        "import logging\n_log = logging.getLogger(__name__)\n_log.info('x')\n_log.addHandler(None)\n"
        "logging.getLogger().warning('y')\nparser.error('z')\n"
    )
    assert benchmark.count_log_calls(read({"a.py": text})) == 2


def test_lines_with_untyped_mappings(benchmark: Any, read: Read) -> None:
    text = (
        "def f(x: dict[str, Any], y: Mapping[str, Any]) -> None: ...\nz: dict[str, int] = {}\nw: list[dict[str, Any]]\n"
    )
    assert benchmark.mapping_lines(read({"search/a.py": text, "core/a.py": text}), "search") == 2


def test_a_class_restates_an_option_that_another_class_stores(benchmark: Any, read: Read) -> None:
    sources = read(
        {
            "api/run.py": "class Options:\n    trials: int\n    seed: int\n    deadline_s: float\n",
            "search/plan.py": "class Plan:\n    trials: int\n\nclass Outcome:\n    seed: str\n",
            "evaluate/pool.py": (
                "class Pool:\n    def __init__(self, size: int, *, deadline_s: float) -> None:\n"
                "        self._size, self._deadline_s = size, deadline_s\n"
            ),
            "measure/rounds.py": "class RoundPlan:\n    seed: int\n",
        }
    )
    assert benchmark.restating_classes(sources) == ["evaluate/pool.py:Pool", "search/plan.py:Plan"]


def test_a_lazy_import_of_the_package_closes_a_knot_and_runs_up(benchmark: Any, read: Read) -> None:
    files = {
        "__init__.py": "import importlib\n\ndef load():\n    return importlib.import_module('passsearch.api')\n",
        "api/__init__.py": "from passsearch.search import study\n",
        "search/__init__.py": "",
        "search/study.py": "def run():\n    from passsearch.measure.clock import now\n",
        "measure/clock.py": "import passsearch\nfrom passsearch.errors import Fault\n",
        "errors.py": "class Fault(Exception): ...\n",
    }
    knot = ["passsearch", "passsearch.api", "passsearch.measure.clock", "passsearch.search.study"]
    assert benchmark.largest_knot(read(files)) == knot
    assert benchmark.rising_arrows(read(files)) == ["passsearch.measure.clock -> passsearch"]
    files["measure/clock.py"] = ""
    assert benchmark.largest_knot(read(files)) == benchmark.rising_arrows(read(files)) == []


@pytest.mark.parametrize(("room", "arrows"), [("worker", 0), ("search", 1)])
def test_the_rooms_of_the_processes_have_an_order(benchmark: Any, read: Read, room: str, arrows: int) -> None:
    sources = read({f"{room}/a.py": "", "evaluate/b.py": f"import passsearch.{room}.a\n"})
    assert len(benchmark.rising_arrows(sources)) == arrows


def test_relative_imports_are_arrows_too(benchmark: Any, read: Read) -> None:
    sources = read({"search/a.py": "from . import b\n", "search/b.py": "from .a import x\n", "search/__init__.py": ""})
    assert benchmark.largest_knot(sources) == ["passsearch.search.a", "passsearch.search.b"]


def test_docstrings_that_are_no_sentence(benchmark: Any, read: Read) -> None:
    text = '"""Of a module."""\n\ndef f():\n    """Official name."""\n\nclass A:\n    """As above."""\n'
    assert benchmark.fragment_docstrings(read({"a.py": text})) == ["a.py:1", "a.py:6"]


def test_names_that_are_participles(benchmark: Any, read: Read) -> None:
    text = "def f(asked, known_passes):\n    told = known = asked\n    self._known = told\n    print(given)\n"
    assert benchmark.participle_names(read({"a.py": text})) == {"asked": 1, "told": 1, "known": 2}


def test_boilerplate_is_no_duplicate(benchmark: Any) -> None:
    text = (
        "3 pairs\nD1 a.py:1-9 ~ b.py:1-9\nD2 a.py:20-29 ~ b.py:20-29 shape\nD3 c.py:1-7 ~ d.py:1-7 shape boilerplate\n"
    )
    assert benchmark.count_duplicates(text)[0] == 2


def test_without_its_command_duplicates_are_null(
    benchmark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    number, reason = benchmark.duplicated_places(tmp_path)
    assert number is None
    assert "not on PATH" in reason


TUNE = """
import json, subprocess, sys
from dataclasses import dataclass
from passsearch.core import shout

@dataclass
class ModelFile:
    path: str

@dataclass
class Session:
    model: ModelFile

CODE = "import json, sys; sys.path.insert(0, sys.argv[1]); from passsearch.server import load;"
CODE += "print(json.dumps({'state': load({'source': {'path': sys.argv[2]}})}))"

def tune(model, **options):
    return run(Session(ModelFile(model)), options["progress"])

def run(session, progress):
    shout("ready")
    process = subprocess.Popen([sys.executable, "-c", CODE, sys.path[0], session.model.path], stdout=subprocess.PIPE)
    json.loads(process.communicate()[0])
    shout(session.model.path)
    progress("the state is here")
"""


def test_a_model_is_followed_through_both_processes_to_its_first_state(
    benchmark: Any, read: Read, tmp_path: Path
) -> None:
    files = {
        "__init__.py": "from passsearch.api import tune\n",
        "api.py": TUNE,
        "core.py": "def shout(text): ...\n",
        "server.py": "def load(request):\n    return 'a1'\n",
    }
    read(files)
    assert benchmark.trace_checkout(tmp_path) == {"api.py": ["Session", "path"], "server.py": ["dict"]}


def test_a_trace_that_fails_says_why(benchmark: Any, read: Read, tmp_path: Path) -> None:
    read({"__init__.py": "def tune(model, **options):\n    raise RuntimeError('no toolchain')\n"})
    assert benchmark.trace_checkout(tmp_path) == "RuntimeError: no toolchain"


def test_one_table_compares_two_checkouts(benchmark: Any) -> None:
    columns = {"before": [("arrows", 2, None)], "after": [("arrows", None, "no module")]}
    assert benchmark.table(columns).splitlines()[-1] == "| arrows | 2 | null (no module) |"
