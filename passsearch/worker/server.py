"""The child process that holds a compiler. Needs the standard library, numpy and the dialect's bridge.

Standard input has one JSON request per line; the pipe that standard output was has one JSON answer per line. Everything
the compiler prints goes to standard error. Requests that may kill the process (``build``, ``measure``, …) run in a
fork, so that the cached states survive. The worker announces the fork's process id first, so that the parent can kill
the fork's process group.
"""

import contextlib
import ctypes
import gc
import json
import os
import resource
import signal
import sys
import time
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import TextIO

from passsearch.core import die_with_parent
from passsearch.dialects.contract import Bridge, CompileError
from passsearch.errors import EnvironmentFault, UserError
from passsearch.worker.failure_kinds import failure_kind
from passsearch.worker.failure_log import log_deaths, log_failure, own_line
from passsearch.worker.state_cache import StateCache
from passsearch.worker.verbs import FORKING_VERBS, Answer, Request, StateMissing, Verbs

PR_SET_CHILD_SUBREAPER = 36
"""Number of the option in Linux's ``prctl.h``."""

HAS_ANSWERED = 83
"""Exit status of a fork that has written its answer; 0 is what a pass that ends its process may leave."""

MOST_REASON = 300
"""Longest reason of a failure, in characters; a compiler may print a whole module."""


def _answer(verbs: Verbs, request: Request) -> Answer:
    """Serve a request. The one place that catches every exception: a request that fails is an answer, not a crash."""
    try:
        answer: Answer = getattr(verbs, f"do_{request['verb']}")(request)
    except StateMissing as error:
        return {"missing": error.identity}
    except UserError as error:
        return {"user_error": str(error)}
    except EnvironmentFault as error:
        return {"environment_fault": str(error)}
    except Exception as error:  # noqa: BLE001
        log_failure(error, request)
        kind, reason = _kind_and_reason(error)
        line = own_line(error)
        return {"error": {"kind": kind, "reason": reason[:MOST_REASON] + (f" ({line})" if line else "")}}
    return answer


def _kind_and_reason(error: Exception) -> tuple[str, str]:
    """Return the kind of failure that an exception is, and its reason in one line."""
    if isinstance(error, OSError):
        return "infra", str(error)
    if isinstance(error, MemoryError):
        return "oom", "out of memory"
    # TVM raises memory that has run out as an error like any other.
    if isinstance(error, CompileError):
        return failure_kind(str(error)), str(error)
    # The compiler prefixes its message with a C++ backtrace; the cause is the last line.
    lines = [line for line in str(error).splitlines() if line.strip()]
    return failure_kind(str(error)), f"{type(error).__name__}: {lines[-1].strip() if lines else ''}"


def _answer_in_fork(verbs: Verbs, request: Request, *, pipe: TextIO) -> Answer | None:
    """Serve a request in a child process with its own group; ``None`` if the child has written the answer itself."""
    announced, announce = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(announce)
        os.setpgid(0, 0)
        die_with_parent()
        # Returns when the parent process closes its end, after it has written the child's id. Without this, a quick
        # child answers before its announcement, and every later answer belongs to the wrong request.
        os.read(announced, 1)
        try:
            _write(pipe, _answer(verbs, request), request=request)
            os._exit(HAS_ANSWERED)  # skips the exit handlers, which belong to the parent process
        finally:  # the request called `sys.exit`
            os._exit(1)
    # Both processes set the group, so that it exists before its id is announced, whichever runs first.
    with contextlib.suppress(OSError):
        os.setpgid(child, child)
    _write(pipe, {"forked": child}, request=request)
    for end in (announce, announced):
        os.close(end)
    _, status, usage = os.wait4(child, 0)
    if os.WIFEXITED(status) and os.WEXITSTATUS(status) == HAS_ANSWERED:
        return None
    # Linux counts memory in KiB.
    return {"died": os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0, "peak_bytes": usage.ru_maxrss * 1024}


def _end_leftovers() -> None:
    """End the processes that a request left behind, which would disturb later measurements."""
    with contextlib.suppress(ChildProcessError):  # the usual case: this process has no children
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        # Their own children become this process's when they end.
        while children := _children():
            for child in children:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)


def _children() -> list[int]:
    """Return the processes whose parent is this one, which orphans of its descendants become too."""
    children = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # processes end meanwhile
            # The second field is the program's name in parentheses, which may hold anything.
            parent = int(status.read_text(errors="replace").rpartition(")")[2].split()[1])
            children += [int(status.parent.name)] if parent == os.getpid() else []
    return children


def _set_limits(limits: Mapping[str, int]) -> None:
    """Bound the memory and the size of one file of this process, and of each process that it starts."""
    names = {"memory": resource.RLIMIT_DATA, "file": resource.RLIMIT_FSIZE}
    for name, most in limits.items():
        _, hard = resource.getrlimit(names[name])
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(names[name], (most, hard))


def _write(pipe: TextIO, answer: Answer, *, request: Request) -> None:
    # The number of the request shows that this is its answer and not what a pass wrote to the pipe.
    pipe.write(json.dumps({**answer, "request": request.get("request")}) + "\n")
    pipe.flush()


def _import_first(module: str, advice: str) -> None:
    """Import a framework before the compiler, because some frameworks crash when the compiler is loaded first."""
    try:
        import_module(module)
    except Exception as error:
        raise UserError(f"`{sys.executable}` cannot import `{module}` ({error}); {advice}") from error


def _import_bridge(name: str) -> type[Bridge]:
    """Return the class ``module:Class`` of a bridge."""
    module, _, bridge = name.partition(":")
    # A compiler's modules make many objects that all stay. Collecting among them takes a tenth of a start, and would
    # copy their pages in every fork.
    gc.disable()
    try:
        return getattr(import_module(module), bridge)  # type: ignore[no-any-return]
    finally:
        gc.freeze()
        gc.enable()


def _serve(verbs: Verbs, *, pipe: TextIO) -> None:
    for line in sys.stdin:
        request = json.loads(line)
        forks = request["verb"] in FORKING_VERBS
        answer = _answer_in_fork(verbs, request, pipe=pipe) if forks else _answer(verbs, request)
        _end_leftovers()
        # Before the answer, because a measurement may begin with it.
        verbs.release()
        if answer is not None:
            _write(pipe, answer, request=request)


def main() -> None:
    """Serve requests until standard input closes."""
    # The compiler and its libraries print to descriptor 1 whenever they like. Answers get a copy of the pipe, and
    # descriptor 1 becomes standard error.
    pipe = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    die_with_parent()
    # Orphans of passes become this process's children, wherever they moved; see `_end_leftovers`.
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)
    settings = json.loads(sys.stdin.readline())
    _set_limits(settings.get("limits", {}))
    start = time.perf_counter()
    try:
        for framework, advice in settings["first"].items():
            _import_first(framework, advice)
        bridge = _import_bridge(settings["bridge"])(settings["target"])
    except UserError as error:
        _write(pipe, {"user_error": str(error)}, request=settings)
        return
    log_deaths()  # after the compiler is loaded, which sets handlers of signals of its own
    version = getattr(sys.modules.get("tvm"), "__version__", "")
    _write(pipe, {"ready": True, "seconds": time.perf_counter() - start, "tvm_version": version}, request=settings)
    folder = Path(settings["states"]) if settings.get("states") else None
    states = StateCache(
        bridge, budget_bytes=settings["budget_bytes"], folder=folder, disk_bytes=settings.get("disk_bytes")
    )
    _serve(Verbs(states), pipe=pipe)


if __name__ == "__main__":
    main()
