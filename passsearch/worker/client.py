"""The parent's side of a worker: starts the process, sends requests with deadlines, kills its process group."""

import contextlib
import json
import logging
import math
import os
import secrets
import selectors
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from passsearch.core import child_environment
from passsearch.errors import EnvironmentFault, UserError, WorkerDied
from passsearch.worker.bootstrap import bootstrap_code
from passsearch.worker.failure_log import STACK_SIGNAL
from passsearch.worker.limits import DISK_SHARE, MEMORY_SHARE, free_disk_bytes, machine_memory_bytes
from passsearch.worker.scratch import MARK, ScratchFolder

_log = logging.getLogger(__name__)

START_DEADLINE_S = 120.0
EXIT_REPORT_DEADLINE_S = 10.0
"""Time in which a fork that was killed must be reported to have ended, or one that has answered must end."""

OWN_SIGNALS = (signal.SIGSEGV, signal.SIGABRT, signal.SIGILL, signal.SIGFPE, signal.SIGBUS)
"""Signals that a program brings on itself."""

STACK_WAIT_S = 0.2
"""Time in which a process that does not answer prints its stack."""

STATE_MEMORY_SHARE = 0.4
"""Share of the machine's memory that the states of all workers may fill; beyond it the oldest states are dropped."""

MOST_ANSWER_BYTES = 256 << 20
"""Longest answer; a longer one is not the worker's."""

LOOK_AFTER_S = 5.0
"""Seconds after which a process that waits for an answer shortens the log of what the compiler prints."""

LONGEST_STOP_S = 60.0
"""Seconds after which a process that a signal has stopped, and that gets no processor time, is given up."""

MOST_LOG_BYTES = 16 << 20
"""Size above which the log of what the compiler prints loses its beginning."""

NEAR_LIMIT = 0.8
"""Share of the memory limit from which a death is put down to the limit."""


class Worker:
    """One child process with one compiler. The caller decides about restarts.

    Attributes:
        tvm_version: Version of the TVM that it has imported; empty for another compiler.
    """

    def __init__(
        self,
        python: Path,
        *,
        bridge: str,
        target: str,
        threads: int,
        log: Path,
        paths: tuple[str, ...] = (),
        gpu: str | None = None,
        states: Path | None = None,
        worker_count: int = 1,
        first: Mapping[str, str] = MappingProxyType({}),
        memory_bytes: int | None = None,
        wait: bool = True,
    ) -> None:
        """Start the process and wait until its compiler is imported.

        Args:
            python: The toolchain's interpreter.
            bridge: The dialect's bridge, as ``module:Class``.
            target: The compiler's target.
            threads: Number of threads its kernels may use.
            log: File that collects the compiler's output.
            paths: Absolute import paths, for the user's own passes.
            gpu: UUID of the only GPU the worker may use; ``None`` leaves the choice to the environment.
            states: Folder that workers write states to and read states from; ``None`` keeps states in memory only.
            worker_count: Number of workers that share the memory for states.
            first: Modules to import before the compiler; each value is the advice for a user who lacks the module.
            memory_bytes: Memory that the process, and each of its forks, may use; a share of the machine's by default.
            wait: False to leave the waiting, and its errors, to ``wait_until_ready``.

        Raises:
            UserError: The compiler does not support the target.
            EnvironmentFault: The interpreter or its compiler does not start.
        """
        # An empty working folder of its own: the user's may have files of other people, and compilers write to theirs.
        # TVM makes a cache folder, `.pkl_memoize_py3`, where it is imported, and does not start where it cannot.
        self._scratch, self._log = ScratchFolder(), log
        self._buffer, self._request, self._is_closed = bytearray(), "", False
        memory_bytes = memory_bytes or int(machine_memory_bytes() * MEMORY_SHARE)
        # CUDA's driver reserves memory by the hundred gigabytes that it never uses.
        self._limit_bytes = None if gpu else memory_bytes
        with contextlib.ExitStack() as on_error:
            on_error.callback(self._scratch.close)
            disk_bytes = int(free_disk_bytes(states or log.parent) * DISK_SHARE)
            settings: dict[str, Any] = {"bridge": bridge, "target": target, "first": dict(first)}
            # A process that may use less than the usual share has room for fewer states, or it would end at its limit.
            room_bytes = min(machine_memory_bytes() / worker_count, memory_bytes / MEMORY_SHARE)
            settings["budget_bytes"] = int(room_bytes * STATE_MEMORY_SHARE)
            settings |= {"states": str(states), "disk_bytes": disk_bytes // worker_count} if states is not None else {}
            settings["limits"] = {"file": disk_bytes, **({} if gpu else {"memory": memory_bytes})}
            self._process = _start_process(
                python, threads=threads, log=log, paths=paths, gpu=gpu, working_folder=self._scratch.path
            )
            on_error.callback(self.close)
            _log.info("Started worker %d with `%s` for target `%s`.", self._process.pid, python, target)
            self._python, self.tvm_version = python, ""
            # The process reads them before it imports its compiler.
            with self._start_errors():
                self._send(settings)
            if wait:
                self.wait_until_ready()
            on_error.pop_all()

    def wait_until_ready(self) -> None:
        """Wait until the compiler is imported; see ``__init__`` for the errors."""
        with self._start_errors():
            self.tvm_version = str(self._answer("start", deadline_s=START_DEADLINE_S)["tvm_version"])

    @contextlib.contextmanager
    def _start_errors(self) -> Iterator[None]:
        try:
            yield
        except WorkerDied as error:
            said = _last_line(self._log)
            raise EnvironmentFault(
                f"The compiler in `{self._python}` does not start ({error}); its log `{self._log}` "
                f"{f'ends with `{said}`' if said else 'is empty'}. See: passsearch doctor"
            ) from error

    @property
    def alive(self) -> bool:
        """True if the process runs and accepts requests."""
        return self._process.poll() is None

    def ask(self, request: Mapping[str, Any], *, deadline_s: float) -> dict[str, Any]:
        """Send one request and return its answer.

        Raises:
            WorkerDied: No answer in time (kind ``timeout``), or the process or its fork died (``crash``, ``oom``, or
                ``infra`` where a signal came from outside).
            UserError: The worker refuses the request.
            EnvironmentFault: The toolchain cannot serve the request.
        """
        _log.debug("Worker %d: `%s`, deadline %.0f s.", self._process.pid, request["verb"], deadline_s)
        self._send(request)
        return self._answer(request["verb"], deadline_s=deadline_s)

    def _answer(self, verb: str, *, deadline_s: float) -> dict[str, Any]:
        """Return the answer to the request that was sent; see ``ask`` for the errors."""
        pid, end_s = self._process.pid, time.monotonic() + deadline_s
        answer = self._receive(end_s)
        if answer is None:
            _log.warning("Worker %d is killed: no answer to `%s` within %.0f s.", pid, verb, deadline_s)
            error = _late(pid, f"no answer within {deadline_s:.0f} s")
            _ask_for_stack(pid)
            time.sleep(STACK_WAIT_S)
            self.close()
            raise error
        if "forked" in answer:
            answer = self._receive_from_fork(answer["forked"], end_s=end_s, deadline_s=deadline_s)
        if "user_error" in answer:
            raise UserError(answer["user_error"])
        if "environment_fault" in answer:
            raise EnvironmentFault(answer["environment_fault"])
        return answer

    def kill(self) -> None:
        """Kill the process and everything it started, while another thread may wait for its answer."""
        if self._is_closed:  # another process may have its number now
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def close(self) -> None:
        """Kill the process and everything it started, and delete its working folder."""
        self.kill()
        self._wait()
        self._is_closed = True
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()
        self._scratch.close()

    def _send(self, request: Mapping[str, Any]) -> None:
        assert self._process.stdin is not None
        try:
            self._request = secrets.token_hex(8)
            self._process.stdin.write(json.dumps({**request, "request": self._request}).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise self._exit_error() from None

    def _receive(self, end_s: float, fork: int | None = None) -> dict[str, Any] | None:
        """Return the next answer, or ``None`` if the monotonic clock reaches ``end_s`` first.

        Raises:
            WorkerDied: The process, or the fork that is to answer, was stopped from outside and not continued.
        """
        assert self._process.stdout is not None
        stopped_at = math.inf
        searched = 0  # an answer of many megabytes comes in small parts, each of which is searched once
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            while (end := self._buffer.find(b"\n", searched)) < 0:
                searched = len(self._buffer)
                if searched > MOST_ANSWER_BYTES:
                    return self._parse(b"")
                remaining_s = end_s - time.monotonic()
                # Looked at once more after the end: this process may have been stopped while the answer came.
                if not selector.select(min(max(0.0, remaining_s), LOOK_AFTER_S)):
                    if remaining_s <= 0:
                        return None
                    shorten_log(self._log, most_bytes=MOST_LOG_BYTES)
                    is_stopped = any(map(_is_stopped, (self._process.pid, *([fork] if fork else []))))
                    stopped_at = min(stopped_at, time.monotonic()) if is_stopped else math.inf
                    if time.monotonic() - stopped_at >= LONGEST_STOP_S:
                        _log.warning("Worker %d is killed: it was stopped by a signal.", self._process.pid)
                        self.close()
                        reason = f"the process was stopped by a signal and not continued for {LONGEST_STOP_S:.0f} s"
                        raise WorkerDied(reason, kind="infra")
                    continue
                chunk = os.read(self._process.stdout.fileno(), 1 << 20)
                if not chunk:
                    raise self._exit_error()
                self._buffer += chunk
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        return self._parse(line)

    def _parse(self, line: bytes) -> dict[str, Any]:
        """Return the answer in a line of the pipe; only the server knows the request's own number."""
        try:
            # JSON may begin with blanks, the worker's lines do not.
            answer = json.loads(line) if line.startswith(b"{") else None
        except (ValueError, RecursionError):
            answer = None
        if isinstance(answer, dict) and answer.pop("request", None) == self._request:
            return answer
        # What follows cannot be trusted either: a pass that found the pipe may write more to it.
        self.close()
        raise WorkerDied("something else than the worker wrote to the pipe of its answers", kind="crash")

    def _receive_from_fork(self, fork: int, *, end_s: float, deadline_s: float) -> dict[str, Any]:
        """Return the fork's answer; after the deadline the fork's process group is killed and the worker lives on."""
        answer = self._receive(end_s, fork)
        if answer is None:
            _log.info("Worker %d: its fork is killed, no answer within %.0f s.", self._process.pid, deadline_s)
            error = _late(fork, f"no answer within {deadline_s:.0f} s")
            _ask_for_stack(fork)
            # It may answer or end meanwhile, and only what has not ended is killed.
            if self._receive(time.monotonic() + STACK_WAIT_S, fork) is None:
                self._kill_fork(fork)
            else:
                _wait_for_end(fork)
            raise error
        if "died" in answer:
            error = self._death(answer["died"], peak_bytes=answer["peak_bytes"])
            _log.info("Worker %d: its fork has ended: %s.", self._process.pid, error)
            raise error
        _wait_for_end(fork)
        return answer

    def _kill_fork(self, fork: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(fork, signal.SIGKILL)
        report = self._receive(time.monotonic() + EXIT_REPORT_DEADLINE_S)
        if report is None or "died" not in report:
            # The fork answered just before it was killed, so its answer and the report of its end may both be in the
            # pipe. Later answers could no longer be matched with requests: only a new worker is safe.
            _log.warning("Worker %d is killed: its answers no longer match its requests.", self._process.pid)
            self.close()

    def _exit_error(self) -> WorkerDied:
        """Return the error that says how the process ended, after cleaning up behind it."""
        peak_bytes = self._wait()
        self.close()
        error = self._death(max(0, -self._process.returncode), peak_bytes=peak_bytes)
        _log.warning("Worker %d has ended: %s.", self._process.pid, error)
        return error

    def _wait(self) -> int:
        """Wait until the process has ended; return the most memory that it occupied, 0 if that is not known."""
        # `Popen.wait` does not tell the memory. An earlier `poll` may have waited for the process already.
        try:
            _, status, usage = os.wait4(self._process.pid, 0)
        except ChildProcessError:
            self._process.wait()
            return 0
        self._process.returncode = os.waitstatus_to_exitcode(status)
        return usage.ru_maxrss * 1024  # Linux counts it in KiB

    def _death(self, signal_number: int, *, peak_bytes: int) -> WorkerDied:
        """Return the error for a process that ended by a signal; 0 stands for an exit without one."""
        # An allocation that fails at the limit ends a program in one way or another.
        if self._limit_bytes is not None and peak_bytes >= NEAR_LIMIT * self._limit_bytes:
            used, limit = (f"{value / 1e9:.1f} GB" for value in (peak_bytes, self._limit_bytes))
            return WorkerDied(f"used {used} of memory, the limit is {limit} (--memory)", kind="oom")
        return WorkerDied(_describe_exit(signal_number), kind=_failure_kind(signal_number))


def _wait_for_end(fork: int) -> None:
    """Wait until a fork that has answered has ended, because it gives back memory, that of a GPU too, only then."""
    # It has ended already, or the kernel (OSError) or this build of Python (AttributeError) has no such descriptors.
    with contextlib.suppress(OSError, AttributeError):
        descriptor = os.pidfd_open(fork)
        try:
            with selectors.DefaultSelector() as selector:
                selector.register(descriptor, selectors.EVENT_READ)
                selector.select(EXIT_REPORT_DEADLINE_S)
        finally:
            os.close(descriptor)


def _start_process(
    python: Path, *, threads: int, log: Path, paths: tuple[str, ...], gpu: str | None, working_folder: Path
) -> "subprocess.Popen[bytes]":
    code = bootstrap_code("passsearch.worker.server", paths=paths)
    environment = {**child_environment(), "TVM_NUM_THREADS": str(threads)}
    # Temporary files of the compiler, of its linker and of passes go where they are deleted.
    environment |= dict.fromkeys(("TMPDIR", MARK), str(working_folder))
    # A UUID, because the index of a GPU depends on the order in which CUDA and NVML count.
    environment |= {"CUDA_VISIBLE_DEVICES": gpu} if gpu else {}
    with log.open("ab") as sink:
        return subprocess.Popen(
            [str(python), "-c", code],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=sink,
            env=environment,
            cwd=working_folder,
            start_new_session=True,  # makes it the leader of a process group, which `close` kills as a whole
        )


def _last_line(log: Path) -> str:
    """Return the last line of a log that says something; its folder may be a command's own, and go with it."""
    try:
        lines = log.read_text(errors="replace").splitlines()
    except OSError:
        return ""
    return next((line.strip() for line in reversed(lines) if line.strip()), "")[:200]


def shorten_log(log: Path, *, most_bytes: int) -> None:
    """Reduce a log that is too long to its end; processes that append to it go on there."""
    # It may be missing, or another process may be shortening it.
    with contextlib.suppress(OSError):
        if log.stat().st_size <= most_bytes:
            return
        with log.open("a+b") as file:
            file.seek(-most_bytes // 2, os.SEEK_END)
            end = file.read()
            # Not a new file: the processes have this one open.
            file.truncate(0)
            file.write(end)


def _late(pid: int, reason: str) -> WorkerDied:
    """Return the error for a process that did not answer in time."""
    # A process that is stopped, as SIGSTOP does, waits for somebody outside; that says nothing about a candidate.
    if _is_stopped(pid):
        return WorkerDied(f"{reason}: the process was stopped by a signal", kind="infra")
    return WorkerDied(reason, kind="timeout")


def _ask_for_stack(pid: int) -> None:
    """Have a process that does not answer print to the log where it is; it is killed in any case."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, STACK_SIGNAL)


def _is_stopped(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "Tt"
    return False


def _describe_exit(signal_number: int) -> str:
    """Return the reason for a failure; signal number 0 stands for an exit without a signal."""
    if not signal_number:
        return "exited without an answer"
    # Code for a target with wider vectors than this processor's is the one cause that users meet.
    hint = ": the target has instructions that this processor lacks" if signal_number == signal.SIGILL else ""
    return f"killed by {signal.Signals(signal_number).name}{hint}"


def _failure_kind(signal_number: int) -> str:
    # Nothing here sends SIGKILL before the deadline. If the signal comes anyway, the kernel ran out of memory. All
    # others come from outside too: from a scheduler, a user or a limit.
    if signal_number == signal.SIGKILL:
        return "oom"
    return "crash" if signal_number in (0, *OWN_SIGNALS) else "infra"
