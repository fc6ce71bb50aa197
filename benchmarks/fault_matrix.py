"""Injects faults into searches with the real compiler: ``python benchmarks/fault_matrix.py``.

Every case disturbs a run on a tiny network, then gives the same command until it finishes, and once more. It counts:

* facts lost: facts that the disturbed run had on disk and that the finished run lacks, has twice, or has with another
  content, and results that differ from those of an undisturbed start with the same measurements;
* false failures: failures in the log, the fact cache or the result that an undisturbed run does not have;
* orphans: processes of the case that are left when its commands have ended;
* files left: files in the run folder, the cache folder and the folder of temporary files that an undisturbed run does
  not leave. A file ``….damaged``, which keeps what a torn log lost, does not count.

``benchmarks/results/fault_matrix.json`` gets a row for each case, and ``docs/evidence/reliability.md`` the table. Cases
that are in the JSON are not run again, unless ``--again``; ``--case TEXT`` selects cases by their names. Cases that
mount file systems need root.
"""

import argparse
import ast
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
import traceback
import uuid
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import Any, TypeAlias

import psutil
from provenance import provenance, write_part
from tiny_networks import write_network

from passsearch.evaluate import open_session
from passsearch.evaluate.facts import ACCIDENTS, LASTING_FAILURES
from passsearch.frontends import resolve
from passsearch.store import write_json

HERE = Path(__file__).parent
RESULTS, PAGE = HERE / "results" / "fault_matrix.json", HERE.parent / "docs" / "evidence" / "reliability.md"
OPTIONS = ("--objective", "compile_time", "--trials", "1", "--confirm", "0", "--passes", "LegalizeOps")
MARK = "PASSSEARCH_FAULT_CASE"
"""Environment variable by which the processes of a case are found, wherever they moved."""

LONGEST_S, MOST_STARTS, POLL_S, SETTLE_S = 400.0, 4, 0.05, 5.0
HOSTILE_PER_SESSION = 6
ARTIFACT = "^run/artifacts/[0-9a-f]{16}-O[^/.]*(?=/)"
"""Beginning of the path of an artifact's file; a folder that is not finished has a dot in its name."""
MADE_AGAIN = frozenset({"exploring", "explored"})
"""Kinds of facts that a run rightly writes several times."""

Facts: TypeAlias = dict[tuple[str, str], Mapping[str, Any]]
Line: TypeAlias = tuple[tuple[str, str], Mapping[str, Any]]


@dataclass(frozen=True)
class Row:
    """The result of one case; the last four numbers should be 0."""

    injected: str
    outcome: str
    facts_lost: int
    false_failures: int
    orphans: int
    files_left: int
    details: tuple[str, ...] = ()


@dataclass
class Place:
    """The folders and the processes of one case.

    Attributes:
        home: Folder of all the others.
        network: The ONNX file.
        toolchain: Name of the toolchain.
        data: Folder of toolchains, where a case has its own.
        finished: ``home`` of a finished run, for cases that begin with one.
        identity: Value of ``MARK`` in the environment of the case's processes.
        statuses: Exit statuses of the commands so far.
    """

    home: Path
    network: Path
    toolchain: str = "relax"
    data: Path | None = None
    finished: Path | None = None
    identity: str = field(default_factory=lambda: uuid.uuid4().hex)
    statuses: list[int] = field(default_factory=list)

    @property
    def run(self) -> Path:
        """The run folder."""
        return self.home / "run"

    def folders(self) -> tuple[Path, Path, Path]:
        """Return the folders that a command writes to."""
        return self.run, self.home / "cache", self.home / "tmp"

    def start(
        self, fault: Mapping[str, Any] | None = None, *, run: Path | None = None, extra: Sequence[str] = ()
    ) -> "subprocess.Popen[bytes]":
        """Start the command, with or without a fault."""
        (self.home / "tmp").mkdir(parents=True, exist_ok=True)
        environment = {**os.environ, MARK: self.identity}
        environment |= {"XDG_CACHE_HOME": str(self.home / "cache"), "TMPDIR": str(self.home / "tmp")}
        environment |= {"XDG_DATA_HOME": str(self.data)} if self.data else {}
        words = [sys.executable, str(HERE / "fault_driver.py"), json.dumps(fault or {}), "tune", str(self.network)]
        words += ["--toolchain", self.toolchain, *OPTIONS, *extra, "--out", str(run or self.run)]
        with (self.home / "output").open("ab") as output:
            return subprocess.Popen(words, env=environment, stdout=output, stderr=output, start_new_session=True)

    def finish(self, process: "subprocess.Popen[bytes]") -> int:
        """Wait for a command and return its status."""
        self.statuses.append(process.wait(LONGEST_S))
        return self.statuses[-1]

    def resume(self, extra: Sequence[str] = ()) -> int:
        """Give the same command until it finishes; return how many starts that took."""
        for starts in range(1, MOST_STARTS + 1):
            if self.finish(self.start(extra=extra)) == 0:
                return starts
        raise AssertionError(f"the run does not finish: {self.last_line()}")

    def last_line(self) -> str:
        """Return the last line that the commands printed."""
        lines = (self.home / "output").read_text(errors="replace").strip().splitlines()
        return lines[-1] if lines else ""

    def lines(self) -> list["Line"]:
        """Return the facts that are on disk, in the order of the log."""
        return list(read_facts(self.run / "log.jsonl"))

    def facts(self) -> Facts:
        """Return the facts that are on disk."""
        return dict(self.lines())

    def processes(self) -> list[psutil.Process]:
        """Return the processes of this case that run."""
        mark, found = f"{MARK}={self.identity}".encode(), []
        for process in psutil.process_iter():
            with suppress(OSError, psutil.Error):
                environment = Path(f"/proc/{process.pid}/environ").read_bytes().split(b"\0")
                if mark in environment and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
        return found

    def files(self) -> set[str]:
        """Return the files in all folders, by their paths from ``home``."""
        paths = [path for folder in self.folders() for path in folder.rglob("*") if not path.is_dir()]
        # What a torn log lost is kept on purpose.
        names = [str(path.relative_to(self.home)) for path in paths if path.suffix != ".damaged"]
        # A run keeps the artifacts of its baseline and its winner. Which state wins depends on the machine's load, so
        # artifacts have numbers here.
        artifacts = sorted({match[0] for name in names if (match := re.match(ARTIFACT, name))})
        names = [re.sub(ARTIFACT, lambda match: f"run/artifacts/{artifacts.index(match[0])}", name) for name in names]
        # Names in the cache have a digest of the interpreter's path in them, which one case changes.
        return {re.sub("(own|relax)?-[0-9a-f]{16}", "", name) if name[:5] == "cache" else name for name in names}

    def end(self) -> None:
        """End what is left of the processes."""
        for process in self.processes():
            with suppress(psutil.Error):
                process.kill()


Case: TypeAlias = Callable[[Place], str]
"""Disturbs a run and returns what happened, in words; the same command is given afterwards."""


def read_facts(file: Path) -> Iterator[Line]:
    """Yield the facts in the whole lines of a log, with their kinds and keys."""
    for line in file.read_bytes().split(b"\n")[:-1] if file.exists() else ():
        checksum, _, body = line.removesuffix(b"\r").partition(b" ")
        if checksum == b"%08x" % zlib.crc32(body):
            entry = json.loads(body)
            yield (entry["kind"], entry["key"]), entry["fact"]


@dataclass(frozen=True)
class Reference:
    """An undisturbed run."""

    place: Place

    @property
    def failures(self) -> set[tuple[str, str]]:
        """Kinds and keys of the failures of the run."""
        return failures(self.place.facts())

    def check(self, place: Place, lines_before: Sequence[Line]) -> tuple[list[str], list[str]]:
        """Return what is lost and which failures are false, each in words."""
        lines, before = place.lines(), dict(lines_before)
        after = dict(lines)
        lost = [f"missing: {key}" for key in before if key not in after]
        lost += [f"changed: {key}" for key, fact in before.items() if key in after and _differs(key, fact, after[key])]
        # The log only grows, so these are the facts of the later starts.
        lost += [f"twice: {key}" for key in _written_again(before, lines[len(lines_before) :])]
        mine = self.place.facts()
        for key in ("edge", "hash", "load"):
            # The compiler's answers do not depend on the machine's load.
            lost += [f"other {k}" for k, fact in mine.items() if k[0] == key and _answer(fact) != _answer(after.get(k))]
        false = [f"log: {key}" for key in failures(after) - self.failures]
        cached = {key: fact for file in place.home.glob("cache/*/memory/*.jsonl") for key, fact in read_facts(file)}
        false += [f"cache: {key}" for key in failures(cached) - self.failures]
        expected = json.loads((self.place.run / "result.json").read_text())["failed"]
        failed = json.loads((place.run / "result.json").read_text())["failed"]
        false += [f"result: {failure['reason']}" for failure in failed if failure not in expected]
        return lost, false


def failures(facts: Facts) -> set[tuple[str, str]]:
    """Return the keys of failures that hold for later starts."""
    kinds = {key: fact["failure"]["kind"] for key, fact in facts.items() if "failure" in fact}
    return {key for key, kind in kinds.items() if kind in LASTING_FAILURES or kind == "timeout"}


def _written_again(before: Facts, lines: Sequence[Line]) -> list[tuple[str, str]]:
    """Return the keys of facts that were made again although an earlier one holds, each once."""
    latest, again = dict(before), dict[tuple[str, str], None]()
    for key, fact in lines:
        if key in latest and key[0] not in MADE_AGAIN and not _is_accident(latest[key]):
            again[key] = None
        latest[key] = fact
    return list(again)


def _differs(key: tuple[str, str], fact: Mapping[str, Any], later: Mapping[str, Any]) -> bool:
    return key[0] not in MADE_AGAIN and not _is_accident(fact) and fact != later


def _is_accident(fact: Mapping[str, Any] | None) -> bool:
    """Return whether a later start makes a fact again: an accident, or a check of outputs that was cut short."""
    # A check is cut where an inference takes too long beside the reference, which a busy machine may cause.
    return (fact or {}).get("failure", {}).get("kind") in ACCIDENTS or bool((fact or {}).get("is_cut"))


def _answer(fact: Mapping[str, Any] | None) -> Any:
    return {key: (fact or {}).get(key) for key in ("state", "hash", "inputs", "failure")}


def conclusion(result: Mapping[str, Any]) -> Any:
    """Return what a result says, without the times at which it was made."""
    keys, best = ("verdict", "failed", "space", "pareto", "failures", "interrupted"), result["best"]
    return [{key: result.get(key) for key in keys}, best["pipeline"], best["build"]]


def judge(name: str, case: Case, place: Place, reference: Reference) -> Row:
    """Run one case: disturb, give the same command until it finishes, and once more; count what went wrong."""
    problems: list[str] = []
    try:
        outcome = case(place)
        time.sleep(SETTLE_S if place.processes() else 0)
        orphans = place.processes()
        before = place.lines()
        starts = place.resume()
        outcome += f"; finished by {starts} more start{'s' if starts > 1 else ''}"
        result = json.loads((place.run / "result.json").read_text())
        lost, false = reference.check(place, before)
        # Another start finds everything in the log, so it decides as an undisturbed run with these measurements.
        place.resume()
        if conclusion(result) != conclusion(json.loads((place.run / "result.json").read_text())):
            lost.append("another result from the same measurements")
        time.sleep(SETTLE_S if place.processes() else 0)
        orphans += place.processes()
        left = sorted(place.files() - reference.place.files())
        problems = [*lost, *false, *(f"orphan: {process}" for process in orphans), *(f"file: {file}" for file in left)]
        return Row(name, outcome, len(lost), len(false), len(orphans), len(left), tuple(problems))
    finally:
        place.end()


# The faults


def at_write(fault: Mapping[str, Any], place: Place, *, extra: Sequence[str] = ()) -> str:
    """Let a fault happen at writes of one start."""
    place.finish(place.start(fault, extra=extra))
    return _ended(place)


def at_each_write(fault: Mapping[str, Any], place: Place) -> str:
    """End a start at its second write, the next one at its second, and so on until one gets to its end."""
    starts = 0
    while True:
        known = len(place.facts())
        status = place.finish(place.start({**fault, "at": 2 + starts % 2}))
        starts += 1
        if status == 0 or starts > 40 or (starts > 20 and len(place.facts()) == known):
            return f"{starts} starts, each ended at a write"


def at_random(number: signal.Signals, seed: int, place: Place, *, pause_s: float = 0.0) -> str:
    """Send a signal to the coordinator at a random time of its run, and SIGCONT after a pause if there is one."""
    if place.finished is None:
        raise ValueError("a random time of a run needs a finished run, to know how long one takes")
    undisturbed = (place.finished / "run" / "log.jsonl").read_text().splitlines()
    longest_s = max(json.loads(line.partition(" ")[2])["elapsed_s"] for line in undisturbed)
    process = place.start()
    wait_for(lambda: place.run.exists() or process.poll() is not None)
    time.sleep(random.Random(seed).uniform(0, longest_s))
    with suppress(ProcessLookupError):
        os.kill(process.pid, number)
        time.sleep(pause_s)
        os.kill(process.pid, signal.SIGCONT)
    place.finish(process)
    return _ended(place)


def workers_at_random(number: signal.Signals, seed: int, place: Place) -> str:
    """Send a signal to random workers and their forks while a run goes on."""
    rng, process, sent = random.Random(seed), place.start(), 0
    while process.poll() is None and sent < 3:
        time.sleep(rng.uniform(1, 4))
        with suppress(psutil.Error, OSError):
            targets = psutil.Process(process.pid).children(recursive=True)
            if targets:
                os.kill(rng.choice(targets).pid, number)
                sent += 1
    place.finish(process)
    return f"{sent} signals; {_ended(place)}"


def damage(edit: Callable[[bytes], bytes], file: str, place: Place) -> str:
    """Damage a file of a finished run; the same command is given afterwards."""
    assert place.finished
    shutil.copytree(place.finished, place.home, dirs_exist_ok=True)
    for path in place.home.glob(file):
        path.write_bytes(edit(path.read_bytes()))
    return "read again"


def removed(folder: str, place: Place) -> str:
    """Delete a folder while a run uses it."""
    process = place.start()
    wait_for(lambda: len(place.facts()) >= 2 or process.poll() is not None)
    shutil.rmtree(place.home / folder, ignore_errors=True)
    place.finish(process)
    return _ended(place)


def toolchain_removed(place: Place) -> str:
    """Take the interpreter of the toolchain away while a run uses it, and put it back for the next start."""
    file = _registry(place)
    process = place.start()
    wait_for(lambda: len(place.facts()) >= 2 or process.poll() is not None)
    hidden = file.with_name("hidden")
    file.rename(hidden)
    for worker in psutil.Process(process.pid).children():
        worker.kill()
    place.finish(process)
    hidden.rename(file)
    return _ended(place)


def _registry(place: Place) -> Path:
    """Register the toolchain a second time, by a link of this case's own; return the link."""
    from passsearch.toolchain import get_toolchain

    place.home.mkdir(parents=True, exist_ok=True)
    python = get_toolchain(place.toolchain).python
    link = place.home / "interpreter"
    link.write_text(f'#!/bin/sh\nexec "{python}" "$@"\n')
    link.chmod(0o755)
    place.data = place.home / "data"
    environment = {**os.environ, "XDG_DATA_HOME": str(place.data)}
    add = [sys.executable, "-m", "passsearch", "toolchain", "add", "own", "--python", str(link)]
    subprocess.run(add, check=True, env=environment, capture_output=True)
    place.toolchain = "own"
    return link


@contextmanager
def mounted(folder: Path, size: str) -> Iterator[None]:
    """Mount a small file system on a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


def disk(folder: str, how: str, place: Place) -> str:
    """Let the disk of a folder be full in the middle of a run, or read-only for the next start."""
    target = place.home / folder
    target.mkdir(parents=True, exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", target], check=True)
    process = place.start()
    wait_for(lambda: len(place.facts()) >= 2 or process.poll() is not None)
    if how == "full":
        with suppress(OSError), (target / "filler").open("wb") as filler:
            while True:
                filler.write(bytes(4096))
                filler.flush()
    else:
        # A file system with files that are open for writing cannot become read-only, so a new start finds it so.
        process.terminate()
        place.finish(process)
        subprocess.run(["mount", "-o", "remount,ro", target], check=True)
        process = place.start()
    place.finish(process)
    outcome = _ended(place)
    subprocess.run(["mount", "-o", "remount,rw", target], check=False, capture_output=True)
    (target / "filler").unlink(missing_ok=True)
    return outcome


def two_on_one_run(place: Place) -> str:
    """Start a second process on the run folder of one that goes on."""
    first = place.start()
    wait_for(lambda: (place.run / "log.jsonl").exists())
    second = place.finish(place.start())
    place.finish(first)
    return f"the second ended with status {second}, the first with {place.statuses[-1]}"


def several_on_one_cache(number: int, killed: int, place: Place) -> str:
    """Start runs in folders of their own on one fact cache, and kill some of them."""
    processes = [place.start(run=place.home / f"run{n}") for n in range(1, number)] + [place.start()]
    time.sleep(10 if killed else 0)
    for process in processes[:killed]:
        process.kill()
    ended = Counter(process.wait(2 * LONGEST_S) for process in processes)
    for n in range(1, number):  # these finish too
        place.finish(place.start(run=place.home / f"run{n}"))
        assert place.statuses[-1] == 0, place.last_line()
        shutil.rmtree(place.home / f"run{n}")
    twice = Counter(key for file in place.home.glob("cache/*/memory/*.jsonl") for key, _ in read_facts(file))
    doubled = [key for key, times in twice.items() if times > 1 and key[0] not in MADE_AGAIN]
    assert not doubled, f"the cache has facts twice: {doubled}"
    return ", ".join(f"{times} ended with status {status}" for status, times in sorted(ended.items()))


def hostile_rows(behaviours: Sequence[str], place: Place) -> Iterator[Row]:
    """Apply hostile passes in one session, and yield a row for each."""
    environment = {**os.environ, MARK: place.identity, "TMPDIR": str(place.home / "tmp")}
    environment["XDG_CACHE_HOME"] = str(place.home / "cache")
    (place.home / "tmp").mkdir(parents=True)
    words = [sys.executable, str(HERE / "hostile_session.py"), str(place.network), place.toolchain, place.identity]
    try:
        done = subprocess.run([*words, *behaviours], env=environment, capture_output=True, text=True, check=True)
        left = [str(path) for path in (place.home / "tmp").iterdir()]
        for line, behaviour in zip(done.stdout.splitlines(), behaviours, strict=True):
            row = json.loads(line)
            name = f"a pass that {hostile_passes()[behaviour]}"
            yield Row(name, row["outcome"], row["lost"], row["false"], row["orphans"], len(left), tuple(left))
    except subprocess.CalledProcessError as error:
        yield Row(f"hostile passes {behaviours}", "NOT AS EXPECTED", 0, 0, 0, 0, (error.stdout, error.stderr[-2000:]))
    finally:
        place.end()
        shutil.rmtree(place.home, ignore_errors=True)


def hostile_passes() -> dict[str, str]:
    """Return what each hostile pass does, by its name."""
    # The file imports the compiler, which this interpreter lacks.
    tree = ast.parse((HERE / "hostile_passes.py").read_text())
    functions = [each for each in tree.body if isinstance(each, ast.FunctionDef)]
    texts = {each.name: ast.get_docstring(each) or "" for each in functions if each.args.args[0].arg == "module"}
    return {name: text[0].lower() + text[1:].rstrip(".") for name, text in texts.items() if not name.startswith("_")}


def batched(names: Sequence[str], size: int) -> list[Sequence[str]]:
    """Return names in groups of a size."""
    return [names[start : start + size] for start in range(0, len(names), size)]


def wait_for(condition: Callable[[], bool]) -> None:
    """Wait until a condition holds."""
    end = time.monotonic() + LONGEST_S
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(POLL_S)


def _ended(place: Place) -> str:
    status = place.statuses[-1]
    if status == 0:
        return "went on to its end"
    if status < 0:
        return f"ended by {signal.Signals(-status).name}"
    output = (place.home / "output").read_text(errors="replace")
    assert "internal error" not in output and "Traceback" not in output, output[-2000:]
    return f"ended with status {status}"


def _lines(edit: Callable[[list[bytes]], list[bytes]]) -> Callable[[bytes], bytes]:
    return lambda content: b"".join(edit(content.splitlines(keepends=True)))


def _flipped(content: bytes) -> bytes:
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 4]) + content[middle + 1 :]


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "one flipped bit": _flipped,
    "a torn last line": lambda content: content[:-9],
    "the second half cut off": lambda content: content[: len(content) // 2],
    "every line twice": lambda content: content + content,
    "lines in reverse order": _lines(lambda lines: lines[::-1]),
    "garbage between lines": _lines(lambda lines: [part for line in lines for part in (line, b"\0\xff{garbage\n")]),
    "ends of lines of another system": lambda content: content.replace(b"\n", b"\r\n"),
    "no content": lambda _: b"",
}
WHERE = {"run folder": "run", "cache folder": "cache", "folder of temporary files": "tmp"}
ENDING = (signal.SIGKILL, signal.SIGTERM, signal.SIGHUP)


def cases() -> dict[str, Case]:
    """Return all cases by the description of their fault."""
    return {**signals(), **damages(), **surroundings()}


def signals() -> dict[str, Case]:
    """Return the cases that send signals."""
    found: dict[str, Case] = {
        "SIGKILL to the coordinator at every write, the write torn": partial(
            at_each_write, {"tear": True, "signal": signal.SIGKILL}
        ),
        "SIGTERM to the coordinator at every write": partial(at_each_write, {"signal": signal.SIGTERM}),
        "SIGHUP to the coordinator at every write": partial(at_each_write, {"signal": signal.SIGHUP}),
    }
    for number in ENDING:
        for seed in range(4 if number is signal.SIGKILL else 2):
            found[f"{number.name} to the coordinator at a random time ({seed + 1})"] = partial(at_random, number, seed)
    found["SIGSTOP to the coordinator for 20 s"] = partial(at_random, signal.SIGSTOP, 5, pause_s=20.0)
    for whom in ("compiler", "timer"):
        for number in ENDING:
            fault = {"at": "each", "signal": number, "whom": whom}
            found[f"{number.name} to the {whom} at every write"] = partial(at_write, fault)
    for number in ENDING:
        found[f"{number.name} to random workers and forks"] = partial(workers_at_random, number, int(number))
    for whom in ("compiler", "timer"):
        fault = {"at": 6, "signal": signal.SIGSTOP, "whom": whom}
        found[f"SIGSTOP to the {whom}"] = partial(at_write, fault, extra=("--deadline", "20"))
    return found


def damages() -> dict[str, Case]:
    """Return the cases that damage files of a finished run."""
    found: dict[str, Case] = {}
    for what, file in (("log", "run/log.jsonl"), ("fact cache", "cache/*/memory/*.jsonl")):
        found |= {f"{what}: {name}": partial(damage, edit, file) for name, edit in DAMAGES.items()}
    for name in ("result.json", "network.json", "artifacts/*/network.so", "artifacts/reference.npz"):
        found[f"{name} cut in half"] = partial(damage, DAMAGES["the second half cut off"], f"run/{name}")
    return found


def surroundings() -> dict[str, Case]:
    """Return the cases of disks, folders and other processes."""
    found: dict[str, Case] = {}
    for name, folder in WHERE.items():
        for how in ("full", "read-only"):
            found[f"the disk of the {name} becomes {how}"] = partial(disk, folder, how)
    for name in ("run folder", "cache folder", "folder of temporary files"):
        found[f"the {name} is deleted during the run"] = partial(removed, WHERE[name])
    found["the toolchain is deleted during the run, and comes back"] = toolchain_removed
    found["two processes on one run folder"] = two_on_one_run
    found["two runs on one fact cache"] = partial(several_on_one_cache, 2, 0)
    found["ten runs on one fact cache, four of them killed"] = partial(several_on_one_cache, 10, 4)
    return found


def main() -> None:
    """Run cases, write the JSON and the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--case", default="", help="only cases whose description contains this")
    parser.add_argument("--again", action="store_true", help="run cases again that are in the JSON")
    parser.add_argument("--jobs", type=int, default=2, help="cases that run side by side")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--table", action="store_true", help="write the page from the JSON")
    arguments = parser.parse_args()
    if not arguments.table:
        run(arguments.case, again=arguments.again, jobs=arguments.jobs, results=arguments.results)
    if arguments.results == RESULTS:
        write_part(PAGE, "fault_matrix.py", table(json.loads(RESULTS.read_text())))


def run(text: str, *, again: bool, jobs: int, results: Path) -> dict[str, Any]:
    """Run the cases whose description contains a text, and return the document of all rows."""
    document = json.loads(results.read_text()) if results.exists() else {"rows": {}}
    rows, lock = document["rows"], Lock()
    selected = {name: case for name, case in cases().items() if text in name and (again or name not in rows)}
    texts = {behaviour: f"a pass that {what}" for behaviour, what in hostile_passes().items()}
    behaviours = [name for name, what in texts.items() if text in what and (again or what not in rows)]
    with TemporaryDirectory(prefix="faults-") as folder:
        home = Path(folder)
        network = write_network("normalisation", home)
        session = open_session(resolve(str(network), folder=home), toolchain="relax", target=None)
        # Cases may run on several days and machines. Rows without an origin have that of the document.
        today = provenance(session)
        document, origin = {**today, **document}, {key: today[key] for key in ("date", "target")}
        reference = Reference(Place(home / "reference", network))
        reference.place.resume()

        def keep(row: Row, seconds: float) -> None:
            with lock:
                rows[row.injected] = {**asdict(row), "seconds": round(seconds), "origin": origin}
                write_json(results, document)
                print(f"{seconds:4.0f} s  {row}", flush=True)

        def hostile(behaviours: Sequence[str]) -> None:
            begin = time.monotonic()
            for row in hostile_rows(behaviours, Place(home / uuid.uuid4().hex[:8], network)):
                keep(row, (time.monotonic() - begin) / len(behaviours))

        def one(item: tuple[str, Case]) -> None:
            name, case = item
            begin = time.monotonic()
            keep(_judge_in_place(name, case, reference, home=home), time.monotonic() - begin)

        with ThreadPoolExecutor(jobs) as pool:
            # Those of one start first, those of one start for each write last.
            list(pool.map(one, reversed(selected.items())))
            list(pool.map(hostile, batched(behaviours, HOSTILE_PER_SESSION)))
    if all(row.get("origin") == origin for row in rows.values()):
        document |= today
        write_json(results, document)
    return dict(document)


def _judge_in_place(name: str, case: Case, reference: Reference, *, home: Path) -> Row:
    place = Place(home / uuid.uuid4().hex[:8], reference.place.network, finished=reference.place.home)
    if _function(case) is disk and os.geteuid() != 0:
        return Row(name, "skipped: mounting a file system needs root", 0, 0, 0, 0)
    try:
        return judge(name, case, place, reference)
    except Exception:  # noqa: BLE001 -- one case must not end the others
        output = (place.home / "output").read_text(errors="replace")[-1500:] if place.home.exists() else ""
        return Row(name, "NOT AS EXPECTED", 0, 0, 0, 0, (traceback.format_exc()[-1500:], output))
    finally:
        for folder in place.folders():
            subprocess.run(["umount", "--lazy", folder], check=False, capture_output=True)
        shutil.rmtree(place.home, ignore_errors=True)


def _function(case: Case) -> Any:
    return case.func if isinstance(case, partial) else case


def table(document: Mapping[str, Any]) -> str:
    """Return the sums of what went wrong, and the cases of each outcome, as Markdown."""
    wrong = ("facts_lost", "false_failures", "orphans", "files_left")
    names = [*cases(), *(f"a pass that {what}" for what in hostile_passes().values())]
    ordered = [document["rows"][name] for name in names if name in document["rows"]]
    sums = [f"{key.replace('_', ' ')}: {sum(row[key] for row in ordered)}" for key in wrong]
    groups: dict[str, list[str]] = {}
    for row in ordered:
        count = ", ".join(f"{key.replace('_', ' ')} {row[key]}" for key in wrong if row[key])
        outcome = row["outcome"].removesuffix("; finished by 1 more start")
        injected = re.sub(r" \(\d\)$", ", several times", row["injected"])
        group = groups.setdefault(f"{outcome}{'; ' if count else ''}{count}", [])
        group += [injected] if injected not in group else []
    lines = [f"{len(ordered)} cases. {'; '.join(sums)}.", "", "| outcome | injected |", "|---|---|"]
    return "\n".join([*lines, *(f"| {outcome} | {'; '.join(injected)} |" for outcome, injected in groups.items())])


if __name__ == "__main__":
    main()
