"""The child process that holds a compiler. Standard library, numpy and the dialect's bridge; started as a module.

One JSON request a line on standard input, one JSON answer a line on the pipe that standard output was; whatever the
compiler prints goes to standard error. Requests that may kill the process (``build``, ``measure``, …) run in a fork,
so that the states held here outlive them; the fork's process id is told first, for the parent to kill its group.
"""

import contextlib
import ctypes
import json
import os
import resource
import signal
import sys
import time
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, TextIO, TypeAlias

from passsearch.core import BuildOptions, PassSpec, TensorType
from passsearch.dialects.contract import Artifact, Bridge, CompileError, ModelSource, Module, random_inputs
from passsearch.errors import EnvironmentFault, UserError
from passsearch.measure import outputs, rounds, windows
from passsearch.measure.processor import pin
from passsearch.worker.state_cache import StateCache, resident_bytes

Request: TypeAlias = Mapping[str, Any]
Answer: TypeAlias = dict[str, Any]

PR_SET_PDEATHSIG = 1
FORKED = frozenset({"build", "verify", "measure", "consume", "expect", "check"})


class Verbs:
    """Answers requests. Every method named ``do_…`` is one verb."""

    def __init__(self, states: StateCache) -> None:
        self._states = states
        self._bridge = states.bridge

    def do_load(self, request: Request) -> Answer:
        """Import a model file; answers its state, inputs and, on demand, its summary."""
        start = time.perf_counter()
        module = self._bridge.load(_source(request["source"]))
        seconds = time.perf_counter() - start
        inputs = {name: [list(kind.shape), kind.dtype] for name, kind in self._bridge.inputs(module).items()}
        summary = self._bridge.summarize(module).to_json() if request.get("summary") else None
        state, _ = self._states.add(module)
        return {"state": state, "inputs": inputs, "seconds": seconds, "summary": summary}

    def do_import(self, request: Request) -> Answer:
        """Import a model file and write it as the compiler's own, which every other worker loads."""
        self._bridge.save_with_external_weights(self._bridge.load(_source(request["source"])), Path(request["path"]))
        return {}

    def do_hold(self, request: Request) -> Answer:
        """Whether a state is still held here."""
        return {"held": self._states.has(request["state"])}

    def do_apply(self, request: Request) -> Answer:
        """One pass on one state; answers the state it leads to, and the census of one that is new here.

        That a pass changed nothing is told without an identity, unless one is asked for by ``identify``.
        """
        module = self._states.get(request["state"])
        if module is None:
            return {"missing": request["state"]}
        after, seconds = self._applied(module, _step(request["pass"]), told=request)
        if not request.get("identify") and (after is module or self._bridge.unchanged(module, after)):
            return {"state": request["state"], "seconds": seconds}
        state, new = self._states.add(after)
        return {"state": state, "seconds": seconds, **({"census": dict(self._bridge.census(after))} if new else {})}

    def do_build(self, request: Request) -> Answer:
        """Build one state into a folder."""
        module = self._states.get(request["state"])
        if module is None:
            return {"missing": request["state"]}
        return self._build(module, request)

    def do_compile(self, request: Request) -> Answer:
        """Import, apply a whole pipeline and build, as a deployment does; answers the state it leads to."""
        module, apply_s = self._bridge.load(_source(request["source"])), 0.0
        for step in request["passes"]:
            module, seconds = self._applied(module, _step(step), told=step)
            apply_s += seconds
        return {"state": self._states.identity(module), "apply_s": apply_s, **self._build(module, request)}

    def _applied(self, module: Module, step: PassSpec, *, told: Request) -> tuple[Module, float]:
        """The IR after a pass and the seconds that took; the very same where the pass has no place in its phase.

        Asking for the phase is none of a deployment's work, which has only passes that are in theirs.
        """
        phases = told.get("phases")
        if phases and self._bridge.phase(module) not in phases:
            return module, 0.0
        start = time.perf_counter()
        after = self._bridge.apply(module, step, factory=told["factory"])
        return after, time.perf_counter() - start

    def do_census(self, request: Request) -> Answer:
        """What one state consists of, counted."""
        module = self._states.get(request["state"])
        if module is None:
            return {"missing": request["state"]}
        return {"counts": dict(self._bridge.census(module))}

    def do_hash(self, request: Request) -> Answer:
        """The compiler's own hash of one state, constants included: what a deployment can compute by itself."""
        module = self._states.get(request["state"])
        if module is None:
            return {"missing": request["state"]}
        return {"hash": self._bridge.structural_hash(module)}

    def _build(self, module: Module, request: Request) -> Answer:
        start = time.perf_counter()
        options = BuildOptions.from_json(request["options"])
        artifact = self._bridge.build(module, options, Path(request["folder"]))
        seconds = time.perf_counter() - start
        size = {"bytes": artifact.bytes, "plan_bytes": artifact.plan_bytes}
        digests = {"digest": self._bridge.digest(artifact), "kernels": artifact.kernels}
        return {"seconds": seconds, **digests, **size}

    def do_save(self, request: Request) -> Answer:
        """Write one state to a file, constants included."""
        module = self._states.get(request["state"])
        if module is None:
            return {"missing": request["state"]}
        self._bridge.save(module, Path(request["path"]))
        return {"bytes": Path(request["path"]).stat().st_size}

    def do_verify(self, request: Request) -> Answer:
        """Outputs of one artifact against the reference, and what it adds to the memory of this process."""
        before_bytes = resident_bytes()
        executable = self._bridge.open(_artifact(request["folder"]), request["device"])
        answer = outputs.verify(
            executable,
            types=_types(request["inputs"]),
            cases=request["cases"],
            outputs=Path(request["outputs"]),
            reference=Path(request["reference"]) if request.get("reference") else None,
        )
        peak_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        return {**answer, "peak_rss": max(0, peak_bytes - before_bytes)}

    def do_measure(self, request: Request) -> Answer:
        """Sample all artifacts by a plan."""
        plan, types = rounds.plan_of(request["plan"]), _types(request["inputs"])
        executables = [self._bridge.open(_artifact(folder), request["device"]) for folder in request["folders"]]
        return rounds.measure(executables, types=types, plan=plan, cores=pin(self._bridge.threads()))

    def do_consume(self, request: Request) -> Answer:
        """Run all artifacts in long windows while the parent reads its meter."""
        executables = [self._bridge.open(_artifact(folder), request["device"]) for folder in request["folders"]]
        plan = windows.WindowPlan(**request["plan"])
        pin(self._bridge.threads())
        return {"windows": windows.run_windows(executables, types=_types(request["inputs"]), plan=plan)}

    def do_expect(self, request: Request) -> Answer:
        """Digests of one artifact's outputs on the inputs of one seed, for a deployment to compare with."""
        executable = self._bridge.open(_artifact(request["folder"]), request["device"])
        inputs = random_inputs(_types(request["inputs"]), seed=request["seed"])
        return {"expected": outputs.digest(executable.run(inputs))}

    def do_check(self, request: Request) -> Answer:
        """Hold one catalog entry against this compiler; answers the list of what is wrong."""
        home, _, function = request["checker"].partition(":")
        checker: Callable[..., list[str]] = getattr(import_module(home), function)
        return {"problems": checker(**request["arguments"])}


def _source(data: Request) -> ModelSource:
    parameters = Path(data["parameters"]) if "parameters" in data else None
    return ModelSource(Path(data["path"]), data["format"], _types(data["inputs"]), data.get("batch"), parameters)


def _types(data: Mapping[str, Any]) -> dict[str, TensorType]:
    return {name: TensorType(tuple(shape), dtype) for name, (shape, dtype) in data.items()}


def _step(data: Request) -> PassSpec:
    return PassSpec.of(data["name"], **data["arguments"])


def _artifact(folder: str) -> Artifact:
    return Artifact(Path(folder), 0, None)


def _answer(verbs: Verbs, request: Request) -> Answer:
    """The one place where every exception is caught: a request that fails is an answer, not a crash."""
    try:
        answer: Answer = getattr(verbs, f"do_{request['verb']}")(request)
    except UserError as error:
        return {"user_error": str(error)}
    except EnvironmentFault as error:
        return {"environment_fault": str(error)}
    except CompileError as error:
        return {"error": {"kind": "compile_error", "reason": str(error)}}
    except OSError as error:
        return {"error": {"kind": "infra", "reason": str(error)}}
    except MemoryError:
        return {"error": {"kind": "oom", "reason": "out of memory"}}
    except Exception as error:  # noqa: BLE001
        lines = [line for line in str(error).splitlines() if line.strip()]
        reason = f"{type(error).__name__}: {lines[-1].strip() if lines else ''}"
        kind = "oom" if "bad_alloc" in reason else "compile_error"
        return {"error": {"kind": kind, "reason": reason[:300]}}
    return answer


def _answer_in_fork(verbs: Verbs, request: Request, *, pipe: TextIO) -> Answer | None:
    """Answer from a child in its own process group; ``None`` when the child has answered itself."""
    told, tell = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(tell)
        os.setpgid(0, 0)
        _die_with_parent()
        os.read(told, 1)  # ends when the parent has written its line: the answer comes after it
        _write(pipe, _answer(verbs, request))
        os._exit(0)
    with contextlib.suppress(OSError):  # done on both sides, so that the group exists before its id is told
        os.setpgid(child, child)
    _write(pipe, {"forked": child})
    for end in (tell, told):
        os.close(end)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return {"died": os.WTERMSIG(status)}
    return {"died": 0} if os.WEXITSTATUS(status) else None


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _write(pipe: TextIO, answer: Answer) -> None:
    pipe.write(json.dumps(answer) + "\n")
    pipe.flush()


def _import_first(module: str, advice: str) -> None:
    """Import a framework before the compiler: some die the other way round."""
    try:
        import_module(module)
    except Exception as error:
        raise UserError(f"`{sys.executable}` cannot import `{module}` ({error}); {advice}") from error


def main() -> None:
    """Serve requests until standard input closes."""
    pipe = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    _die_with_parent()
    hello = json.loads(sys.stdin.readline())
    home, _, name = hello["bridge"].partition(":")
    start = time.perf_counter()
    try:
        for module, advice in hello["first"].items():
            _import_first(module, advice)
        bridge: Bridge = getattr(import_module(home), name)(hello["target"])
    except UserError as error:
        _write(pipe, {"user_error": str(error)})
        return
    _write(pipe, {"ready": True, "seconds": time.perf_counter() - start})
    folder = Path(hello["states"]) if hello.get("states") else None
    verbs = Verbs(StateCache(bridge, budget_bytes=hello["budget_bytes"], folder=folder))
    for line in sys.stdin:
        request = json.loads(line)
        forked = request["verb"] in FORKED
        answer = _answer_in_fork(verbs, request, pipe=pipe) if forked else _answer(verbs, request)
        if answer is not None:
            _write(pipe, answer)


if __name__ == "__main__":
    main()
