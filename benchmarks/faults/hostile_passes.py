"""Passes that break what they can. ``hostile_session.py`` runs them."""

import contextlib
import ctypes
import os
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import tvm

SLEEP = [sys.executable, "-c", "import time; time.sleep(600)"]


def interrupt():
    raise KeyboardInterrupt


def overflow_the_stack():
    sys.setrecursionlimit(10**9)
    call = ctypes.CFUNCTYPE(None)(lambda: call())
    call()


def fail(text):
    raise ValueError(text)


def fail_without_text():
    class Unprintable(Exception):
        def __str__(self):
            raise RuntimeError("no text")

    raise Unprintable


def hang():
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    time.sleep(3600)


def leave_a_process_and_crash():
    if os.fork() == 0:
        os.setsid()
        subprocess.Popen(SLEEP)
        os._exit(0)
    os.abort()


def allocate():
    blocks = []
    while True:
        blocks.append(b"x" * (64 << 20))


def print_without_end():
    for _ in range(300):
        os.write(2, b"x" * (1 << 20))


def write_to_descriptors(content):
    for descriptor in range(3, 10):
        with contextlib.suppress(OSError):
            os.write(descriptor, content)


def change_folder():
    os.chdir("/")
    os.umask(0o777)


def write_large_file():
    with Path("large").open("wb") as file:
        file.truncate(1 << 50)


PASSES = {
    "segfault": ("reads address 0", lambda: ctypes.string_at(0)),
    "abort": ("aborts", os.abort),
    "end_with_success": ("ends its process with status 0", lambda: os._exit(0)),
    "exit_politely": ("calls `sys.exit`", lambda: sys.exit(0)),
    "interrupt": ("raises KeyboardInterrupt", interrupt),
    "overflow_the_stack": ("recurses until the stack is full", overflow_the_stack),
    "raise_long": ("raises an error with a text of 50 MB", lambda: fail("x" * 50_000_000)),
    "raise_unprintable": ("raises an error whose text cannot be made", fail_without_text),
    "raise_escapes": (
        "raises an error with escapes of the terminal and NUL",
        lambda: fail("\x1b[2J\x1b]0;title\x07\0\ud800"),
    ),
    "hang": ("hangs, and ignores signals that can be ignored", hang),
    "stop": ("stops its process by SIGSTOP", lambda: os.kill(os.getpid(), signal.SIGSTOP)),
    "leave_a_process": (
        "leaves a process in a session of its own",
        lambda: subprocess.Popen(SLEEP, start_new_session=True),
    ),
    "leave_a_process_and_crash": (
        "leaves a process in a session of its own, whose parent has ended, and crashes",
        leave_a_process_and_crash,
    ),
    "allocate": ("allocates memory without end", allocate),
    "print_without_end": ("prints 300 MB", print_without_end),
    "write_to_descriptors": (
        "writes a line to all descriptors",
        lambda: write_to_descriptors(b'{"state": "forged"}\n'),
    ),
    "flood_descriptors": (
        "writes 300 MB without an end of line to all descriptors",
        lambda: write_to_descriptors(b"x" * (300 << 20)),
    ),
    "close_descriptors": ("closes all descriptors", lambda: os.closerange(0, 100)),
    "delete_folder": (
        "deletes the working folder and the folder of states",
        lambda: shutil.rmtree(Path.cwd(), ignore_errors=True),
    ),
    "change_folder": ("changes to another folder and hides files that it makes", change_folder),
    "write_large_file": ("writes a file larger than the disk", write_large_file),
    "return_none": ("returns nothing", lambda: None),
    "return_text": ("returns a text", lambda: None),
    "return_empty": ("returns a module without functions", lambda: None),
    "crash_later": ("starts a thread that crashes a moment later", lambda: threading.Timer(0.2, os.abort).start()),
    "take_descriptors": (
        "forbids its process to open files",
        lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3)),
    ),
}
"""What each pass does, in words and in code, by its name."""


def factory(behaviour):
    """Return the pass that behaves like this."""

    @tvm.transform.module_pass(opt_level=0, name=behaviour)
    def apply(module, _context):
        PASSES[behaviour][1]()
        results = {"return_none": None, "return_text": "module", "return_empty": tvm.IRModule({})}
        return results.get(behaviour, module)

    return apply
