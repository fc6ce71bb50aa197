"""Passes that break what they can; the first line of each says how. ``hostile_session.py`` runs them."""

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


def segfault(module):
    """Reads address 0."""
    ctypes.string_at(0)
    return module


def abort(module):
    """Aborts."""
    os.abort()


def end_with_success(module):
    """Ends its process with status 0."""
    os._exit(0)


def exit_politely(module):
    """Calls `sys.exit`."""
    sys.exit(0)


def interrupt(module):
    """Raises KeyboardInterrupt."""
    raise KeyboardInterrupt


def overflow_the_stack(module):
    """Recurses until the stack is full."""
    sys.setrecursionlimit(10**9)
    call = ctypes.CFUNCTYPE(None)(lambda: call())
    call()


def raise_long(module):
    """Raises an error with a text of 50 MB."""
    raise ValueError("x" * 50_000_000)


def raise_unprintable(module):
    """Raises an error whose text cannot be made."""

    class Unprintable(Exception):
        def __str__(self):
            raise RuntimeError("no text")

    raise Unprintable


def raise_escapes(module):
    """Raises an error with escapes of the terminal and NUL."""
    raise ValueError("\x1b[2J\x1b]0;title\x07\0\ud800")


def hang(module):
    """Hangs, and ignores signals that can be ignored."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    time.sleep(3600)


def stop(module):
    """Stops its process by SIGSTOP."""
    os.kill(os.getpid(), signal.SIGSTOP)
    return module


def leave_a_process(module):
    """Leaves a process in a session of its own."""
    subprocess.Popen(SLEEP, start_new_session=True)
    return module


def leave_a_process_and_crash(module):
    """Leaves a process in a session of its own, whose parent has ended, and crashes."""
    if os.fork() == 0:
        os.setsid()
        subprocess.Popen(SLEEP)
        os._exit(0)
    os.abort()


def allocate(module):
    """Allocates memory without end."""
    blocks = []
    while True:
        blocks.append(b"x" * (64 << 20))


def print_without_end(module):
    """Prints 300 MB."""
    for _ in range(300):
        os.write(2, b"x" * (1 << 20))
    return module


def write_to_descriptors(module):
    """Writes a line to all descriptors."""
    return _write(b'{"state": "forged"}\n', module)


def flood_descriptors(module):
    """Writes 300 MB without an end of line to all descriptors."""
    return _write(b"x" * (300 << 20), module)


def _write(content, module):
    for descriptor in range(3, 10):
        with contextlib.suppress(OSError):
            os.write(descriptor, content)
    return module


def close_descriptors(module):
    """Closes all descriptors."""
    os.closerange(0, 100)
    return module


def delete_folder(module):
    """Deletes the working folder and the folder of states."""
    shutil.rmtree(Path.cwd(), ignore_errors=True)
    return module


def change_folder(module):
    """Changes to another folder and hides files that it makes."""
    os.chdir("/")
    os.umask(0o777)
    return module


def write_large_file(module):
    """Writes a file larger than the disk."""
    with Path("large").open("wb") as file:
        file.truncate(1 << 50)
    return module


def return_none(module):
    """Returns nothing."""
    return


def return_text(module):
    """Returns a text."""
    return "module"


def return_empty(module):
    """Returns a module without functions."""
    return tvm.IRModule({})


def crash_later(module):
    """Starts a thread that crashes a moment later."""
    threading.Timer(0.2, os.abort).start()
    return module


def take_descriptors(module):
    """Forbids its process to open files."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))
    return module


PASSES = {
    name: function
    for name, function in dict(globals()).items()
    if callable(function) and getattr(function, "__module__", "") == __name__ and not name.startswith("_")
}
"""All passes by name."""


def factory(behaviour):
    """Return the pass that behaves like this."""

    @tvm.transform.module_pass(opt_level=0, name=behaviour)
    def apply(module, _context):
        return PASSES[behaviour](module)

    return apply
