"""Runs an exported script as a deployment does: with the compiler's interpreter and without this package."""

import contextlib
import json
import os
import queue
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from passsearch.core import child_environment
from passsearch.worker.limits import MEMORY_SHARE, machine_memory_bytes
from passsearch.worker.scratch import MARK, ScratchFolder, end_processes

# The number of the descriptor, not `sys.stderr`: a notebook or a test replaces that object by one without a descriptor.
_STDERR = 2

LEAST_START_S = 60.0
"""Time that a process has at least to import its libraries."""

_ERRORS_KEPT = 4000
"""Characters of standard error that are kept."""


def run_script(python: Path, script: Path, *, to_stderr: bool = False, log: Path | None = None) -> int:
    """Run a script to its end, pass its output through, and return its exit status.

    Args:
        python: The toolchain's interpreter.
        script: The script to run; its folder is the working folder.
        to_stderr: Sends the script's standard output to standard error.
        log: File that gets all of the script's output instead.
    """
    # PYTHONPATH, PYTHONHOME and the like belong to the user's interpreter; a deployment does not have them.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    command = [str(python), str(script.absolute())]
    options: dict[str, Any] = {"cwd": script.absolute().parent, "env": environment, "check": False}
    if log is not None:
        with log.open("wb") as sink:
            return subprocess.run(command, stdout=sink, stderr=subprocess.STDOUT, **options).returncode
    return subprocess.run(command, stdout=_STDERR if to_stderr else None, **options).returncode


@dataclass(frozen=True)
class WatchedRun:
    """A script that has ended.

    Attributes:
        status: Its exit status, the negative number of the signal that ended it; ``None`` if it took too long.
        output: What it printed to standard output.
        errors: The end of what it printed to standard error.
    """

    status: int | None
    output: str
    errors: str


class ScriptServer:
    """Runs scripts whose processes may crash or hang, in forks of one that has imported their libraries."""

    def __init__(
        self,
        python: Path,
        *,
        modules: Sequence[str],
        threads: int,
        paths: Sequence[Path],
        memory_bytes: int | None = None,
    ) -> None:
        """Start the process; ``run`` starts it again if it has ended.

        Args:
            python: The toolchain's interpreter.
            modules: Modules to import first.
            threads: Number of threads that kernels may use.
            paths: Further folders to import from.
            memory_bytes: Memory that a script may use; a share of the machine's by default.
        """
        memory_bytes = memory_bytes or int(machine_memory_bytes() * MEMORY_SHARE)
        self._settings = {"modules": list(modules), "memory": memory_bytes}
        self._command = [str(python), str(Path(__file__).with_name("script_server.py"))]
        self._scratch = ScratchFolder()
        self._log = self._scratch.path / "server.log"
        self._environment = {**child_environment(), "TVM_NUM_THREADS": str(threads)}
        self._environment |= dict.fromkeys(("TMPDIR", MARK), str(self._scratch.path))
        self._environment["PYTHONPATH"] = os.pathsep.join(map(str, paths))
        self._process: subprocess.Popen[bytes] | None = None
        self._lines: queue.Queue[bytes] = queue.Queue()
        self._reader: threading.Thread | None = None

    def __enter__(self) -> "ScriptServer":
        return self

    def __exit__(self, *_: object) -> None:
        self._end()
        self._scratch.close()

    def run(self, script: Path, *, deadline_s: float) -> WatchedRun:
        """Run a script to its end; its process group is killed after the deadline."""
        output, errors = self._scratch.path / "output", self._scratch.path / "errors"
        for file in (output, errors):
            file.write_bytes(b"")
        request = {"script": str(script.absolute()), "output": str(output), "errors": str(errors)}
        try:
            fork = self._fork(request, max(deadline_s, LEAST_START_S))
            if not fork:
                self._end()
                return WatchedRun(1, "", self._log.read_bytes().decode(errors="replace")[-_ERRORS_KEPT:])
            status = self._answer(deadline_s)
            if status is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(fork, signal.SIGKILL)
                if self._answer(LEAST_START_S) is None:
                    self._end()  # its answer to this script would be read as one to the next
            elif not status:
                self._end()  # the process has ended with the script, and the next run starts another
        except KeyboardInterrupt:
            self._end()
            end_processes(self._scratch.path)
            raise
        texts = [file.read_bytes().decode(errors="replace") for file in (output, errors)]
        return WatchedRun(None if status is None else int(status or 1), texts[0], texts[1][-_ERRORS_KEPT:])

    def _fork(self, request: Mapping[str, str], deadline_s: float) -> int:
        """Return the number of the process that runs a script; 0 if none could be started."""
        process = self._started()
        assert process.stdin is not None
        try:
            process.stdin.write(json.dumps(request).encode() + b"\n")
            process.stdin.flush()
        except BrokenPipeError:
            return 0
        return int(self._answer(deadline_s) or 0)

    def _answer(self, deadline_s: float) -> bytes | None:
        """Return the next line of the process, an empty one if it has ended; ``None`` after the deadline."""
        try:
            return self._lines.get(timeout=deadline_s)
        except queue.Empty:
            return None

    def _started(self) -> "subprocess.Popen[bytes]":
        if self._process is not None and self._process.poll() is not None:
            self._end()
        if self._process is None:
            self._lines = queue.Queue()
            with self._log.open("ab") as sink:
                self._process = subprocess.Popen(
                    self._command,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=sink,
                    env=self._environment,
                    cwd=self._scratch.path,
                    start_new_session=True,
                )
            assert self._process.stdin is not None
            self._process.stdin.write(json.dumps(self._settings).encode() + b"\n")
            self._reader = threading.Thread(target=_read_lines, args=(self._process, self._lines), daemon=True)
            self._reader.start()
        return self._process

    def _end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            if self._reader is not None:
                self._reader.join(timeout=LEAST_START_S)
            for pipe in (self._process.stdin, self._process.stdout):
                if pipe is not None:
                    with contextlib.suppress(BrokenPipeError):
                        pipe.close()
            self._process = None


def _read_lines(process: "subprocess.Popen[bytes]", lines: "queue.Queue[bytes]") -> None:
    assert process.stdout is not None
    for line in process.stdout:
        lines.put(line)
    lines.put(b"")
