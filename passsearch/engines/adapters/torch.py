"""PyTorch, eager or compiled by Inductor, on the operators of an ONNX file, or on a file of PyTorch itself."""

from collections.abc import Sequence
from threading import local
from typing import Any

import numpy as np

from passsearch.core.engine_environment import EngineEnvironment
from passsearch.engines.contract import REQUIREMENTS, Array, Inputs, KernelCall, Request

ENVIRONMENT = EngineEnvironment(
    "torch", REQUIREMENTS, ("torch", "onnx"), disk_bytes=2_000_000_000, requirement="torch==2.13.0"
)
ENGINES: dict[str, dict[str, Any]] = {"torch": {}, "inductor": {"inductor": True}}
DEVICES = ("cpu", "cuda")


class Torch:
    """A module with its inputs as tensors."""

    def __init__(
        self,
        model: str,
        *,
        threads: int | None,
        inputs: Inputs,
        inductor: bool,
        device: str,
        float64: bool,
        graph: bool = False,
    ) -> None:
        import torch

        self.torch = torch
        if threads:
            torch.set_num_threads(threads)
        # TVM computes convolutions in float32 too; PyTorch's default on a GPU rounds their operands to TF32.
        torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
        dtype = torch.float64 if float64 else torch.float32
        # What PyTorch's tuning guide advises where shapes do not change.
        torch.backends.cudnn.benchmark = graph
        module = _load(model, dtype=dtype).to(device)
        self._device, self._is_float64, self._is_compiled = device, float64, inductor
        if float64:
            module = module.double()
        self._tensors = self._on_device(inputs)
        self._has_queue = device != "cpu"
        self._run: Any = _compile(module, device=device, graph=graph) if inductor else module
        if graph and not inductor:
            self._run = _Recording(module, self._tensors)
        self.threads = torch.get_num_threads()
        self.versions = {"torch": torch.__version__}
        self.settings: dict[str, Any] = {"dtype": "float64"} if float64 else {}
        if inductor:
            self.settings |= {"torch._inductor.config.freezing": True} if device == "cpu" else {}
            self.infer()  # the first call compiles
        if graph:
            self.settings |= {"CUDA graph": True, "torch.backends.cudnn.benchmark": True}
            for _ in range(2):
                self.infer()  # Inductor records at its third call

    def _on_device(self, inputs: Inputs) -> list[Any]:
        arrays = inputs.values()
        if self._is_float64:
            arrays = [_as_float64(array) for array in arrays]  # type: ignore[assignment]
        return [self.torch.from_numpy(array).to(self._device) for array in arrays]

    def outputs(self, inputs: Inputs) -> Sequence[Array]:
        """Run once and copy the outputs."""
        with self.torch.inference_mode():
            results = self._run(*self._on_device(inputs))
            # A file of PyTorch has one tensor as its only result.
            results = [results] if isinstance(results, self.torch.Tensor) else results
            return [tensor.cpu().numpy().copy() for tensor in results]

    def infer(self) -> None:
        """Run once, and wait until the device has finished."""
        with self.torch.inference_mode():
            self._run(*self._tensors)
        if self._has_queue:
            self.torch.cuda.synchronize()

    def requests(self, count: int) -> Sequence[Request]:
        """Return calls of the network, each with an equal part of the threads."""
        if self._has_queue:
            raise NotImplementedError("PyTorch runs the inferences of all threads in one queue of the GPU")
        parts = min(count, self.threads)
        each = self.threads // parts
        if self._is_compiled:
            # Inductor's code has a fixed number of threads; it is compiled once more, here and not in several threads.
            self.torch.set_num_threads(each)
            self.infer()
            self.torch.set_num_threads(self.threads)
        return [_Request(self, threads=each) for _ in range(parts)]

    def kernels(self, runs: int) -> Sequence[KernelCall]:
        """Return the operators and Inductor's kernels: the mean of the calls of a name, which the profiler adds up."""
        profiler = self.torch.profiler
        activity = profiler.ProfilerActivity.CUDA if self._has_queue else profiler.ProfilerActivity.CPU
        if self._is_compiled and not self._has_queue:
            from torch._inductor import config

            config.cpp.enable_kernel_profile = True  # Inductor's kernels have names only if compiled so
            self.torch.compiler.reset()
        self.infer()
        with profiler.profile(activities=[activity]) as profile:
            for _ in range(runs):
                self.infer()
        name = "self_device_time_total" if self._has_queue else "self_cpu_time_total"
        sums = [(event.key, event.count, 1e-6 * getattr(event, name)) for event in profile.key_averages()]
        return mean_calls(sums, runs=runs)


def mean_calls(sums: Sequence[tuple[str, int, float]], *, runs: int) -> list[KernelCall]:
    """Return the calls of one inference, each with the mean seconds of its name.

    Args:
        sums: Name, number of calls and sum of their seconds, over all runs.
        runs: Number of inferences.
    """
    calls: list[KernelCall] = []
    for name, count, seconds in sums:
        # Work that is not done in every run, such as the growth of a pool of memory, counts as one call.
        each = max(1, round(count / runs))
        calls += [KernelCall(name, seconds / runs / each)] * each if seconds > 0 else []
    return calls


class _Request:
    """One inference in a thread that has a number of threads of its own; PyTorch keeps that number for each thread."""

    def __init__(self, engine: Torch, *, threads: int) -> None:
        self._engine, self._threads, self._thread = engine, threads, local()

    def __call__(self) -> None:
        if not hasattr(self._thread, "is_set"):
            self._engine.torch.set_num_threads(self._threads)
            self._thread.is_set = True
        self._engine.infer()


def _as_float64(array: Array) -> Array:
    return array.astype(np.float64) if array.dtype == np.float32 else array


class _Recording:
    """A module of which the launches were recorded once as a CUDA graph. A call copies its inputs and replays them."""

    def __init__(self, module: Any, inputs: Sequence[Any]) -> None:
        import torch

        self._inputs = [tensor.clone() for tensor in inputs]
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.inference_mode(), torch.cuda.stream(stream):
            for _ in range(3):
                module(*self._inputs)  # libraries choose their kernels, which cannot be recorded
        torch.cuda.current_stream().wait_stream(stream)
        self._graph = torch.cuda.CUDAGraph()
        with torch.inference_mode(), torch.cuda.graph(self._graph):
            self._outputs = module(*self._inputs)

    def __call__(self, *inputs: Any) -> Any:
        for own, tensor in zip(self._inputs, inputs, strict=True):
            own.copy_(tensor)
        self._graph.replay()
        return self._outputs


def _load(model: str, *, dtype: Any) -> Any:
    """Return the module of a file of ``torch.export``, of TorchScript, or of ONNX, ready for inference."""
    if model.endswith(".pt2"):
        import torch

        return torch.export.load(model).module()
    if model.endswith(".pt"):
        import torch

        return torch.jit.load(model).eval()
    import onnx

    from passsearch.engines.onnx_to_torch import convert

    return convert(onnx.load(model), dtype=dtype).eval()


def _compile(module: Any, *, device: str, graph: bool) -> Any:
    import torch
    from torch._inductor import config

    # Weights become constants that are packed ahead of time, as PyTorch's documentation advises for inference on CPUs.
    config.freezing = device == "cpu"
    return torch.compile(module, fullgraph=True, mode="reduce-overhead" if graph else None)


def open_engine(
    model: str,
    *,
    threads: int | None,
    inputs: Inputs,
    inductor: bool = False,
    device: str = "cpu",
    float64: bool = False,
) -> Torch:
    """Convert a model file; ``inductor`` compiles it too, ``float64`` computes all of it in double precision."""
    return Torch(model, threads=threads, inputs=inputs, inductor=inductor, device=device, float64=float64)
