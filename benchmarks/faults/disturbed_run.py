"""A run that a case of ``fault_matrix.py`` disturbs: its commands, facts, files and processes, and what it lost."""

import json
import os
import re
import subprocess
import sys
import uuid
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import psutil

from passsearch.evaluate.facts import ACCIDENTS, LASTING_FAILURES
from passsearch.evaluate.records import RECALLED

DRIVER = Path(__file__).with_name("fault_driver.py")
OPTIONS = ("--objective", "compile_time", "--trials", "1", "--confirm", "0", "--passes", "LegalizeOps")
MARK = "PASSSEARCH_FAULT_CASE"
"""Environment variable by which the processes of a case are found, wherever they moved."""
LONGEST_S, MOST_STARTS = 400.0, 4
ARTIFACT = "^run/artifacts/[0-9a-f]{16}-O[^/.]*(?=/)"
"""Beginning of the path of an artifact's file; a folder that is not finished has a dot in its name."""
MADE_AGAIN = frozenset({"exploring", "explored"})
"""Kinds of facts that a run rightly writes several times."""

Fact: TypeAlias = Mapping[str, Any]
Key: TypeAlias = tuple[str, str]


@dataclass
class Place:
    """The folders and the processes of one case.

    Attributes:
        home: Folder of all the others.
        network: The ONNX file.
        toolchain: Name of the toolchain.
        data: Folder of toolchains, where a case has its own.
        finished: ``home`` of a finished run, for cases that begin with one.
        rivals: The engine that the winner is compared with.
        identity: Value of ``MARK`` in the environment of the case's processes.
        statuses: Exit statuses of the commands so far.
    """

    home: Path
    network: Path
    toolchain: str = "relax"
    data: Path | None = None
    finished: Path | None = None
    rivals: str = "none"
    identity: str = field(default_factory=lambda: uuid.uuid4().hex)
    statuses: list[int] = field(default_factory=list)

    @property
    def run(self) -> Path:
        return self.home / "run"

    def folders(self) -> tuple[Path, Path, Path]:
        """Return the folders that a command writes to."""
        return self.run, self.home / "cache", self.home / "tmp"

    def environment(self) -> dict[str, str]:
        (self.home / "tmp").mkdir(parents=True, exist_ok=True)
        own = {MARK: self.identity, "XDG_CACHE_HOME": str(self.home / "cache"), "TMPDIR": str(self.home / "tmp")}
        return {**os.environ, **own, **({"XDG_DATA_HOME": str(self.data)} if self.data else {})}

    def start(
        self, fault: Mapping[str, Any] | None = None, *, run: Path | None = None, extra: Sequence[str] = ()
    ) -> "subprocess.Popen[bytes]":
        """Start the command, with or without a fault."""
        words = [sys.executable, str(DRIVER), json.dumps(fault or {}), "tune", str(self.network)]
        words += ["--toolchain", self.toolchain, *OPTIONS, *extra, "--rivals", self.rivals]
        words += ["--out", str(run or self.run)]
        environment = self.environment()
        with (self.home / "output").open("ab") as output:
            return subprocess.Popen(words, env=environment, stdout=output, stderr=output, start_new_session=True)

    def finish(self, process: "subprocess.Popen[bytes]") -> int:
        """Wait for a command and return its status."""
        self.statuses.append(process.wait(LONGEST_S))
        return self.statuses[-1]

    def resume(self) -> int:
        """Give the same command until it finishes; return how many starts that took."""
        for starts in range(1, MOST_STARTS + 1):
            if self.finish(self.start()) == 0:
                return starts
        raise AssertionError(f"the run does not finish: {self.output()[-200:]}")

    def output(self) -> str:
        return (self.home / "output").read_text(errors="replace") if self.home.exists() else ""

    def lines(self) -> list[tuple[Key, Fact]]:
        """Return the facts that are on disk, in the order of the log."""
        return list(read_facts(self.run / "log.jsonl"))

    def result(self) -> dict[str, Any]:
        return dict(json.loads((self.run / "result.json").read_text()))

    def compared(self) -> str:
        """Return why the result has no comparison with the other engine; empty if it has one."""
        rivals = self.result()["rivals"]
        row = rivals["engines"].get(self.rivals, {})
        return "" if "ratio" in row else row.get("failure") or rivals["reason"]

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
        # What a torn log lost, and what other engines print, is kept on purpose.
        kept = [path for path in paths if path.suffix != ".damaged" and path.name != "engines.log"]
        names = [str(path.relative_to(self.home)) for path in kept]
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


def read_facts(file: Path) -> Iterator[tuple[Key, Fact]]:
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

    def check(self, place: Place, lines_before: Sequence[tuple[Key, Fact]]) -> tuple[list[str], list[str]]:
        """Return what is lost and which failures are false, each in words."""
        lines, before, mine = place.lines(), dict(lines_before), dict(self.place.lines())
        after = dict(lines)
        lost = [f"missing: {key}" for key in before if key not in after]
        lost += [f"changed: {key}" for key, fact in before.items() if key in after and _differs(key, fact, after[key])]
        # The log only grows, so these are the facts of the later starts.
        lost += [f"twice: {key}" for key in _written_again(before, lines[len(lines_before) :])]
        # The compiler's answers do not depend on the machine's load.
        answers = {key: fact for key, fact in mine.items() if key[0] in ("edge", "hash", "load")}
        lost += [f"other {key}" for key, fact in answers.items() if _answer(fact) != _answer(after.get(key))]
        right = _failures(mine)
        cached = {key: fact for file in place.home.glob("cache/*/memory/*.jsonl") for key, fact in read_facts(file)}
        false = [f"log: {key}" for key in _failures(after) - right]
        false += [f"cache: {key}" for key in _failures(cached) - right]
        expected = self.place.result()["failed"]
        false += [f"result: {each['reason']}" for each in place.result()["failed"] if each not in expected]
        return lost, false


def _failures(facts: Mapping[Key, Fact]) -> set[Key]:
    """Return the keys of failures that hold for later starts."""
    kinds = {key: fact["failure"]["kind"] for key, fact in facts.items() if "failure" in fact}
    return {key for key, kind in kinds.items() if kind in LASTING_FAILURES or kind == "timeout"}


def _written_again(before: Mapping[Key, Fact], lines: Sequence[tuple[Key, Fact]]) -> list[Key]:
    """Return the keys of facts that were made again although an earlier one holds, each once."""
    latest, again = dict(before), dict[Key, None]()
    for key, fact in lines:
        # A build of an earlier run, which the cache has, is built anew: its times say nothing about today.
        is_of_earlier_run = key[0] == "build" and RECALLED in latest.get(key, {})
        if key in latest and key[0] not in MADE_AGAIN and not is_of_earlier_run and not _is_accident(latest[key]):
            again[key] = None
        latest[key] = fact
    return list(again)


def _differs(key: Key, fact: Fact, later: Fact) -> bool:
    return key[0] not in MADE_AGAIN and not _is_accident(fact) and fact != later


def _is_accident(fact: Fact) -> bool:
    """Return whether a later start makes a fact again: an accident, or a check of outputs that was cut short."""
    # A check is cut where an inference takes too long beside the reference, which a busy machine may cause.
    return fact.get("failure", {}).get("kind") in ACCIDENTS or bool(fact.get("is_cut"))


def _answer(fact: Fact | None) -> Any:
    return {key: (fact or {}).get(key) for key in ("state", "hash", "inputs", "failure")}


def conclusion(result: Mapping[str, Any]) -> Any:
    """Return what a result says, without the times at which it was made."""
    keys = ("verdict", "failed", "space", "pareto", "failures", "interrupted", "rivals")
    best = result["best"]
    return [{key: result.get(key) for key in keys}, best["pipeline"], best["build"]]
