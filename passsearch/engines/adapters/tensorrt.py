"""TensorRT on a GPU of NVIDIA."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from passsearch.core.engine_environment import EngineEnvironment
from passsearch.engines.contract import REQUIREMENTS, Array, Inputs, KernelCall, Request

ENVIRONMENT = EngineEnvironment(
    "tensorrt",
    REQUIREMENTS,
    ("tensorrt", "cuda.bindings.runtime"),
    disk_bytes=8_000_000_000,
    requirement="tensorrt-cu13==11.4.0.106",
)
ENGINES: dict[str, dict[str, Any]] = {"tensorrt": {}}
DEVICES = ("cuda",)


class TensorRt:
    """An engine that TensorRT builds for this GPU, with the buffers of one inference."""

    def __init__(self, model: str, *, inputs: Inputs) -> None:
        import tensorrt as trt
        from cuda.bindings import runtime

        self._runtime = runtime
        _check(runtime.cudaSetDevice(0))
        logger = trt.Logger(trt.Logger.ERROR)
        self._engine = trt.Runtime(logger).deserialize_cuda_engine(_build(trt, logger, model))
        names = [self._engine.get_tensor_name(place) for place in range(self._engine.num_io_tensors)]
        self._outputs = [name for name in names if self._engine.get_tensor_mode(name) == trt.TensorIOMode.OUTPUT]
        self._types = {name: np.dtype(trt.nptype(self._engine.get_tensor_dtype(name))) for name in names}
        self._inputs = inputs
        self._context = self._bind(inputs)
        self.threads = 1
        self.versions = {"tensorrt": trt.__version__}
        self.settings = {"TF32": False}

    def _bind(self, inputs: Inputs) -> "_Context":
        return _Context(
            self._runtime, self._engine, inputs, outputs={name: self._types[name] for name in self._outputs}
        )

    def outputs(self, inputs: Inputs) -> Sequence[Array]:
        """Run once and copy the outputs."""
        context = self._bind(inputs)
        context.run()
        return [context.read(name) for name in self._outputs]

    def infer(self) -> None:
        """Run once, and wait until the device has finished."""
        self._context.run()

    def requests(self, count: int) -> Sequence[Request]:
        """Return contexts of one engine, each with a stream of its own."""
        return [self._bind(self._inputs).run for _ in range(count)]

    def kernels(self, runs: int) -> Sequence[KernelCall]:
        """Refuse: layers were never profiled, as no GPU was at hand."""
        raise NotImplementedError("the profiler of TensorRT is not connected")


class _Context:
    """An execution context with its stream and its buffers on the device."""

    def __init__(self, runtime: Any, engine: Any, inputs: Inputs, *, outputs: dict[str, np.dtype[Any]]) -> None:
        self._runtime, self._context = runtime, engine.create_execution_context()
        self._stream = _check(runtime.cudaStreamCreate())
        for name, array in inputs.items():
            data = np.ascontiguousarray(array)
            kind = runtime.cudaMemcpyKind.cudaMemcpyHostToDevice
            _check(runtime.cudaMemcpy(self._allocate(name, data.nbytes), data.ctypes.data, data.nbytes, kind))
        self._shapes = {name: tuple(self._context.get_tensor_shape(name)) for name in outputs}
        self._buffers = {
            name: (self._allocate(name, int(np.prod(self._shapes[name])) * kind.itemsize), kind)
            for name, kind in outputs.items()
        }

    def _allocate(self, name: str, size: int) -> int:
        # Freed with the process, which has one engine.
        pointer = int(_check(self._runtime.cudaMalloc(max(1, size))))
        self._context.set_tensor_address(name, pointer)
        return pointer

    def run(self) -> None:
        """Run once, and wait until the stream is empty."""
        if not self._context.execute_async_v3(int(self._stream)):
            raise RuntimeError("TensorRT did not start the inference; its reason is in the log")
        _check(self._runtime.cudaStreamSynchronize(self._stream))

    def read(self, name: str) -> Array:
        """Return a copy of an output."""
        pointer, kind = self._buffers[name]
        array = np.empty(self._shapes[name], kind)
        direction = self._runtime.cudaMemcpyKind.cudaMemcpyDeviceToHost
        _check(self._runtime.cudaMemcpy(array.ctypes.data, pointer, array.nbytes, direction))
        return array


def _build(trt: Any, logger: Any, model: str) -> Any:
    """Return the serialised engine of a model file, in float32."""
    builder = trt.Builder(logger)
    network = builder.create_network()
    parser = trt.OnnxParser(network, logger)
    if not parser.parse_from_file(model):
        raise RuntimeError(f"TensorRT does not read the file: {parser.get_error(0)}")
    config = builder.create_builder_config()
    # By default it rounds the operands of products to TF32.
    config.clear_flag(trt.BuilderFlag.TF32)
    engine = builder.build_serialized_network(network, config)
    if engine is None:
        raise RuntimeError("TensorRT builds no engine of this network; its reason is in the log")
    return engine


def _check(answer: Any) -> Any:
    """Return what a function of CUDA returns beside its status; raise an error for another status than success."""
    status, *values = answer
    if int(status):
        raise RuntimeError(f"CUDA answers {status}")
    return values[0] if values else None


def open_engine(model: str, *, threads: int | None, inputs: Inputs, device: str = "cuda") -> TensorRt:
    """Build an engine from a model file; the CPU's threads do not matter."""
    del threads, device
    return TensorRt(model, inputs=inputs)
