"""The cases of ``fault_matrix.py``: signals, damaged files, disks, folders and other processes."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, TypeAlias

import psutil

from benchmarks.faults.disturbed_run import LONGEST_S, MADE_AGAIN, Place, read_facts
from passsearch.toolchain import get_toolchain

POLL_S = 0.05
Case: TypeAlias = Callable[[Place], str]
"""Disturbs a run and returns what happened, in words; the same command is given afterwards."""


def at_write(fault: Mapping[str, Any], place: Place, *, extra: Sequence[str] = ()) -> str:
    """Let a fault happen at writes of one start."""
    place.finish(place.start(fault, extra=extra))
    return _ended(place)


def at_each_write(fault: Mapping[str, Any], place: Place) -> str:
    """End a start at its second write, the next one at its third, and so on in turns until one gets to its end."""
    for starts in count(1):
        known = len(place.lines())
        status = place.finish(place.start({**fault, "at": 3 - starts % 2}))
        if status == 0 or starts > 40 or (starts > 20 and len(place.lines()) == known):
            return f"{starts} starts, each ended at a write"
    raise AssertionError


def at_random(number: signal.Signals, seed: int, place: Place, *, pause_s: float = 0.0) -> str:
    """Send a signal to the coordinator at a random time of its run, and SIGCONT after a pause if there is one."""
    assert place.finished
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


def while_compared(number: signal.Signals, seed: int, whom: str, place: Place) -> str:
    """Send a signal while the winner is compared with ONNX Runtime: to the command, or to that engine's processes.

    Args:
        number: The signal.
        seed: Seed of the time after the start of the first engine.
        whom: ``command``; ``rival`` for one process of the engine, ``rivals`` for each.
        place: The run.
    """
    place.rivals = "onnxruntime"
    process = place.start()
    wait_for(lambda: bool(_rivals(place)) or process.poll() is not None)
    time.sleep(random.Random(seed).uniform(0, 3))
    hit: set[int] = set()
    while process.poll() is None and not (hit and whom != "rivals"):
        for each in [process.pid] if whom == "command" else _rivals(place):
            with suppress(ProcessLookupError):
                os.kill(each, number)
                hit.add(each)
        time.sleep(POLL_S)
    place.finish(process)
    assert hit, "there was nothing to hit"
    said = place.compared().partition(";")[0]
    return f"{_ended(place)}, no comparison: {said}" if said else f"{_ended(place)}, with a comparison"


def _rivals(place: Place) -> list[int]:
    """Return the processes of the other engine, which this interpreter has."""
    found = []
    for process in place.processes():
        with suppress(psutil.Error):
            words = process.cmdline()
            if words[:1] == [sys.executable] and "passsearch.engines.worker" in " ".join(words):
                found.append(process.pid)
    return found


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
    wait_for(lambda: len(place.lines()) >= 2 or process.poll() is not None)
    shutil.rmtree(place.home / folder, ignore_errors=True)
    place.finish(process)
    return _ended(place)


def toolchain_removed(place: Place) -> str:
    """Take the interpreter of the toolchain away while a run uses it, and put it back for the next start."""
    file = _registry(place)
    process = place.start()
    wait_for(lambda: len(place.lines()) >= 2 or process.poll() is not None)
    hidden = file.with_name("hidden")
    file.rename(hidden)
    for worker in psutil.Process(process.pid).children():
        worker.kill()
    place.finish(process)
    hidden.rename(file)
    return _ended(place)


def _registry(place: Place) -> Path:
    """Register the toolchain a second time, by a link of this case's own; return the link."""
    place.home.mkdir(parents=True, exist_ok=True)
    python = get_toolchain(place.toolchain).python
    link = place.home / "interpreter"
    link.write_text(f'#!/bin/sh\nexec "{python}" "$@"\n')
    link.chmod(0o755)
    place.data = place.home / "data"
    add = [sys.executable, "-m", "passsearch", "toolchain", "add", "own", "--python", str(link)]
    subprocess.run(add, check=True, env=place.environment(), capture_output=True)
    place.toolchain = "own"
    return link


def disk(folder: str, how: str, place: Place) -> str:
    """Let the disk of a folder be full in the middle of a run, or read-only for the next start."""
    target = place.home / folder
    target.mkdir(parents=True, exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", target], check=True)
    process = place.start()
    wait_for(lambda: len(place.lines()) >= 2 or process.poll() is not None)
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
        assert place.statuses[-1] == 0, place.output()[-200:]
        shutil.rmtree(place.home / f"run{n}")
    twice = Counter(key for file in place.home.glob("cache/*/memory/*.jsonl") for key, _ in read_facts(file))
    doubled = [key for key, times in twice.items() if times > 1 and key[0] not in MADE_AGAIN]
    assert not doubled, f"the cache has facts twice: {doubled}"
    return ", ".join(f"{times} ended with status {status}" for status, times in sorted(ended.items()))


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
    assert "internal error" not in place.output() and "Traceback" not in place.output(), place.output()[-2000:]
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
    return {**signals(), **comparisons(), **damages(), **surroundings()}


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


def comparisons() -> dict[str, Case]:
    """Return the cases that disturb the comparison with another engine."""
    found: dict[str, Case] = {}
    for seed, number in enumerate((signal.SIGKILL, signal.SIGTERM, signal.SIGINT)):
        name = f"{number.name} to the coordinator beside ONNX Runtime"
        found[name] = partial(while_compared, number, seed, "command")
    found["a process of ONNX Runtime is killed"] = partial(while_compared, signal.SIGKILL, 3, "rival")
    found["every process of ONNX Runtime is killed"] = partial(while_compared, signal.SIGKILL, 4, "rivals")
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
