"""A network that passsearch built, run by the toolchain's TVM. Runs in the toolchain's interpreter."""

import re
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from passsearch.dialects.contract import Artifact
from passsearch.engines.contract import Array, Inputs, KernelCall, Request, fastest_calls, usable_cores


class BuiltNetwork:
    """An artifact in TVM's runtime."""

    def __init__(
        self, folder: str, *, threads: int | None, inputs: Inputs, bridge: str, target: str, device: str, version: str
    ) -> None:
        module, _, name = bridge.partition(":")
        self._compiler = getattr(import_module(module), name)(target)
        self._folder, self._device, self._inputs = folder, device, inputs
        self._executable = self._open()
        self.threads = int(self._compiler.threads())
        # A TVM without a pool of threads has one thread, but may run a copy of the network on every core.
        self._cores = threads or usable_cores()
        self.versions = {"tvm": version}
        self.settings: dict[str, str] = {}

    def _open(self) -> Any:
        return self._compiler.open(Artifact(Path(self._folder), bytes=0, plan_bytes=None), self._device)

    def outputs(self, inputs: Inputs) -> Sequence[Array]:
        """Bind the inputs, run once and copy the outputs."""
        outputs: Sequence[Array] = self._executable.run(inputs)
        return outputs

    def infer(self) -> None:
        """Run once; outputs are not copied."""
        self._executable.run_repeatedly(1)

    def requests(self, count: int) -> Sequence[Request]:
        """Return copies of the network, each with an equal part of the threads."""
        if self._device != "cpu":
            raise NotImplementedError("passsearch runs one inference at a time on a GPU")
        parts = min(count, self._cores)
        return [self._request(self._cores // parts) for _ in range(parts)]

    def _request(self, threads: int) -> Request:
        executable: Any = None

        def run() -> None:
            nonlocal executable
            # TVM has a pool of threads for each thread that calls it.
            if executable is None:
                self._compiler.limit_threads(threads)
                executable = self._open()
                executable.run(self._inputs)
            executable.run_repeatedly(1)

        return run

    def kernels(self, runs: int) -> Sequence[KernelCall]:
        """Return the calls of kernels; those of the runtime are left out."""
        profiles = [self._executable.run_by_kernel(self._inputs) for _ in range(runs + 1)]
        if any(profile is None for profile in profiles):
            raise NotImplementedError("kernels are timed one by one on CPUs only, and this TVM must have its profiler")
        shapes = self._executable.kernel_shapes(self._inputs)
        runs_of_calls = [[KernelCall(name, seconds) for name, seconds in profile] for profile in profiles[1:]]
        calls = fastest_calls(runs_of_calls)
        shapes = shapes if shapes and len(shapes) == len(calls) else [""] * len(calls)
        return [
            call._replace(operator=_operator(call.name), shape=shape) for call, shape in zip(calls, shapes, strict=True)
        ]


def _operator(name: str) -> str:
    """Return the name of a kernel without the numbers that tell kernels of one network apart."""
    return re.sub(r"(?<=[a-zA-Z_])\d+(?=_|$)", "", name).rstrip("_")


def open_engine(
    model: str, *, threads: int | None, inputs: Inputs, bridge: str, target: str, device: str = "cpu", version: str = ""
) -> BuiltNetwork:
    """Load an artifact.

    Args:
        model: Folder of the artifact.
        threads: Number of threads, which TVM reads from the environment.
        inputs: Inputs of every inference.
        bridge: The dialect's bridge, as ``module:Class``.
        target: TVM's target.
        device: Device that runs it.
        version: Version of the TVM.
    """
    return BuiltNetwork(
        model, threads=threads, inputs=inputs, bridge=bridge, target=target, device=device, version=version
    )
