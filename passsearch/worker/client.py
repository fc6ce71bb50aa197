"""The parent's side of a worker: start it, ask it, hold it to a deadline, kill its whole process group."""

import contextlib
import json
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from passsearch.errors import EnvironmentFault, UserError, WorkerDied

START_DEADLINE_S = 120.0
STATE_MEMORY_SHARE = 0.4
"""Share of the machine's memory that the states of workers may fill before the oldest are let go."""

# The worker's interpreter has the compiler but not this package. Putting this package's parent folder on its path
# would expose everything installed beside it, so only the package itself is made importable.
_BOOTSTRAP = """
import importlib.util as u, runpy, sys
spec = u.spec_from_file_location("passsearch", {init!r}, submodule_search_locations=[{folder!r}])
sys.modules["passsearch"] = module = u.module_from_spec(spec); spec.loader.exec_module(module)
sys.path[:] = [p for p in sys.path if p] + {paths!r}
runpy.run_module("passsearch.worker.server", run_name="__main__")
"""


class Worker:
    """One child process with one compiler. Restarts are the caller's decision."""

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
        sharers: int = 1,
        first: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """Start the process and wait until its compiler is imported.

        Args:
            python: The toolchain's interpreter.
            bridge: ``module:Class``.
            target: The compiler's target.
            threads: Threads its kernels may use.
            log: File that collects what the compiler prints.
            paths: Extra import paths, for the user's own passes.
            gpu: UUID of the only GPU it may see, whatever its index; ``None`` leaves that to the environment.
            states: Folder that states are written to and read from, for workers that share them.
            sharers: Workers that share the memory for states.
            first: Modules to import before the compiler, each with what to do where there is none.

        Raises:
            UserError: The target is impossible for this compiler.
            EnvironmentFault: The interpreter or its compiler does not start.
        """
        folder = Path(__file__).parents[1]
        code = _BOOTSTRAP.format(init=str(folder / "__init__.py"), folder=str(folder), paths=list(paths))
        environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
        environment |= {"TVM_NUM_THREADS": str(threads), "PYTHONDONTWRITEBYTECODE": "1"}
        environment |= {"CUDA_VISIBLE_DEVICES": gpu} if gpu else {}
        self._log = log
        with log.open("ab") as sink:
            self._process = subprocess.Popen(
                [str(python), "-c", code],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=sink,
                env=environment,
                start_new_session=True,
            )
        self._buffer = b""
        memory_bytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        budget_bytes = int(memory_bytes * STATE_MEMORY_SHARE / sharers)
        hello = {"bridge": bridge, "target": target, "budget_bytes": budget_bytes, "first": dict(first)}
        hello |= {"states": str(states)} if states is not None else {}
        with contextlib.ExitStack() as undo:
            undo.callback(self.close)
            try:
                self.ask(hello, deadline_s=START_DEADLINE_S)
            except WorkerDied as error:
                raise EnvironmentFault(
                    f"The compiler in `{python}` does not start ({error}); last words in `{log}`. "
                    "See: passsearch doctor"
                ) from error
            undo.pop_all()

    @property
    def alive(self) -> bool:
        """Whether the process can still be asked."""
        return self._process.poll() is None

    def ask(self, request: Mapping[str, Any], *, deadline_s: float) -> dict[str, Any]:
        """Send one request and wait for its answer.

        Raises:
            WorkerDied: No answer in time (kind ``timeout``), or the process or its fork died (``crash``, ``oom``).
            UserError: The worker says that the request cannot be.
        """
        assert self._process.stdin is not None
        end = time.monotonic() + deadline_s
        try:
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise self._death() from None
        answer = self._read(end)
        if "forked" in answer:
            answer = self._read_fork(answer["forked"], end=end, deadline_s=deadline_s)
        if "user_error" in answer:
            raise UserError(answer["user_error"])
        if "environment_fault" in answer:
            raise EnvironmentFault(answer["environment_fault"])
        return answer

    def _read_fork(self, child: int, *, end: float, deadline_s: float) -> dict[str, Any]:
        """The fork's answer; past the deadline its group is killed, and the worker itself lives on."""
        answer = self._read(end, overdue=child)
        if "overdue" in answer:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child, signal.SIGKILL)
            if "died" not in self._read(time.monotonic() + 10):
                self.close()  # its answer and its death are both on the way: this worker can no longer be followed
            raise WorkerDied(f"no answer within {deadline_s:.0f} s", kind="timeout")
        if "died" in answer:
            raise WorkerDied(_obituary(answer["died"]), kind=_kind(answer["died"]))
        return answer

    def _read(self, end: float, *, overdue: int | None = None) -> dict[str, Any]:
        assert self._process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            while b"\n" not in self._buffer:
                left = end - time.monotonic()
                if left <= 0 or not selector.select(left):
                    if overdue is not None:
                        return {"overdue": overdue}
                    self.close()
                    raise WorkerDied("no answer in time", kind="timeout")
                chunk = os.read(self._process.stdout.fileno(), 1 << 20)
                if not chunk:
                    raise self._death()
                self._buffer += chunk
        line, self._buffer = self._buffer.split(b"\n", 1)
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _death(self) -> WorkerDied:
        self._process.wait()
        self.close()
        code = self._process.returncode
        died = -code if code < 0 else 0
        return WorkerDied(_obituary(died), kind=_kind(died))

    def close(self) -> None:
        """End the process and everything it started; harmless when it is gone already."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()


def _obituary(died: int) -> str:
    return f"killed by {signal.Signals(died).name}" if died else "exited without an answer"


def _kind(died: int) -> str:
    # Nobody here sends SIGKILL before the deadline: where it comes all the same, the kernel ran out of memory.
    return "oom" if died == signal.SIGKILL else "crash"
