"""PyTorch, eager or compiled by Inductor, on the operators of an ONNX file, or on a file of PyTorch itself."""

from collections.abc import Sequence
from threading import local
from typing import Any

from passsearch.core.engine_environment import EngineEnvironment
from passsearch.core.torch_program import register_operators
from passsearch.engines.contract import REQUIREMENTS, Array, Inputs, KernelCall, Request

ENVIRONMENT = EngineEnvironment(
    "torch", REQUIREMENTS, ("torch", "onnx"), disk_bytes=2_000_000_000, requirement="torch==2.13.0"
)
ENGINES: dict[str, dict[str, Any]] = {"torch": {}, "inductor": {"inductor": True}}
DEVICES = ("cpu", "cuda")
FLOAT32, TF32 = "float32", "tf32"


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
        precision: str,
        graph: bool = False,
    ) -> None:
        import torch

        self.torch = torch
        if threads:
            torch.set_num_threads(threads)
        # TVM computes convolutions in float32 too; PyTorch's default on a GPU rounds their operands to TF32.
        torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = precision == TF32
        self._dtype = torch.float32 if precision == TF32 else getattr(torch, precision)
        # What PyTorch's tuning guide advises where shapes do not change.
        torch.backends.cudnn.benchmark = graph
        module = _load(model, dtype=self._dtype).to(device)
        self._device, self._is_compiled = device, inductor
        if self._dtype != torch.float32:
            module = module.to(self._dtype)
        self._tensors = self._on_device(inputs)
        self._has_queue = device != "cpu"
        self._run: Any = _compile(module, device=device, graph=graph) if inductor else module
        if graph and not inductor:
            self._run = _Recording(module, self._tensors)
        self.threads = torch.get_num_threads()
        self.versions = {"torch": torch.__version__}
        self.settings: dict[str, Any] = {} if precision == FLOAT32 else {"precision": precision}
        if inductor:
            self.settings |= {"torch._inductor.config.freezing": True} if device == "cpu" else {}
            self.infer()  # the first call compiles
        if graph:
            self.settings |= {"CUDA graph": True, "torch.backends.cudnn.benchmark": True}
            for _ in range(2):
                self.infer()  # Inductor records at its third call

    def _on_device(self, inputs: Inputs) -> list[Any]:
        tensors = [self.torch.from_numpy(array).to(self._device) for array in inputs.values()]
        return [each.to(self._dtype) if each.dtype == self.torch.float32 else each for each in tensors]

    def outputs(self, inputs: Inputs) -> Sequence[Array]:
        """Run once and copy the outputs."""
        with self.torch.inference_mode():
            results = self._run(*self._on_device(inputs))
            # A file of PyTorch has one tensor as its only result.
            results = [results] if isinstance(results, self.torch.Tensor) else results
            # numpy has no bfloat16.
            short = self._dtype in (self.torch.float16, self.torch.bfloat16)
            results = [each.float() if short and each.is_floating_point() else each for each in results]
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

        register_operators(model)
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
    precision: str = FLOAT32,
) -> Torch:
    """Convert a model file; ``inductor`` compiles it too.

    Args:
        model: The file.
        threads: Number of threads.
        inputs: Its inputs.
        inductor: True to compile it.
        device: ``cpu`` or ``cuda``.
        precision: Type that stands for float32 in all of it, or ``tf32`` for products of float32 on a GPU.
    """
    return Torch(model, threads=threads, inputs=inputs, inductor=inductor, device=device, precision=precision)
