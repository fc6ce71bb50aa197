"""The child process that holds a compiler. Needs the standard library, numpy and the dialect's bridge.

Standard input has one JSON request per line; the pipe that standard output was has one JSON answer per line. Everything
the compiler prints goes to standard error. Requests that may kill the process (``build``, ``measure``, …) run in a
fork, so that the cached states survive. The worker announces the fork's process id first, so that the parent can kill
the fork's process group.
"""

import contextlib
import ctypes
import json
import math
import os
import resource
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from importlib import import_module
from pathlib import Path
from typing import Any, TextIO, TypeAlias

from passsearch.core import (
    COMPILE_PARTS,
    CONSTANTS,
    FOLDING,
    MAIN,
    PASSES,
    BuildOptions,
    Case,
    DeclaredInput,
    PassSpec,
    TensorType,
    resolve_inputs,
)
from passsearch.dialects.contract import (
    KERNEL_COSTS,
    KERNEL_HASHES,
    ArgumentCopies,
    Artifact,
    Bridge,
    CompileError,
    Executable,
    KernelExecutable,
    ModelSource,
    Module,
    random_inputs,
)
from passsearch.errors import EnvironmentFault, UserError
from passsearch.measure import kernels, outputs, rounds, windows
from passsearch.measure.mixture import Mixture
from passsearch.measure.processor import pin_process
from passsearch.worker.failure_kinds import failure_kind
from passsearch.worker.state_cache import StateCache, resident_bytes

Request: TypeAlias = Mapping[str, Any]
Answer: TypeAlias = dict[str, Any]

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
"""Numbers of options in Linux's ``prctl.h``."""

HAS_ANSWERED = 83
"""Exit status of a fork that has written its answer; 0 is what a pass that ends its process may leave."""

MOST_REASON = 300
"""Longest reason of a failure, in characters; a compiler may print a whole module."""

FORKING_VERBS = frozenset({"build", "verify", "measure", "consume", "expect", "check", "variants", "places", "profile"})
"""Verbs that run in a fork, because they run code that may crash or hang: kernels, or the compiler's back end."""


class _StateMissing(Exception):
    """A request names a state that is neither in memory nor on disk; the caller reaches it again by its passes."""

    def __init__(self, identity: str) -> None:
        super().__init__(identity)
        self.identity = identity


class Verbs:
    """The requests that a worker serves. Every method named ``do_…`` is one verb."""

    def __init__(self, states: StateCache) -> None:
        self._states = states
        self._bridge = states.bridge

    def do_load(self, request: Request) -> Answer:
        """Import a model file; answers its state, inputs and, on demand, its summary."""
        start = time.perf_counter()
        source = _source(request["source"])
        module = self._bridge.load(source)
        seconds = time.perf_counter() - start
        answer = {"seconds": seconds, "summary": None, **self._calls(module, source)}
        if request.get("summary"):
            searched = [case.function or MAIN for case in source.cases] or [source.function or MAIN]
            others = [name for name in self._bridge.functions(source) if name not in searched]
            answer |= {"summary": self._bridge.summarize(module).to_json(), "other_functions": others}
        state, _ = self._states.add(module)
        return {"state": state, **answer}

    def _calls(self, module: Module, source: ModelSource) -> Answer:
        """Return the inputs of a network, and its cases where it has several.

        Raises:
            UserError: A case does not state all sizes that stay symbolic.
        """
        if not source.cases:
            return {"inputs": _types_to_json(self._bridge.inputs(module))}
        typed = [replace(case, inputs=self._inputs(module, case, batch=source.batch)) for case in source.cases]
        inputs = {case.full_name(name): kind for case in typed for name, kind in case.inputs.items()}
        return {"inputs": _types_to_json(inputs), "cases": [case.to_json() for case in typed]}

    def _inputs(self, module: Module, case: Case, *, batch: int | None) -> Mapping[str, TensorType]:
        inputs = self._bridge.inputs(module, case.entry)
        if not case.is_symbolic:
            return inputs
        declared = [DeclaredInput(name, kind.shape, kind.dtype) for name, kind in inputs.items()]
        return resolve_inputs(declared, types=case.inputs, batch=batch)

    def do_import(self, request: Request) -> Answer:
        """Import a model file and write it in the compiler's own format, which every other worker loads."""
        self._bridge.save_with_external_weights(self._bridge.load(_source(request["source"])), Path(request["path"]))
        return {}

    def do_hold(self, request: Request) -> Answer:
        """Answer whether this worker can return a state without applying passes."""
        return {"held": self._states.has(request["state"])}

    def do_apply(self, request: Request) -> Answer:
        """Apply one pass to one state; answers the resulting state, with operator counts if it is new here."""
        module = self._module(request)
        after, seconds = self._apply(module, _pass(request["pass"]), request=request)
        # Hashing takes much longer than this comparison, and most passes change nothing. `identify` forces hashing.
        if not request.get("identify") and (after is module or self._bridge.is_same_state(module, after)):
            return {"state": request["state"], "seconds": seconds}
        state, is_new = self._states.add(after)
        # Recorded runs have the operator counts under the key `census`.
        return {
            "state": state,
            "seconds": seconds,
            **({"census": dict(self._bridge.op_counts(after))} if is_new else {}),
        }

    def do_build(self, request: Request) -> Answer:
        """Build one state into a folder."""
        return self._build(self._module(request), request)

    def do_compile(self, request: Request) -> Answer:
        """Import, apply a whole pipeline and build, as a deployment does; answers the final state."""
        module, apply_s = self._bridge.load(_source(request["source"])), dict.fromkeys(COMPILE_PARTS, 0.0)
        for step in request["passes"]:
            module, seconds = self._apply(module, _pass(step), request=step)
            apply_s[CONSTANTS if step["name"] == FOLDING else PASSES] += seconds
        built = self._build(module, request)
        parts_s = {part: seconds + built["parts_s"].get(part, 0.0) for part, seconds in apply_s.items()}
        state = self._states.identity(module)
        return {"state": state, "apply_s": sum(apply_s.values()), **built, "parts_s": parts_s}

    def do_census(self, request: Request) -> Answer:
        """Answer the operator counts of one state."""
        return {"counts": dict(self._bridge.op_counts(self._module(request)))}

    def do_share(self, request: Request) -> Answer:
        """Write one state for the other workers."""
        self._module(request)
        self._states.share(request["state"])
        return {}

    def do_hash(self, request: Request) -> Answer:
        """Answer the compiler's own hash of one state, constants included; a deployment can compute the same hash."""
        return {"hash": self._bridge.structural_hash(self._module(request))}

    def do_save(self, request: Request) -> Answer:
        """Write one state to a file, constants included."""
        self._bridge.save(self._module(request), Path(request["path"]))
        return {"bytes": Path(request["path"]).stat().st_size}

    def do_verify(self, request: Request) -> Answer:
        """Compare one artifact's outputs with the reference; answers also the memory it adds here and on the device."""
        before_bytes, free_bytes = resident_bytes(), self._bridge.free_device_bytes(request["device"])
        executable = self._open(request["folder"], request)
        answer = outputs.verify(
            executable,
            types=_types(request["inputs"]),
            cases=request["cases"],
            outputs=Path(request["outputs"]),
            reference=Path(request["reference"]) if request.get("reference") else None,
            longest_s=request.get("longest_s") or math.inf,
        )
        peak_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024  # Linux counts it in KiB
        # The executable still holds the memory that it ran in: TVM's allocator returns none.
        left_bytes = self._bridge.free_device_bytes(request["device"])
        taken_bytes = 0 if free_bytes is None or left_bytes is None else free_bytes - left_bytes
        # Less than none was taken where another program gave back memory meanwhile.
        device_bytes = taken_bytes if taken_bytes > 0 else None
        return {**answer, "peak_rss": max(0, peak_bytes - before_bytes), "device_bytes": device_bytes}

    def do_measure(self, request: Request) -> Answer:
        """Time all artifacts by a plan."""
        plan, types = rounds.plan_from_json(request["plan"]), _types(request["inputs"])
        executables = [self._open(folder, request) for folder in request["folders"]]
        return rounds.measure(executables, types=types, plan=plan, cores=pin_process(self._bridge.threads()))

    def do_kernels(self, request: Request) -> Answer:
        """List the kernels of a state that are not scheduled yet, and the size of its constants."""
        # Not in a fork: the next request is about the same state, which is then in memory.
        module = self._module(request)
        kernels_of_state = [asdict(kernel) for kernel in self._bridge.kernels(module, request["weights"])]
        return {"kernels": kernels_of_state, "constant_bytes": self._bridge.constant_bytes(module)}

    def do_regions(self, request: Request) -> Answer:
        """List the regions of a state that one pass decides on one by one."""
        return {"regions": _function(request["function"])(self._module(request))}

    def do_variants(self, request: Request) -> Answer:
        """Schedule one kernel of a state in several ways, and time each that computes what the first one computes."""
        cores = pin_process(self._bridge.threads())
        kernel = self._bridge.isolate(self._module(request), request["kernel"])
        copies = self._bridge.argument_copies(request["cold_bytes"])
        answers = [self._variant(kernel, step, copies) for step in request["steps"]]
        # Many settings lead to one schedule, which is built and timed once.
        distinct = {answer.digest: answer for answer in answers if not isinstance(answer, str)}
        build_s = {digest: _seconds_of(executable.build) for digest, executable in distinct.items()}
        expected = next(iter(distinct.values())).outputs() if distinct else []
        agreeing = [
            executable
            for executable in distinct.values()
            if outputs.largest_deviation(executable.outputs(), expected) <= request["limit"]
        ]
        samples = kernels.time_variants(agreeing, kernels.VariantPlan(**request["plan"]), cores=cores)
        times = {executable.digest: runs for executable, runs in zip(agreeing, samples, strict=True)}
        return {"variants": [_variant_answer(answer, times, build_s) for answer in answers]}

    def do_places(self, request: Request) -> Answer:
        """Time all kernels of artifacts, which run in turns, where the network calls them."""
        executables = [self._open(folder, request) for folder in request["folders"]]
        cores = pin_process(self._bridge.threads())
        plan, types = kernels.PlacePlan(**request["plan"]), _types(request["inputs"])
        places = kernels.time_places(executables, plan, types=types, cores=cores)
        return {"places": [each and asdict(each) for each in places]}

    def do_profile(self, request: Request) -> Answer:
        """Time every call of artifacts, which run in turns, and their whole inferences."""
        executables = [self._open(folder, request) for folder in request["folders"]]
        cores = pin_process(self._bridge.threads())
        plan, types = kernels.PlacePlan(**request["plan"]), _types(request["inputs"])
        profiles = kernels.profile_networks(executables, plan, types=types, cores=cores)
        return {"profiles": [profile and asdict(profile) for profile in profiles]}

    def _variant(self, kernel: Module, step: Request, copies: ArgumentCopies) -> KernelExecutable | str:
        """Return a kernel as one pass schedules it, or the reason why that failed."""
        try:
            scheduled, _ = self._apply(kernel, _pass(step["pass"]), request=step)
            return self._bridge.open_kernel(scheduled, copies)
        except CompileError as error:
            return str(error)

    def do_consume(self, request: Request) -> Answer:
        """Run all artifacts in long windows while the parent reads its meter."""
        executables = [self._open(folder, request) for folder in request["folders"]]
        plan = windows.WindowPlan(**request["plan"])
        pin_process(self._bridge.threads())
        return {"windows": windows.run_windows(executables, types=_types(request["inputs"]), plan=plan)}

    def do_expect(self, request: Request) -> Answer:
        """Answer digests of one artifact's outputs on the inputs of one seed, for a deployment to compare with."""
        executable = self._open(request["folder"], request)
        inputs = random_inputs(_types(request["inputs"]), seed=request["seed"])
        return {"expected": outputs.digest(executable.run(inputs))}

    def do_check(self, request: Request) -> Answer:
        """Check one catalog entry against this compiler; answers the list of problems."""
        return {"problems": _function(request["checker"])(**request["arguments"])}

    def _module(self, request: Request) -> Module:
        module = self._states.get(request["state"])
        if module is None:
            raise _StateMissing(request["state"])
        return module

    def _apply(self, module: Module, step: PassSpec, *, request: Request) -> tuple[Module, float]:
        """Return the IR after a pass and the seconds it took; returns ``module`` itself if its phase excludes the pass.

        The phase check is not timed: a deployment applies only passes that fit the phase, so it needs no check.
        """
        phases = request.get("phases")
        if phases and self._bridge.phase(module) not in phases:
            return module, 0.0
        start = time.perf_counter()
        after = self._bridge.apply(module, step, factory=request["factory"])
        return after, time.perf_counter() - start

    def _build(self, module: Module, request: Request) -> Answer:
        start = time.perf_counter()
        options = BuildOptions.from_json(request["options"])
        artifact = self._bridge.build(module, options, Path(request["folder"]))
        seconds = time.perf_counter() - start
        size = {"bytes": artifact.bytes, "plan_bytes": artifact.plan_bytes}
        digests = {"digest": self._bridge.digest(artifact), "kernels": artifact.kernels}
        (artifact.folder / KERNEL_HASHES).write_text(json.dumps(artifact.kernel_hashes()))
        costs = {name: asdict(cost) for name, cost in artifact.kernel_costs().items()}
        (artifact.folder / KERNEL_COSTS).write_text(json.dumps(costs))
        return {"seconds": seconds, "parts_s": dict(artifact.parts_s), **digests, **size}

    def _open(self, folder: str, request: Request) -> Executable:
        # `open` reads the folder only; the size and the plan of an artifact are of interest when it is built.
        network = self._bridge.open(Artifact(Path(folder), 0, None), request["device"])
        cases = [Case.from_json(case) for case in request.get("calls", ())]
        return Mixture(network, cases) if cases else network


def _function(text: str) -> Callable[..., Any]:
    """Return the function that ``module:function`` names."""
    module, _, name = text.partition(":")
    function: Callable[..., Any] = getattr(import_module(module), name)
    return function


def _seconds_of(work: Callable[[], None]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def _variant_answer(
    variant: KernelExecutable | str, times: Mapping[str, Sequence[float]], build_s: Mapping[str, float]
) -> Answer:
    """Return the fastest run of a variant, with all runs and the time that its code took to generate."""
    if isinstance(variant, str):
        return {"reason": variant}
    about = {"digest": variant.digest, "build_s": round(build_s[variant.digest], 4)}
    if variant.digest not in times:
        return {**about, "reason": "other outputs than the first variant"}
    samples = times[variant.digest]
    return {**about, "seconds": min(samples), "samples_s": [float(f"{value:.4g}") for value in samples]}


def _source(data: Request) -> ModelSource:
    parameters = Path(data["parameters"]) if "parameters" in data else None
    cases = tuple(Case.from_json(case) for case in data.get("cases", ()))
    return ModelSource(
        Path(data["path"]),
        data["format"],
        _types(data["inputs"]),
        data.get("batch"),
        parameters,
        function=data.get("function", ""),
        cases=cases,
    )


def _types(data: Mapping[str, Any]) -> dict[str, TensorType]:
    return {name: TensorType(tuple(shape), dtype) for name, (shape, dtype) in data.items()}


def _types_to_json(types: Mapping[str, TensorType]) -> Answer:
    return {name: [list(kind.shape), kind.dtype] for name, kind in types.items()}


def _pass(data: Request) -> PassSpec:
    return PassSpec.of(data["name"], **data["arguments"])


def _answer(verbs: Verbs, request: Request) -> Answer:
    """Serve a request. The one place that catches every exception: a request that fails is an answer, not a crash."""
    try:
        answer: Answer = getattr(verbs, f"do_{request['verb']}")(request)
    except _StateMissing as error:
        return {"missing": error.identity}
    except UserError as error:
        return {"user_error": str(error)}
    except EnvironmentFault as error:
        return {"environment_fault": str(error)}
    except CompileError as error:
        return {"error": {"kind": "compile_error", "reason": str(error)[:MOST_REASON]}}
    except OSError as error:
        return {"error": {"kind": "infra", "reason": str(error)[:MOST_REASON]}}
    except MemoryError:
        return {"error": {"kind": "oom", "reason": "out of memory"}}
    except Exception as error:  # noqa: BLE001
        # The compiler prefixes its message with a C++ backtrace; the cause is the last line.
        lines = [line for line in str(error).splitlines() if line.strip()]
        reason = f"{type(error).__name__}: {lines[-1].strip() if lines else ''}"
        return {"error": {"kind": failure_kind(str(error)), "reason": reason[:MOST_REASON]}}
    return answer


def _answer_in_fork(verbs: Verbs, request: Request, *, pipe: TextIO) -> Answer | None:
    """Serve a request in a child process with its own group; ``None`` if the child has written the answer itself."""
    announced, announce = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(announce)
        os.setpgid(0, 0)
        _die_with_parent()
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


def _die_with_parent() -> None:
    """Ask Linux to kill this process as soon as the thread that started it ends."""
    # A parent that is killed cannot clean up, and a compiler that runs on would disturb every later measurement.
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


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
    return getattr(import_module(module), bridge)  # type: ignore[no-any-return]


def _serve(verbs: Verbs, *, pipe: TextIO) -> None:
    for line in sys.stdin:
        request = json.loads(line)
        forks = request["verb"] in FORKING_VERBS
        answer = _answer_in_fork(verbs, request, pipe=pipe) if forks else _answer(verbs, request)
        _end_leftovers()
        if answer is not None:
            _write(pipe, answer, request=request)


def main() -> None:
    """Serve requests until standard input closes."""
    # The compiler and its libraries print to descriptor 1 whenever they like. Answers get a copy of the pipe, and
    # descriptor 1 becomes standard error.
    pipe = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    _die_with_parent()
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
    _write(pipe, {"ready": True, "seconds": time.perf_counter() - start}, request=settings)
    folder = Path(settings["states"]) if settings.get("states") else None
    states = StateCache(
        bridge, budget_bytes=settings["budget_bytes"], folder=folder, disk_bytes=settings.get("disk_bytes")
    )
    _serve(Verbs(states), pipe=pipe)


if __name__ == "__main__":
    main()
