"""The contract of every dialect's bridge, tested through a worker as the rest of passsearch uses it."""

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

import passsearch
from passsearch.core import BuildOptions, CheckInputs, Pipeline, TensorType
from passsearch.dialects import dialect
from passsearch.dialects.contract import KERNEL_HASHES
from passsearch.errors import UserError, WorkerDied
from passsearch.evaluate import device_lock
from passsearch.export import Deployment, write_deployment
from passsearch.measure import probe
from passsearch.standalone.deployment.linker import find_linker
from passsearch.toolchain import Toolchain, host_target
from passsearch.toolchain import probe as probe_toolchain
from passsearch.worker import Worker


@dataclass(frozen=True)
class Case:
    """One dialect with the passes and targets the tests need.

    Attributes:
        toolchain: A toolchain with the dialect's compiler.
        simplify: A pass that changes a network with a batch norm, and nothing the second time.
        lower: A pass that changes the network after ``simplify``.
        bad: Module of passes that misbehave.
        lacks: A kind of target that the toolchain generates no code for.
    """

    toolchain: Toolchain
    simplify: str
    lower: str
    bad: str
    lacks: str


_CASES = {
    "relay": ("tvm.relay.transform:SimplifyInference", "tvm.relay.transform:FuseOps", "bad_passes", "cuda"),
    "relax": (
        "tvm.relax.transform:DecomposeOpsForInference",
        "tvm.relax.transform:LegalizeOps",
        "bad_relax_passes",
        "vulkan",
    ),
}


@pytest.fixture(scope="module", params=_CASES)
def case(request: pytest.FixtureRequest, toolchain_of: Callable[[str], Toolchain]) -> Case:
    """The case of every dialect; skipped if its toolchain is not installed."""
    return Case(toolchain_of(request.param), *_CASES[request.param])


def start(toolchain: Toolchain, folder: Path, *, target: str | None = None, **rest: Any) -> Worker:
    return Worker(
        toolchain.python,
        bridge=dialect(toolchain.dialect).bridge,
        target=target or host_target(toolchain),
        threads=1,
        log=folder / "worker.log",
        **rest,
    )


def measure_with_both_clocks(
    toolchain: Toolchain, network: Path, *, folder: Path, target: str, device: str
) -> dict[str, float | None]:
    """Return the times that ``events_case.py`` prints."""
    script = Path(__file__).with_name("events_case.py")
    arguments = (dialect(toolchain.dialect).bridge, target, device, network, folder / "built")
    environment = {**os.environ, "PYTHONPATH": str(Path(passsearch.__file__).parents[1])}
    command = [str(toolchain.python), str(script), *map(str, arguments)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    times: dict[str, float | None] = json.loads(done.stdout.splitlines()[-1])
    return times


def load(worker: Worker, network: Path) -> dict[str, Any]:
    source = {"path": str(network), "format": "onnx", "inputs": {}}
    return worker.ask({"verb": "load", "source": source, "summary": True}, deadline_s=120)


def apply(
    worker: Worker, state: str, name: str, factory: str, *, deadline_s: float = 10, **arguments: Any
) -> dict[str, Any]:
    step = {"name": name, "arguments": arguments}
    return worker.ask({"verb": "apply", "state": state, "pass": step, "factory": factory}, deadline_s=deadline_s)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("worker")


@pytest.fixture(scope="module")
def workers(case: Case) -> Iterator[list[Worker]]:
    """The workers of one dialect so far. A start takes a second or two, so the last one serves until a test ends it."""
    started: list[Worker] = []
    yield started
    for worker in started:
        worker.close()


@pytest.fixture
def worker(case: Case, folder: Path, workers: list[Worker]) -> Worker:
    if not workers or not workers[-1].alive:
        workers.append(start(case.toolchain, folder, paths=(str(Path(__file__).parents[1] / "data"),)))
    return workers[-1]


def test_identity_is_the_same_in_every_process(case: Case, worker: Worker, small_network: Path, folder: Path) -> None:
    other = start(case.toolchain, folder)
    try:
        states = [load(process, small_network)["state"] for process in (worker, other)]
        after = [apply(process, states[0], "Simplify", case.simplify)["state"] for process in (worker, other)]
    finally:
        other.close()
    assert states[0] == states[1]
    assert after[0] == after[1] != states[0]


def test_an_imported_ir_file_loads_as_the_same_state(
    case: Case, worker: Worker, small_network: Path, folder: Path
) -> None:
    source = {"path": str(small_network), "format": "onnx", "inputs": {}}
    path = folder / f"imported-{case.toolchain.name}" / "network.json"
    path.parent.mkdir()
    worker.ask({"verb": "import", "source": source, "path": str(path)}, deadline_s=120)
    again = worker.ask({"verb": "load", "source": {"path": str(path), "format": "ir", "inputs": {}}}, deadline_s=120)
    assert again["state"] == load(worker, small_network)["state"]


def test_lowering_alone_builds_what_the_lowest_level_builds(
    case: Case, worker: Worker, small_network: Path, folder: Path
) -> None:
    if dialect(case.toolchain.dialect).builds[0] == BuildOptions():
        pytest.skip("the lowest level of this dialect is mandatory lowering alone")
    state = load(worker, small_network)["state"]
    for name, factory in (("Simplify", case.simplify), ("Lower", case.lower)):
        state = apply(worker, state, name, factory)["state"]
    built = [
        worker.ask(
            {
                "verb": "build",
                "state": state,
                "options": options.to_json(),
                "folder": str(folder / f"lowered-{number}"),
            },
            deadline_s=120,
        )
        for number, options in enumerate((BuildOptions(), dialect(case.toolchain.dialect).builds[0]))
    ]
    assert built[0]["digest"] == built[1]["digest"], "nothing is left to simplify here, so nothing else may change"


def test_equal_ir_makes_equal_files_in_every_process(
    case: Case, worker: Worker, small_network: Path, folder: Path
) -> None:
    other = start(case.toolchain, folder)
    request = {"verb": "build", "options": {"opt_level": 3, "required": [], "disabled": [], "config": {}}}
    try:
        built = [
            process.ask(
                {**request, "state": load(process, small_network)["state"], "folder": str(folder / f"twin-{number}")},
                deadline_s=120,
            )
            for number, process in enumerate((worker, other))
        ]
    finally:
        other.close()
    assert built[0]["digest"] == built[1]["digest"]
    plan = {"rounds": 2, "run_s": 0.001}
    inputs = CheckInputs({"image": TensorType((1, 3, 16, 16), "float32")}).to_json()
    folders = [str(folder / "twin-0"), str(folder / "twin-1")]
    request = {"verb": "measure", "folders": folders, "device": "cpu", "inputs": inputs, "plan": plan}
    answer = worker.ask(request, deadline_s=120)
    assert [len(samples) for samples in answer["samples"]] == [2, 2]
    assert answer["conditions"]["threads"] >= 1


def test_a_pass_with_nothing_to_do_leads_to_the_same_state(case: Case, worker: Worker, small_network: Path) -> None:
    state = load(worker, small_network)["state"]
    once = apply(worker, state, "Simplify", case.simplify)["state"]
    assert apply(worker, once, "Simplify", case.simplify)["state"] == once


def test_the_summary_has_operators_and_shapes(case: Case, worker: Worker, small_network: Path) -> None:
    summary = load(worker, small_network)["summary"]
    kinds = [row[1] for row in summary["operators"]]
    assert {"conv2d", "batch_norm", "relu", "dense"} <= set(kinds)


def test_a_worker_reports_a_state_it_does_not_hold(case: Case, worker: Worker) -> None:
    assert apply(worker, "nowhere", "Simplify", case.simplify) == {"missing": "nowhere"}


def test_a_failing_pass_is_an_answer_and_the_worker_goes_on(case: Case, worker: Worker, small_network: Path) -> None:
    state = load(worker, small_network)["state"]
    answer = apply(worker, state, "Refuse", f"{case.bad}:refuse")
    assert answer["error"]["kind"] == "compile_error" and "refuses" in answer["error"]["reason"]
    assert apply(worker, state, "Simplify", case.simplify)["state"] != state


def test_a_pass_that_edits_its_argument_does_not_change_the_state(
    case: Case, worker: Worker, small_network: Path
) -> None:
    state = load(worker, small_network)["state"]
    before = apply(worker, state, "Simplify", case.simplify)["state"]
    changed = apply(worker, state, "InPlace", f"{case.bad}:in_place")["state"]
    assert changed != state
    assert apply(worker, state, "Simplify", case.simplify)["state"] == before


def test_one_constant_used_twice_and_two_equal_constants_are_two_states(
    case: Case, worker: Worker, small_network: Path
) -> None:
    """The compiler's own hash is equal for both, but its fusion treats them differently."""
    root = load(worker, small_network)["state"]
    states = [apply(worker, root, "Twins", f"{case.bad}:twins", shared=shared)["state"] for shared in (True, False)]
    hashes = [worker.ask({"verb": "hash", "state": state}, deadline_s=10)["hash"] for state in states]
    assert states[0] != states[1]
    assert hashes[0] == hashes[1]
    again = [apply(worker, root, "Twins", f"{case.bad}:twins", shared=shared)["state"] for shared in (True, False)]
    assert again == states
    separate = apply(worker, states[0], "PartTwins", f"{case.bad}:part_twins")["state"]
    assert separate == states[1], "a pass that changes only the sharing changes the state"


def test_states_and_constants_are_shared_through_a_folder(case: Case, small_network: Path, tmp_path: Path) -> None:
    first, second = (start(case.toolchain, tmp_path, states=tmp_path / "states") for _ in range(2))
    try:
        root = load(first, small_network)["state"]
        simple = apply(first, root, "Simplify", case.simplify)
        assert sum(simple["census"].values()) > 0
        assert second.ask({"verb": "hold", "state": simple["state"]}, deadline_s=10) == {"held": True}
        ends = [apply(process, simple["state"], "Lower", case.lower)["state"] for process in (first, second)]
        assert ends[0] == ends[1] != simple["state"]
        request = {"verb": "build", "options": {"opt_level": 0}}
        built = [
            process.ask({**request, "state": ends[0], "folder": str(tmp_path / str(number))}, deadline_s=120)
            for number, process in enumerate((first, second))
        ]
        assert built[0]["digest"] == built[1]["digest"] and built[0]["kernels"] == built[1]["kernels"] != ""
        hashes = [json.loads((tmp_path / str(number) / KERNEL_HASHES).read_text()) for number in range(2)]
        assert hashes[0] == hashes[1] != {}, "each kernel has a hash, the same in every process"
    finally:
        first.close()
        second.close()


@pytest.mark.parametrize(("name", "kind"), [("crash", "crash"), ("hang", "timeout")])
def test_the_death_of_a_worker_has_a_kind(
    case: Case, worker: Worker, small_network: Path, name: str, kind: str
) -> None:
    state = load(worker, small_network)["state"]
    with pytest.raises(WorkerDied) as died:
        apply(worker, state, name, f"{case.bad}:{name}", deadline_s=2 if kind == "timeout" else 10)
    assert died.value.kind == kind
    assert not worker.alive


def test_a_fork_that_is_killed_does_not_lose_the_states(
    case: Case, worker: Worker, small_network: Path, tmp_path: Path
) -> None:
    state = load(worker, small_network)["state"]
    request = {"verb": "build", "state": state, "options": {"opt_level": 3}, "folder": str(tmp_path / "built")}
    with pytest.raises(WorkerDied) as died:
        # Shorter than a build, but long enough for a busy machine to start the fork: before it, the worker is killed.
        worker.ask(request, deadline_s=0.2)
    assert died.value.kind == "timeout"
    assert worker.ask({"verb": "hold", "state": state}, deadline_s=10) == {"held": True}
    assert worker.ask(request, deadline_s=120)["bytes"] > 0


def test_a_cpu_has_no_events_and_emulated_events_agree_with_the_clock(
    case: Case, small_network: Path, tmp_path: Path
) -> None:
    target = host_target(case.toolchain)
    times = measure_with_both_clocks(case.toolchain, small_network, folder=tmp_path, target=target, device="cpu")
    assert times["as_declared"] is None
    assert times["events"] == pytest.approx(times["clock"], rel=0.5)


@pytest.mark.gpu
def test_a_gpu_is_timed_by_its_events(case: Case, small_network: Path, tmp_path: Path) -> None:
    if not (case.toolchain.cuda and probe_toolchain(case.toolchain.python).cuda_device):
        pytest.skip(f"toolchain `{case.toolchain.name}` finds no CUDA device")
    device = probe("cuda:0").device
    lock = device_lock(str(device["uuid"]))
    assert lock is not None
    with FileLock(lock):  # the clock counts what other programs run on the GPU
        times = measure_with_both_clocks(
            case.toolchain, small_network, folder=tmp_path, target=f"cuda -arch={device['arch']}", device="cuda:0"
        )
    assert times["as_declared"] is not None
    assert times["events"] == pytest.approx(times["clock"], rel=0.5)


def test_an_impossible_target_is_the_users_mistake(case: Case, folder: Path) -> None:
    for target in ("nonsense", case.lacks, "llvm -no-such-option=1"):
        with pytest.raises(UserError, match="Impossible target"):
            start(case.toolchain, folder, target=target)


def test_a_cpu_of_another_triple_is_the_users_mistake(case: Case, folder: Path) -> None:
    target = f"llvm -mtriple={case.toolchain.host_triple} -mcpu=cortex-a72"
    with pytest.raises(UserError, match=r"Impossible target .*: LLVM has no CPU `cortex-a72` for .*leave -mcpu out"):
        start(case.toolchain, folder, target=target)


def test_a_worker_leaves_nothing_in_the_working_folder(
    case: Case, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    working_folder = tmp_path / "working"
    working_folder.mkdir()
    monkeypatch.chdir(working_folder)
    start(case.toolchain, folder).close()
    assert list(working_folder.iterdir()) == []


def fake_programs(folder: Path) -> tuple[Path, Path]:
    """A compiler launcher that must not link, and a C compiler that writes down that it did."""
    launcher, compiler = folder / "launcher", folder / "compiler"
    launcher.write_text(f"#!/bin/sh\necho launcher >> {folder}/calls\nexit 1\n")
    compiler.write_text(f'#!/bin/sh\necho compiler >> {folder}/calls\nexec {find_linker()} "$@"\n')
    for program in (launcher, compiler):
        program.chmod(0o755)
    return launcher, compiler


def test_a_launcher_in_cc_does_not_link(
    case: Case, small_network: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    launcher, compiler = fake_programs(tmp_path)
    monkeypatch.setenv("CC", f"{launcher} {compiler}")
    calls, network = tmp_path / "calls", tmp_path / "network.json"
    worker = start(case.toolchain, tmp_path)
    try:
        loaded = load(worker, small_network)
        request = {"verb": "build", "state": loaded["state"], "options": BuildOptions().to_json()}
        answer = worker.ask({**request, "folder": str(tmp_path / "artifact")}, deadline_s=120)
        assert "error" not in answer, answer
        worker.ask({"verb": "save", "state": loaded["state"], "path": str(network)}, deadline_s=10)
        identity = worker.ask({"verb": "hash", "state": loaded["state"]}, deadline_s=10)["hash"]
    finally:
        worker.close()
    assert set(calls.read_text().split()) == {"compiler"}
    calls.unlink()
    deployment = Deployment(
        dialect=dialect(case.toolchain.dialect),
        tvm_version=case.toolchain.tvm_version,
        target=host_target(case.toolchain),
        pipeline=Pipeline(),
        factories={},
        build=BuildOptions(),
        network=network,
        model={"name": "small"},
        inputs=loaded["inputs"],
        ir_hashes=(identity,),
        output_digests=(),
        tolerance=0.0,
    )
    script = write_deployment(tmp_path / "deployment", deployment) / "build_model.py"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [str(case.toolchain.python), str(script), "--check-only"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    assert set(calls.read_text().split()) == {"compiler"}
