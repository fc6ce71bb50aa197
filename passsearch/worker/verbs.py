"""The requests that a worker serves. Needs the standard library, numpy and the dialect's bridge."""

import json
import math
import resource
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from importlib import import_module
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from passsearch.core import (
    COMPILE_PARTS,
    CONSTANTS,
    FOLDING,
    MAIN,
    PASSES,
    BuildOptions,
    Case,
    CheckInputs,
    DeclaredInput,
    PassSpec,
    TensorType,
    resolve_inputs,
)
from passsearch.dialects.case_inputs import MAGNITUDES, case_inputs, timed_inputs
from passsearch.dialects.comparison import relative_deviation
from passsearch.dialects.contract import (
    KERNEL_COSTS,
    KERNEL_HASHES,
    Array,
    Artifact,
    Executable,
    ModelSource,
    Module,
)
from passsearch.measure import kernels, outputs, rounds, windows
from passsearch.measure.after import AfterCheck, after_check
from passsearch.measure.mixture import Mixture
from passsearch.measure.processor import pin_process
from passsearch.measure.source import source_outputs
from passsearch.worker.network_request import source_of, types_to_json
from passsearch.worker.referee import judge
from passsearch.worker.rounding import compare_rounded
from passsearch.worker.state_cache import StateCache, resident_bytes
from passsearch.worker.variants import time_variants

Request: TypeAlias = Mapping[str, Any]
Answer: TypeAlias = dict[str, Any]

FORKING_VERBS = frozenset(
    "build verify measure consume expect check variants places profile consume_kernels round referee".split()  # noqa: SIM905
)
"""Verbs that run in a fork, because they run code that may crash or hang: kernels, or the compiler's back end."""


class StateMissing(Exception):
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
        source = source_of(request["source"])
        module = self._bridge.load(source)
        seconds = time.perf_counter() - start
        answer = {"seconds": seconds, "summary": None, **self._calls(module, source)}
        if request.get("summary"):
            searched = [case.function or MAIN for case in source.cases] or [source.function or MAIN]
            others = [name for name in self._bridge.function_names(source) if name not in searched]
            answer |= {"summary": self._bridge.summarize(module).to_json(), "other_functions": others}
        state, _ = self._states.add(module)
        return {"state": state, **answer}

    def _calls(self, module: Module, source: ModelSource) -> Answer:
        """Return the inputs of a network, and its cases where it has several.

        Raises:
            UserError: A case does not state all sizes that stay symbolic.
        """
        if not source.cases:
            return {"inputs": types_to_json(self._bridge.inputs(module))}
        typed = [replace(case, inputs=self._inputs(module, case, batch=source.batch)) for case in source.cases]
        inputs = {case.full_name(name): kind for case in typed for name, kind in case.inputs.items()}
        return {"inputs": types_to_json(inputs), "cases": [case.to_json() for case in typed]}

    def _inputs(self, module: Module, case: Case, *, batch: int | None) -> Mapping[str, TensorType]:
        inputs = self._bridge.inputs(module, case.entry)
        if not case.is_symbolic:
            return inputs
        declared = [DeclaredInput(name, kind.shape, kind.dtype) for name, kind in inputs.items()]
        return resolve_inputs(declared, types=case.inputs, batch=batch)

    def do_import(self, request: Request) -> Answer:
        """Import a model file and write it in the compiler's own format, which every other worker loads."""
        self._bridge.save_with_external_weights(self._bridge.load(source_of(request["source"])), Path(request["path"]))
        return {}

    def do_source(self, request: Request) -> Answer:
        """Run the network by its own framework; its outputs become those that all others are compared with."""
        network = self._bridge.open_source(source_of(request["source"]))
        return source_outputs(network, request)

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
        """Apply the passes of the request to one state, if it has some, and build the result into a folder."""
        module = self._module(request)
        for step in request.get("passes", ()):
            module, _ = self._apply(module, _pass(step), request=step)
        return self._build(module, request)

    def do_compile(self, request: Request) -> Answer:
        """Import, apply a whole pipeline and build, as a deployment does; answers the final state."""
        module, apply_s = self._reach(request)
        built = self._build(module, request)
        parts_s = {part: seconds + built["parts_s"].get(part, 0.0) for part, seconds in apply_s.items()}
        state = self._states.identity(module)
        return {"state": state, "apply_s": sum(apply_s.values()), **built, "parts_s": parts_s}

    def do_reach(self, request: Request) -> Answer:
        """Import and apply a whole pipeline, as a deployment does; answers the final state."""
        module, apply_s = self._reach(request)
        return {"state": self._states.identity(module), "apply_s": sum(apply_s.values())}

    def _reach(self, request: Request) -> tuple[Module, dict[str, float]]:
        """Return an imported network after a pipeline, and the seconds that the passes took by part of a compile."""
        module, apply_s = self._bridge.load(source_of(request["source"])), dict.fromkeys(COMPILE_PARTS, 0.0)
        for step in request["passes"]:
            module, seconds = self._apply(module, _pass(step), request=step)
            apply_s[CONSTANTS if step["name"] == FOLDING else PASSES] += seconds
        return module, apply_s

    def do_census(self, request: Request) -> Answer:
        """Answer the operator counts of one state."""
        return {"counts": dict(self._bridge.op_counts(self._module(request)))}

    def do_text(self, request: Request) -> Answer:
        """Answer one state as the compiler prints it."""
        return {"text": self._bridge.text(self._module(request))}

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
        pin_process(self._bridge.threads())  # the time of a slow run is also its latency
        answer = outputs.verify(
            executable,
            inputs=CheckInputs.from_json(request["inputs"]),
            cases=request["cases"],
            outputs=Path(request["outputs"]),
            reference=Path(request["reference"]) if request.get("reference") else None,
            longest_s=request.get("longest_s") or math.inf,
            total_s=request["total_s"],
            with_bits=request.get("with_bits", True),
        )
        peak_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024  # Linux counts it in KiB
        # The executable still holds the memory that it ran in: TVM's allocator returns none.
        left_bytes = self._bridge.free_device_bytes(request["device"])
        taken_bytes = 0 if free_bytes is None or left_bytes is None else free_bytes - left_bytes
        # If the free memory did not fall, another program gave memory back meanwhile, and the difference says nothing.
        device_bytes = taken_bytes if taken_bytes > 0 else None
        return {**answer, "peak_rss": max(0, peak_bytes - before_bytes), "device_bytes": device_bytes}

    def do_measure(self, request: Request) -> Answer:
        """Time all artifacts by a plan."""
        plan, inputs = rounds.plan_from_json(request["plan"]), _timed_inputs(request)
        executables = [self._open(folder, request) for folder in request["folders"]]
        cores = pin_process(self._bridge.threads())
        return rounds.measure(executables, inputs=inputs, plan=plan, cores=cores, check=_check_of(request))

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
        """Schedule one kernel in several ways, and time each that computes what the first does, if the first runs."""
        cores = pin_process(self._bridge.threads())
        kernel = self._bridge.isolate(self._module(request), request["kernel"])

        def schedule(step: Request) -> Module:
            return self._apply(kernel, _pass(step["pass"]), request=step)[0]

        return {"variants": time_variants(self._bridge, schedule, request, cores=cores)}

    def do_places(self, request: Request) -> Answer:
        """Time all kernels of artifacts, which run in turns, where the network calls them."""
        return self._time_kernels(kernels.time_places, request, name="places")

    def do_profile(self, request: Request) -> Answer:
        """Time every call of artifacts, which run in turns, and their whole inferences."""
        return self._time_kernels(kernels.profile_networks, request, name="profiles")

    def _time_kernels(self, time_networks: Callable[..., Sequence[Any]], request: Request, *, name: str) -> Answer:
        """Time the kernels of all artifacts; ``None`` for one whose runtime does not tell kernels apart."""
        executables = [self._open(folder, request) for folder in request["folders"]]
        cores = pin_process(self._bridge.threads())
        plan, inputs = kernels.PlacePlan(**request["plan"]), _timed_inputs(request)
        times = time_networks(executables, plan, inputs=inputs, cores=cores)
        return {name: [each and asdict(each) for each in times], **_after(executables, request)}

    def do_consume(self, request: Request) -> Answer:
        """Run all artifacts in long windows while the parent reads its meter."""
        executables = [self._open(folder, request) for folder in request["folders"]]
        plan = windows.WindowPlan(**request["plan"])
        pin_process(self._bridge.threads())
        for executable in executables:
            executable.run(_timed_inputs(request))
        run = windows.run_windows([each.run_repeatedly for each in executables], plan=plan)
        return {"windows": run, **_after(executables, request)}

    def do_consume_kernels(self, request: Request) -> Answer:
        """Run every kernel of one artifact in a window, as ``do_consume`` runs artifacts."""
        (folder,) = request["folders"]
        executable = self._open(folder, request)
        plan = windows.WindowPlan(**request["plan"])
        pin_process(self._bridge.threads())
        runs = executable.kernel_runs(_timed_inputs(request)) or {}
        calls = {name: run.calls for name, run in runs.items()}
        return {"calls": calls, "windows": windows.run_windows([run.repeat for run in runs.values()], plan=plan)}

    def do_expect(self, request: Request) -> Answer:
        """Answer digests of one artifact's outputs on one seed, and of its kernels' on floats of mixed magnitude."""
        executable, check = self._open(request["folder"], request), CheckInputs.from_json(request["inputs"])
        expected = outputs.digest(executable.run(case_inputs(check, request["seed"])))
        return {"expected": expected, "kernel_bits": executable.kernel_bits(case_inputs(check, MAGNITUDES))}

    def do_deviations(self, request: Request) -> Answer:
        """Import and build a network, and answer the deviation of each of its outputs on the inputs of one case."""
        self._build(self._bridge.load(source_of(request["source"])), request)
        inputs = case_inputs(CheckInputs.from_json(request["inputs"]), request["case"])
        computed = self._open(request["folder"], request).run(inputs)
        with np.load(request["expected"]) as file:
            expected = [file[f"{request['case']}_{place}"] for place in range(len(computed))]
        pairs = zip(computed, expected, strict=True)
        return {"deviations": [relative_deviation(*pair) for pair in pairs]}

    def do_round(self, request: Request) -> Answer:
        """Run a network whose weights are arguments with rounded weights, and compare its outputs for each choice."""
        kind = _function(request["rounding"])
        rounding = kind(self._module(request), request["target"], has_activations=request["has_activations"])
        if not Path(request["folder"]).exists():
            module = rounding.module
            for step in request["passes"]:
                module, _ = self._apply(module, _pass(step), request=step)
            self._build(module, request)
        network = rounding.open(Artifact(Path(request["folder"]), 0, None), request["device"])
        layers = [] if request["choices"] else [asdict(each) for each in rounding.layers]
        return {"layers": layers, **compare_rounded(rounding, network, request)}

    def do_referee(self, request: Request) -> Answer:
        """Describe or build a kernel, or run one check of a foreign one in its place."""
        access = _function(request["access"])(self._bridge)
        return judge(access, self._bridge, lambda: self._module(request), request)

    def release(self) -> None:
        """Give back the memory that the last request has used and the next one may not need."""
        self._states.release()

    def do_check(self, request: Request) -> Answer:
        """Check one catalog entry against this compiler; answers the list of problems."""
        return {"problems": _function(request["checker"])(**request["arguments"])}

    def do_prove(self, request: Request) -> Answer:
        """Answer how the network of a state may be padded, or the reason why it may not."""
        return {"proof": _function(request["prover"])(self._module(request), **request["arguments"])}

    def _module(self, request: Request) -> Module:
        module = self._states.get(request["state"])
        if module is None:
            raise StateMissing(request["state"])
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
        size = {"bytes": artifact.bytes, "plan_bytes": artifact.plan_bytes, "launches": artifact.launches}
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


def _check_of(request: Request) -> AfterCheck | None:
    """Return the check of artifacts that were timed; ``None`` where there is no reference."""
    if not request.get("reference"):
        return None
    return after_check(CheckInputs.from_json(request["inputs"]), Path(request["reference"]), request["cases"])


def _after(executables: Sequence[Executable], request: Request) -> Answer:
    check = _check_of(request)
    return {"after": [check(executable) for executable in executables]} if check else {}


def _timed_inputs(request: Request) -> dict[str, Array]:
    return timed_inputs(CheckInputs.from_json(request["inputs"]))


def _pass(data: Request) -> PassSpec:
    return PassSpec.of(data["name"], **data["arguments"])
