"""A bridge without a compiler, whose every import of a model behaves as its path says."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path


class StubBridge:
    """Stands in for a dialect's bridge."""

    def __init__(self, target):
        if target == "impossible":
            from passsearch.errors import UserError

            raise UserError("no such target")
        if target == "crash":
            os.kill(os.getpid(), signal.SIGSEGV)

    def load(self, source):
        if source.path.name == "crash":
            os.kill(os.getpid(), signal.SIGSEGV)
        if source.path.name == "other-processor":
            os.kill(os.getpid(), signal.SIGILL)
        if source.path.name == "out-of-memory":
            os.kill(os.getpid(), signal.SIGKILL)
        if source.path.name in ("garbage", "forgery"):
            text = "{" if source.path.name == "garbage" else '{"state": "forged"}'
            write_everywhere(text.encode() + b"\n")
        if source.path.name.startswith("write:"):
            write_everywhere(bytes.fromhex(source.path.name.partition(":")[2]))
        if source.path.name == "hang":
            time.sleep(60)
        if source.path.name in GREEDY:
            GREEDY[source.path.name]()
        raise ValueError("a backtrace\nthe cause")


def take_memory(abort=False):
    """Take memory until there is none."""
    blocks = []
    try:
        while True:
            blocks.append(b"x" * (8 << 20))
    except MemoryError:
        if abort:
            os.abort()  # as LLVM does
        raise


def leave_processes():
    """Leave processes in sessions of their own: a child, and a grandchild whose parent has ended."""
    sleep = [sys.executable, "-c", "import time; time.sleep(600)"]
    subprocess.Popen(sleep, start_new_session=True)
    if os.fork() == 0:
        os.setsid()
        subprocess.Popen(sleep)
        os._exit(0)


def write_everywhere(content):
    """Write to all descriptors, one of which is the pipe of answers."""
    for descriptor in range(3, 10):
        with contextlib.suppress(OSError):
            os.write(descriptor, content)


def check(behaviour):
    """Stands in for a check of a catalog entry, which runs in a fork."""
    if behaviour == "crash":
        os.kill(os.getpid(), signal.SIGSEGV)
    if behaviour == "hang":
        time.sleep(60)
    if behaviour == "memory-until-abort":
        take_memory(abort=True)
    if behaviour == "success":
        os._exit(0)
    if behaviour == "exit":
        sys.exit(0)
    if behaviour == "processes":
        leave_processes()
    if behaviour == "slow-end":
        return [end_slowly()]
    return [str(Path.cwd()) if behaviour == "folder" else behaviour]


def end_slowly():
    """Let this process end half a second after its answer, as one does that holds much memory; return its id."""
    end = os._exit

    def end_late(status):
        time.sleep(0.5)
        end(status)

    os._exit = end_late
    return str(os.getpid())


def write_large_file():
    """Write a file larger than any disk."""
    with Path("large").open("wb") as file:
        file.truncate(1 << 50)


GREEDY = {
    "flood": lambda: write_everywhere(b"x" * (300 << 20)),
    "stop": lambda: os.kill(os.getpid(), signal.SIGSTOP),
    "memory": take_memory,
    "large-file": write_large_file,
    "processes": leave_processes,
}
"""What takes more than a worker may have, by the name of the model."""
