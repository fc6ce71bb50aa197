"""Files of other users are data: no command runs code from them unless the user trusts them."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import short_plans
from foreign_runs import MODULE, foreign_run
from onnx import TensorProto, helper

from passsearch import TuneResult, cli
from passsearch.catalog import load
from passsearch.dialects import DIALECTS
from passsearch.errors import UserError
from passsearch.evaluate import Session
from passsearch.frontends import resolve
from passsearch.objectives import parse_objective
from passsearch.search import Run, RunOptions
from passsearch.store import RunFolder
from passsearch.toolchain import Toolchain, cache_folder

DIALECT = next(iter(DIALECTS))
FACTORIES = ["os:system", f"{MODULE}:Mine", "subprocess:call"]
USERS_CATALOG = f"""
passes:
  - {{name: Mine, summary: one that the user knows, factory: "{MODULE}:Mine", opt_level: 0}}
"""

Command = Callable[..., tuple[int, str]]


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Command:
    """A function that runs one command in this process, and returns the exit status and what it printed."""

    def run(*words: object) -> tuple[int, str]:
        status = cli.main([str(word) for word in words])
        printed = capsys.readouterr()
        return status, printed.err + printed.out

    return run


def run_of(folder: Path, toolchain: str, dialect: str = DIALECT, **settings: Any) -> Path:
    return foreign_run(folder / "run", folder / "canary", dialect=dialect, toolchain=toolchain, **settings)


@pytest.mark.parametrize("factory", FACTORIES)
def test_export_refuses_passes_that_only_the_run_names(command: Command, tmp_path: Path, factory: str) -> None:
    run = run_of(tmp_path, "any", factory=factory)
    status, printed = command("export", run, "--to", tmp_path / "deploy")
    assert status == 2 and factory in printed and "--trust" in printed
    assert not (tmp_path / "deploy").exists() and not (tmp_path / "canary").exists()


def test_export_with_trust_names_the_code_first(command: Command, tmp_path: Path) -> None:
    run = run_of(tmp_path, "any", factory=f"{MODULE}:Mine")
    status, printed = command("export", run, "--to", tmp_path / "deploy", "--trust")
    assert status == 0 and (tmp_path / "deploy" / f"{MODULE}.py").exists()
    assert printed.index("which runs: pass `Mine`") < printed.index("Wrote")
    assert not (tmp_path / "canary").exists(), "an export copies the module and does not import it"


def test_export_takes_the_code_of_the_users_catalog_and_not_that_of_the_run(command: Command, tmp_path: Path) -> None:
    run = run_of(tmp_path, "any", factory=f"{MODULE}:Mine")
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "mine.yaml").write_text(USERS_CATALOG)
    (tmp_path / "own" / f"{MODULE}.py").write_text("def Mine():\n    return 'the code of the user'\n")
    status, _ = command("export", run, "--to", tmp_path / "deploy", "--catalog", tmp_path / "own" / "mine.yaml")
    assert status == 0 and "the code of the user" in (tmp_path / "deploy" / f"{MODULE}.py").read_text()


@pytest.mark.parametrize("words", ["export", "audit", "ablate"])
def test_a_network_that_calls_out_and_options_of_llvm_are_refused(command: Command, tmp_path: Path, words: str) -> None:
    run = run_of(tmp_path, "any", factory="x:Y")
    (run / "network.json").write_text('{"nodes": [{"type_key": "Op", "repr_str": "tir.call_extern"}]}')
    document = json.loads((run / "result.json").read_text())
    (run / "result.json").write_text(json.dumps({**document, "target": "llvm -cl-opt=-info-output-file=/tmp/x"}))
    to = ["--to", tmp_path / "deploy"] if words == "export" else []
    status, printed = command(words, run, *to)
    assert status == 2 and "network.json` would run code" in printed
    assert "tir.call_extern" in printed and "options of LLVM" in printed


@pytest.mark.parametrize("words", ["audit", "ablate"])
@pytest.mark.parametrize("factory", FACTORIES)
def test_passes_that_only_the_run_names_are_not_rebuilt(
    command: Command, relax: Toolchain, tmp_path: Path, factory: str, words: str
) -> None:
    run = run_of(tmp_path, relax.name, relax.dialect, factory=factory)
    status, printed = command(words, run)
    assert status == 2 and factory in printed and "`Mine`" in printed and "result.json" in printed
    assert "--catalog FILE" in printed and "--trust" in printed
    assert not (tmp_path / "canary").exists() and MODULE not in sys.modules


@pytest.mark.parametrize("name", ["../../escaped", "/tmp/escaped", "a\nb", ""])
def test_a_name_in_a_network_leaves_no_folder(name: str, tmp_path: Path) -> None:
    node = helper.make_node("Relu", ["a"], ["b"])
    values = [helper.make_tensor_value_info(value, TensorProto.FLOAT, [1]) for value in "ab"]
    model = helper.make_model(helper.make_graph([node], name or "g", values[:1], values[1:]))
    model.graph.name = name
    file = resolve(model, folder=tmp_path / "models")
    words = {"tvm_version": "0.1", "tvm_commit": "", "python": "python", "host_triple": "x86_64-linux"}
    compiler = SimpleNamespace(name="any", dialect=DIALECT, **words)
    session = Session(file, cast(Toolchain, compiler), "llvm", load(DIALECT))
    assert file.path.parent == tmp_path / "models"
    assert session.cache_path.parent == cache_folder() / "memory"
    options = RunOptions((parse_objective("throughput"),), 1)
    assert Run(session, options).default_folder(tmp_path).parent == tmp_path


def test_tune_builds_again_what_a_run_folder_brings(
    relax: Toolchain, tiny_network: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options: dict[str, Any] = {"toolchain": relax.name, "confirm": 0, "passes": ["LegalizeOps", "FuseOps"]}
    monkeypatch.chdir(tmp_path)  # and its workers have another working folder
    run, canary = Path("run"), tmp_path / "canary"
    short_plans.tune(tiny_network, trials=1, out=run, **options)
    source = tmp_path / "library.c"
    source.write_text(
        f'#include <stdio.h>\n__attribute__((constructor)) void go(void) {{ fclose(fopen("{canary}", "w")); }}'
    )
    artifacts = list((run / "artifacts").rglob("*.so"))
    assert artifacts
    for file in artifacts:
        subprocess.run(["cc", "-shared", "-fPIC", "-o", file, source], check=True)
    result = short_plans.tune(tiny_network, trials=2, out=run, **options)
    assert not canary.exists() and not result.document["failed"]
    assert len(result.document["trials"]) > 1


@pytest.mark.parametrize("name", ["log.jsonl", "artifacts"])
def test_tune_refuses_a_run_folder_with_links(name: str, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / name).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UserError, match=f"{name}` is a link"):
        RunFolder(tmp_path / "run", {})
    assert not (tmp_path / "elsewhere").exists()


ESCAPE = "\x1b]0;pwned\x07\x1b[2J\u202e"


def poisoned(value: Any, text: str) -> Any:
    """Return a document in which every text ends in another one."""
    if isinstance(value, dict):
        return {key: poisoned(item, text) for key, item in value.items()}
    if isinstance(value, list):
        return [poisoned(item, text) for item in value]
    return value + text if isinstance(value, str) else value


def test_names_neither_reach_the_terminal_as_escapes_nor_the_page_as_html(command: Command, tmp_path: Path) -> None:
    run = run_of(tmp_path, "any", factory="x:Y")
    document = json.loads((run / "result.json").read_text())
    names = {key: poisoned(document[key], f"{ESCAPE}<script>") for key in ("model", "device", "fingerprint", "failed")}
    (run / "result.json").write_text(json.dumps({**document, **names}))
    status, printed = command("report", run, "--html", tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert status == 0 and "pwned" in printed and "pwned" in page
    assert not set(ESCAPE[:1] + ESCAPE[-1] + "\x07") & set(printed + page)
    assert "<script" not in page
    result = TuneResult.read(run)
    assert result.summary.startswith("A search of ")
    assert not set("\x1b\u202e") & set(f"{result}{result.summary}")


def test_a_name_in_an_error_is_written_out(command: Command, tmp_path: Path) -> None:
    run = run_of(tmp_path, "any", factory=f"os:{ESCAPE}")
    status, printed = command("export", run, "--to", tmp_path / "deploy", "-v")
    assert status == 2 and "\x1b" not in printed and r"\x1b]0;pwned" in printed


@pytest.mark.parametrize(("every", "least"), [(3, 90), pytest.param(1, 250, marks=pytest.mark.slow)])
def test_every_command_refuses_every_file_that_brings_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, every: int, least: int
) -> None:
    toolchain = {"name": "any", "python": sys.executable, "dialect": DIALECT, "tvm_version": "0.16.dev0"}
    texts = ("tvm_commit", "llvm_version", "default_triple", "host_triple", "python_version")
    toolchain |= {**dict.fromkeys(texts, ""), "targets": [], "cuda": False, "cuda_device": False}
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "toolchains.json").write_text(json.dumps({"schema": 1, "toolchains": [toolchain]}))
    monkeypatch.setenv("PASSSEARCH_DATA_DIR", str(tmp_path / "data"))
    program = Path(__file__).parent / "programs" / "open_foreign_files.py"
    done = subprocess.run(
        [sys.executable, "-B", program, tmp_path, DIALECT, str(every)],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["found"] == [] and not result["canary"]
    assert result["others"] == [] and result["imported"] == []
    assert result["long"] == [], "each refusal is one line"
    assert result["tried"] == result["refused"] > least
