"""Starts the processes of engines and talks to them."""

import json
import os
import signal
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Timer
from typing import Any

from passsearch.core import UNLIMITED, TimeLimit, child_environment
from passsearch.worker import OWN_SIGNALS, bootstrap_code

OPEN_DEADLINE_S, RUN_DEADLINE_S = 1800.0, 900.0


class EngineFailure(Exception):
    """An engine cannot take the network; the text says why.

    Attributes:
        is_accident: True if a signal from outside ended its process, which says nothing about the engine.
        is_mistake: True if an option that the user named is unknown or has an impossible value.
    """

    def __init__(self, text: str, *, is_accident: bool = False, is_mistake: bool = False) -> None:
        super().__init__(text)
        self.is_accident, self.is_mistake = is_accident, is_mistake


@dataclass(frozen=True)
class EngineSpec:
    """An engine and the file that it runs.

    Attributes:
        name: Name in results.
        adapter: Full name of the adapter's module.
        python: Interpreter with the engine.
        model: Model file, or folder of an artifact.
        settings: Keywords of the adapter's ``open_engine``.
        modules: Modules to import before loading is timed.
        environment: Further environment variables.
        about: What results say beside the measurement, such as the pipeline.
        limit: Largest deviation of its outputs, if it may exceed that of the plan.
        own_threads: True if the engine chooses its number of threads, on all cores.
    """

    name: str
    adapter: str
    python: Path
    model: Path
    settings: Mapping[str, Any] = field(default_factory=dict)
    modules: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    about: Mapping[str, Any] = field(default_factory=dict)
    limit: float | None = None
    own_threads: bool = False

    @property
    def artifact_bytes(self) -> int:
        """Size of the files that the engine loads."""
        files = self.model.rglob("*") if self.model.is_dir() else [self.model]
        return sum(file.stat().st_size for file in files if file.is_file())


class EngineProcess:
    """One process with one engine, pinned to as many cores as it has threads if their number is given."""

    def __init__(self, spec: EngineSpec, *, threads: int, log: Path, time_limit: TimeLimit = UNLIMITED) -> None:
        counts = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "TVM_NUM_THREADS")
        limits = {} if spec.own_threads else dict.fromkeys(counts, str(threads))
        environment = {**child_environment(), **limits, **spec.environment}
        self._spec, self._threads, self._time_limit = spec, None if spec.own_threads else threads, time_limit
        with log.open("a") as errors:
            self._process = subprocess.Popen(
                [str(spec.python), "-c", bootstrap_code("passsearch.engines.worker"), str(self._threads or 0)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                cwd=log.parent,  # an empty folder: the user's may have modules of the same names
                env=environment,
                start_new_session=True,
            )

    def open(self, inputs: Path) -> dict[str, Any]:
        """Load the network; see ``passsearch.engines.worker``."""
        spec = self._spec
        request: dict[str, Any] = {"adapter": spec.adapter, "model": str(spec.model), "settings": dict(spec.settings)}
        request |= {"modules": list(spec.modules), "threads": self._threads, "inputs": str(inputs)}
        return self.ask("open", deadline_s=OPEN_DEADLINE_S, **request)

    def ask(self, verb: str, *, deadline_s: float = RUN_DEADLINE_S, **request: Any) -> dict[str, Any]:
        """Return the answer to a request.

        Raises:
            EngineFailure: The engine failed, its process died, or the answer took longer than ``deadline_s`` or the
                time limit.
        """
        deadline_s = max(0.0, min(deadline_s, self._time_limit.left_s()))
        assert self._process.stdin is not None and self._process.stdout is not None
        timer = Timer(deadline_s, self._kill)
        timer.start()
        try:
            self._process.stdin.write(json.dumps({"verb": verb, **request}) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        finally:
            is_late = not timer.is_alive()
            timer.cancel()
        if not line:
            status = self._process.wait()
            if is_late:
                raise EngineFailure(f"no answer to `{verb}` within {deadline_s:.4g} s")
            raise _death(status, verb)
        answer: dict[str, Any] = json.loads(line)
        if "failure" in answer:
            raise EngineFailure(answer["failure"], is_mistake=answer.get("is_mistake", False))
        return answer

    @property
    def is_alive(self) -> bool:
        """True until the process has ended."""
        return self._process.poll() is None

    def _kill(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def close(self) -> None:
        """End the process and everything that it started."""
        self._kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(BrokenPipeError):
                    pipe.close()


def _death(status: int, verb: str) -> EngineFailure:
    """Return the failure of a process that ended in the middle of a request."""
    if status >= 0:
        return EngineFailure(f"the process ended with status {status} at `{verb}`")
    number = signal.Signals(-status)
    return EngineFailure(f"the process was killed by {number.name} at `{verb}`", is_accident=number not in OWN_SIGNALS)
