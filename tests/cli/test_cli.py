"""Errors as the user sees them, and JSON as programs read it. No toolchain is needed."""

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer

from passsearch import __version__, cli
from passsearch.cli.app import _explain_usage
from passsearch.cli.bench import _read_engines
from passsearch.dialects import DIALECTS
from passsearch.errors import EnvironmentFault

PROGRAMS = Path(__file__).parent / "programs"
DATA = Path(__file__).parents[1] / "report" / "data" / "result.json"
COMMANDS = (
    "zoo",
    "examples",
    "doctor",
    "toolchain",
    "analyze",
    "catalog",
    "tune",
    "explore",
    "compare",
    "bench",
    "profile",
    "regress",
    "export",
    "recommend",
    "audit",
    "report",
)


Run = Callable[..., Any]


@pytest.fixture(autouse=True)
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PASSSEARCH_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("PASSSEARCH_DEBUG", raising=False)


@pytest.fixture
def toolchain(tmp_path: Path) -> None:
    """A registered toolchain whose interpreter is there but has no compiler."""
    record = {
        "name": "stand-in",
        "python": sys.executable,
        "dialect": "relay",
        "tvm_version": "0.16.dev0",
        "tvm_commit": "",
        "llvm_version": "17.0.6",
        "targets": [],
        "cuda": False,
        "cuda_device": False,
        "default_triple": "x86_64-unknown-linux-gnu",
        "host_triple": "x86_64-unknown-linux-gnu",
        "python_version": "3.10.13",
    }
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "toolchains.json").write_text(json.dumps({"schema": 1, "toolchains": [record]}))


@pytest.fixture
def finished(tmp_path: Path) -> Path:
    """A run folder with a result."""
    run = tmp_path / "run"
    run.mkdir()
    (run / "result.json").write_text(DATA.read_text())
    return run


def assert_refused(answer: Any, code: int, *messages: str) -> None:
    assert answer.code == code
    assert answer.out == ""
    assert answer.err.startswith("error: ")
    assert answer.err.count("\n") == 1
    for message in messages:
        assert message in answer.err


def test_help_lists_the_commands(passsearch: Run) -> None:
    answer = passsearch("--help")

    assert answer.code == 0
    assert all(f"  {command} " in answer.out for command in COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(passsearch: Run, command: str) -> None:
    assert passsearch(command, "--help").out.startswith(f"Usage: passsearch {command} ")


@pytest.mark.parametrize("words", [(), ("tune",), ("toolchain", "list")])
def test_h_is_short_for_help(passsearch: Run, words: tuple[str, ...]) -> None:
    answer = passsearch(*words, "-h")

    assert answer.code == 0
    assert answer.out == passsearch(*words, "--help").out


def test_version_is_printed(passsearch: Run) -> None:
    assert passsearch("--version") == (0, f"passsearch {__version__}\n", "")


def heavy_modules(*command: str) -> set[str]:
    """Return the slow libraries that a command loads in a process of its own."""
    program = [sys.executable, str(PROGRAMS / "print_heavy_modules.py"), *command]
    return set(subprocess.run(program, capture_output=True, text=True, check=True).stderr.split())


def test_help_loads_nothing_heavy_and_is_quick() -> None:
    start = time.monotonic()

    assert heavy_modules("--help") == set()
    assert time.monotonic() - start < 5


@pytest.mark.parametrize("command", ["toolchain list", "runs", "catalog list", "catalog show FoldConstant"])
def test_a_command_that_only_prints_a_table_loads_nothing_heavy(toolchain: None, command: str) -> None:
    # What prints a table needs `rich`, and the catalog is YAML.
    assert heavy_modules(*command.split()) <= {"rich", "yaml"}


def test_without_a_toolchain_the_error_names_the_install_command(passsearch: Run) -> None:
    for command in (
        ("tune", "zoo:resnet18"),
        ("analyze", "zoo:resnet18"),
        ("compare", "x.onnx", "--pipelines", "O3"),
    ):
        assert_refused(passsearch(*command), 3, "No toolchain", "passsearch toolchain install ")


def test_without_a_c_compiler_the_error_says_so(
    passsearch: Run, toolchain: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)

    assert_refused(passsearch("tune", "zoo:resnet18"), 3, "No C compiler", "Install gcc or clang")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("tune", "missing.onnx"), "No such file: `missing.onnx`"),
        (
            ("tune", "missing.onnx", "--objective", "speed"),
            "Unknown objective `speed`; choose from: throughput",
        ),
        (("tune", "zoo:resnet18", "--toolchain", "stand-on"), "did you mean `stand-in`?"),
        (("tune", "zoo:resnet18", "--input", "data=float32"), "An input reads name:dtype[shape]"),
        (("tune", "zoo:resnet18", "--input", "data:float[1]"), "Unknown dtype `float`"),
        (("tune",), "passsearch tune --help"),
        (("tune", "zoo:resnet18", "--trials", "many"), "--trials"),
        (("tune", "zoo:resnet18", "--batch", "0"), "--batch"),
        (("tune", "zoo:resnet18", "--nonsense"), "--nonsense"),
        (("compare", "zoo:resnet18"), "Nothing to compare"),
        (("catalog", "show", "FoldConst"), "did you mean `FoldConstant`?"),
        (("catalog", "show", "AS-0", "--dialect", "relax"), "it is a sequence of `relay`"),
        (("catalog", "list", "--catalog", "missing.yaml"), "Cannot read the catalog file `missing.yaml`"),
        (("toolchain", "remove", "other"), "Unknown toolchain `other`"),
        (("toolchain", "install", "nonsense"), "Unknown dialect `nonsense`"),
        (("toolchain", "install", next(iter(DIALECTS)), "--with", "caffe"), "Unknown framework `caffe`"),
        (("toolchain", "add", "x", "--python", "/no/python"), "/no/python"),
        (("toolchain", "add", "torch", "--python", "/no/python"), "`torch` is the name of an engine"),
        (("audit", "nowhere", "--aa", "--confirm", "2"), "leave out `--confirm`"),
        (("profile", "zoo:resnet18", "--svg", "no/folder/roofline.svg"), "there is no folder `no/folder`"),
        (("report", "nowhere"), "No result in `nowhere`"),
        (("export", "nowhere", "--to", "there"), "No result in `nowhere`"),
        (("nonsense",), "nonsense"),
    ],
)
def test_a_mistake_is_one_line_with_the_next_step(
    passsearch: Run, toolchain: None, arguments: tuple[str, ...], message: str
) -> None:
    assert_refused(passsearch(*arguments), 2, message)


def test_an_unknown_pass_is_refused_before_anything_is_written(
    passsearch: Run, toolchain: None, tmp_path: Path
) -> None:
    answer = passsearch("tune", "zoo:resnet18", "--passes", "FoldConst", "--out", str(tmp_path / "new"))

    assert_refused(answer, 2, "Unknown pass `FoldConst`", "did you mean `FoldConstant`?")
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("options", "messages"),
    [
        (("--passes", ""), ("No pass to search", "for example FoldConstant,FuseOps")),
        (("--passes", "FuseOps,Gradient"), ("Pass `Gradient` cannot be searched: Changes the results", "Leave it out")),
        (("--additional", "Gradient"), ("Pass `Gradient` cannot be searched", "passsearch catalog show Gradient")),
        (("--objective", "latency,speed"), ("Unknown objective `speed`",)),
        (("--objective", "latency,memory,power"), ("One objective or two different ones; got 3",)),
        (("--keep-throughput", "5"), ("--keep-throughput",)),
        (("--timeout", "nan"), ("--timeout",)),
        (("--batch", "99999999999"), ("GB of memory", "Give a smaller batch or shape")),
    ],
)
def test_an_option_without_sense_is_refused_before_anything_is_written(
    passsearch: Run, toolchain: None, tmp_path: Path, options: tuple[str, ...], messages: tuple[str, ...]
) -> None:
    answer = passsearch("tune", "zoo:resnet_tiny", "--out", str(tmp_path / "new"), *options)

    assert_refused(answer, 2, *messages)
    assert not (tmp_path / "new").exists()


def test_two_objectives_may_stand_in_one_option(
    passsearch: Run, toolchain: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    requested: list[tuple[str, ...]] = []

    def stop(run: Any, *_: Any, **__: Any) -> None:
        requested.append(tuple(objective.name for objective in run.options.objectives))
        raise EnvironmentFault("enough")

    monkeypatch.setattr("passsearch.search.Run.execute", stop)
    passsearch("tune", "zoo:resnet_tiny", "--objective", "throughput, compile_time")
    passsearch("tune", "zoo:resnet_tiny", "--objective", "throughput", "--objective", "compile_time")

    assert requested == 2 * [("throughput", "compile_time")]


def test_an_audit_by_a_toolchain_of_another_dialect_is_refused(
    passsearch: Run, toolchain: None, finished: Path
) -> None:
    document = json.loads(DATA.read_text())
    document["toolchain"] |= {"dialect": "another", "name": "its-toolchain"}
    empty = {"states": [], "expected": [], "seed": 0, "inputs": {}, "factories": {}, "tolerance": None}
    document["deployment"] = empty
    (finished / "result.json").write_text(json.dumps(document))
    (finished / "network.json").write_text("{}")

    answer = passsearch("audit", str(finished), "--toolchain", "stand-in")

    assert_refused(answer, 2, "is of dialect another (toolchain `its-toolchain`)", "leave --toolchain out")


def test_a_folder_without_a_run_is_refused(passsearch: Run, tmp_path: Path) -> None:
    assert_refused(passsearch("report", str(tmp_path)), 2, "a run folder with result.json is needed")


def test_report_prints_and_writes_a_page(passsearch: Run, finished: Path, tmp_path: Path) -> None:
    answer = passsearch("report", str(finished), "--html", str(tmp_path / "page.html"))

    assert answer.code == 0
    assert "no significant improvement in throughput" in answer.out
    assert (tmp_path / "page.html").read_text().startswith("<!doctype html>")


def test_several_runs_are_set_side_by_side(passsearch: Run, finished: Path, tmp_path: Path) -> None:
    answer = passsearch("report", str(finished), str(finished), "--html", str(tmp_path / "page.html"))
    document = json.loads(passsearch("report", str(finished), str(finished), "--json").out)

    assert answer.code == 0 and answer.out.count(finished.name) >= 2
    assert "2 runs side by side" in (tmp_path / "page.html").read_text()
    assert [run["result"]["schema"] for run in document["runs"]] == ["passsearch/1"] * 2


def test_a_page_that_cannot_be_written_is_refused(passsearch: Run, finished: Path) -> None:
    assert_refused(passsearch("report", str(finished), "--html", str(finished)), 2, "--html")


def test_an_error_that_ends_with_a_question_keeps_its_mark(capsys: pytest.CaptureFixture[str]) -> None:
    assert _explain_usage(typer.BadParameter("Did you mean 'ablate'?")) == 2
    assert "Did you mean 'ablate'? See: passsearch --help" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "keys"),
    [
        (("toolchain", "list"), {"toolchains"}),
        (("catalog", "list"), {"dialect", "passes", "sequences"}),
        (("catalog", "show", "FuseOps"), {"name", "parameters", "classes"}),
        (("catalog", "show", "AS-0"), {"name", "pipeline", "source"}),
        (("doctor",), {"findings"}),
    ],
)
def test_json_is_one_document(passsearch: Run, arguments: tuple[str, ...], keys: set[str]) -> None:
    assert keys <= set(json.loads(passsearch(*arguments, "--json").out))


def test_runs_lists_the_runs(passsearch: Run, finished: Path, tmp_path: Path) -> None:
    kept = tmp_path / "cache" / "passsearch" / "runs" / "tiny"
    shutil.copytree(finished, kept)
    for name in ("run.json", "log.jsonl"):
        (kept / name).touch()
    answer = passsearch("runs")
    assert answer.code == passsearch("runs", "list").code == 0
    assert kept.name in answer.out
    assert json.loads(passsearch("runs", "--json").out)["runs"][0]["folder"] == str(kept)


def test_report_json_is_the_result(passsearch: Run, finished: Path) -> None:
    assert json.loads(passsearch("report", str(finished), "--json").out) == json.loads(DATA.read_text())


def test_frameworks_are_passed_to_the_installation(passsearch: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    received: dict[str, Any] = {}

    def install(dialect: str, **options: Any) -> Any:
        received.update(options)
        raise EnvironmentFault("enough")

    monkeypatch.setattr("passsearch.toolchain.install", install)
    passsearch("toolchain", "install", next(iter(DIALECTS)), "--with", "tensorflow, mxnet")

    assert received["frameworks"] == ["tensorflow", "mxnet"]


def test_doctor_and_bench_name_the_command_that_installs_an_engine(passsearch: Run) -> None:
    command = "passsearch toolchain install openvino"

    assert command in " ".join(passsearch("doctor").out.split())
    assert_refused(passsearch("bench", "zoo:resnet_tiny", "--engines", "openvino"), 3, f"Run: {command}")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("bench", "zoo:resnet_tiny"), "Nothing to measure; give for example: --engines relay:O3,onnxruntime"),
        (("bench", "zoo:resnet_tiny", "--engines", "plaidml"), "Engine `plaidml` is not available"),
        (("bench", "zoo:resnet_tiny", "--engines", "torch", "--batches", "1,x"), "--batches takes whole numbers"),
        (("toolchain", "install", "torch", "--with", "mxnet"), "`torch` is an engine without frameworks"),
        (("toolchain", "remove", "torch"), "Engine environment `torch` is not installed"),
    ],
)
def test_mistakes_with_engines(passsearch: Run, words: tuple[str, ...], message: str) -> None:
    assert_refused(passsearch(*words), 2, message)


def test_a_pipeline_for_a_gpu_is_one_engine() -> None:
    pipeline = "relax:LegalizeOps,FuseOps{fuse_opt_level=2},dlight.gpu.Matmul,StaticPlanBlockMemory"
    assert _read_engines(f"{pipeline},torch") == [pipeline, "torch"]


def test_doctor_without_toolchain_is_a_negative_answer(passsearch: Run) -> None:
    answer = passsearch("doctor")

    assert answer.code == 1
    assert "passsearch toolchain install" in answer.out


class _Result:
    def __init__(self, document: dict[str, Any], run: Path) -> None:
        self.document, self.run = document, run

    def __str__(self) -> str:
        return "the table"


@pytest.mark.parametrize(("interrupted", "code"), [(False, 0), (True, 130)])
def test_tune_prints_the_result_and_exits_130_if_interrupted(
    passsearch: Run,
    toolchain: None,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    interrupted: bool,
    code: int,
) -> None:
    received: dict[str, Any] = {}

    def tune(model: str, **options: Any) -> _Result:
        received.update(options, model=model)
        options["progress"]("searching", 1, 2)
        return _Result({"interrupted": interrupted, "verdict": {}}, tmp_path)

    monkeypatch.setattr("passsearch.api.tune", tune)
    text = passsearch("tune", "net.onnx", "--objective", "latency", "--objective", "memory", "--passes", "A,B")
    document = passsearch("tune", "net.onnx", "--json")

    assert (text.code, text.out) == (code, "the table\n")
    assert "searching\n" in text.err
    assert json.loads(document.out) == {"interrupted": interrupted, "verdict": {}}
    assert (received["objective"], received["passes"], received["trials"]) == ("throughput", None, 60)


CONFIRMED = {"confirmed": True, "interval": [1.2, 1.3], "improved": True}
NO_TIME = {"confirmed": False, "failure": {"kind": "timeout", "reason": "no time"}}


@pytest.mark.parametrize(
    ("verdict", "options", "code"),
    [
        (CONFIRMED, (), 0),
        (CONFIRMED | {"improved": False, "interval": [0.98, 1.02]}, (), 0),
        (CONFIRMED | {"improved": False, "interval": [0.8, 1.6]}, (), 4),
        (CONFIRMED | {"improved": False, "disagreement": "the fastest runs say 22 times"}, (), 4),
        (NO_TIME, (), 5),
        ({"confirmed": False, "failure": None}, ("--confirm", "0"), 0),
    ],
)
def test_the_exit_status_of_a_search_says_whether_it_is_decided(
    passsearch: Run,
    toolchain: None,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    verdict: dict[str, Any],
    options: tuple[str, ...],
    code: int,
) -> None:
    document = {"interrupted": False, "verdict": verdict}
    monkeypatch.setattr("passsearch.api.tune", lambda _, **__: _Result(document, tmp_path))
    assert passsearch("tune", "net.onnx", *options).code == code


def test_options_are_passed_to_the_search(
    passsearch: Run, toolchain: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    received: dict[str, Any] = {}

    def tune(model: str, **options: Any) -> _Result:
        received.update(options, model=model)
        return _Result({"interrupted": False}, tmp_path)

    monkeypatch.setattr("passsearch.api.tune", tune)
    passsearch(
        *(
            "tune",
            "net.onnx",
            "--objective",
            "latency",
            "--objective",
            "memory",
            "--passes",
            "A, B",
            "--seed",
            "7",
        ),
        *("--input", "x:float32[1,3]", "--keep-throughput", "0.9", "--out", "there", "--timeout", "9"),
    )

    assert received["objective"] == ["latency", "memory"]
    assert received["passes"] == ["A", "B"]
    assert received["inputs"]["x"].shape == (1, 3)
    assert (received["seed"], received["keep_throughput"], received["timeout"]) == (7, 0.9, 9.0)
    assert received["out"] == Path("there")


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (KeyboardInterrupt(), 130, "interrupted"),
        (EnvironmentFault("No room.\nMake some."), 3, "No room. Make some."),
        (OSError(28, "No space left on device"), 3, "No space left on device"),
        (ValueError("odd"), 3, "internal error: ValueError: odd"),
    ],
)
def test_every_error_is_one_line(
    passsearch: Run,
    finished: Path,
    monkeypatch: pytest.MonkeyPatch,
    error: BaseException,
    code: int,
    message: str,
) -> None:
    def fail(_: Path) -> None:
        raise error

    monkeypatch.setattr("passsearch.store.read_result", fail)

    assert_refused(passsearch("report", str(finished)), code, message)


def test_debugging_shows_the_traceback(finished: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: Path) -> None:
        raise ValueError("odd")

    monkeypatch.setattr("passsearch.store.read_result", fail)
    monkeypatch.setenv("PASSSEARCH_DEBUG", "1")

    with pytest.raises(ValueError, match="odd"):
        cli.main(["report", str(finished)])


def test_export_names_an_interpreter_that_has_the_compiler(
    passsearch: Run, toolchain: None, finished: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("passsearch.api.TuneResult.export", lambda _, to, minimal: Path(to))
    document = json.loads(DATA.read_text())
    answers = []
    for name in ("stand-in", "gone"):
        document["toolchain"]["name"] = name
        (finished / "result.json").write_text(json.dumps(document))
        answers.append(passsearch("export", str(finished), "--to", str(tmp_path / "a b")).out)
    script = f"'{tmp_path}/a b/build_model.py'"

    assert answers[0].endswith(f"rebuild with: {sys.executable} {script}\n")
    assert answers[1].endswith(f"rebuild with a Python that has TVM 0.16.dev0 and numpy: python {script}\n")


@pytest.mark.parametrize(("script", "status"), [("script_that_works.py", 0), ("script_that_fails.py", 1)])
def test_export_replays_with_the_runs_interpreter(
    passsearch: Run,
    toolchain: None,
    finished: Path,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    script: str,
    status: int,
) -> None:
    document = json.loads(DATA.read_text())
    document["toolchain"]["name"] = "stand-in"
    (finished / "result.json").write_text(json.dumps(document))

    def write(_: object, to: Path, minimal: bool) -> Path:
        Path(to).mkdir()
        shutil.copyfile(PROGRAMS / script, Path(to) / "build_model.py")
        return Path(to)

    monkeypatch.setattr("passsearch.api.TuneResult.export", write)
    answer = passsearch("export", str(finished), "--to", str(tmp_path / "deploy"), "--replay", "--json")

    assert answer.code == status
    assert json.loads(answer.out)["replay_exit_status"] == status
