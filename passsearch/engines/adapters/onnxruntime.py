"""ONNX Runtime."""

import json
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import Any

from passsearch.core.engine_environment import EngineEnvironment
from passsearch.engines.contract import (
    REQUIREMENTS,
    Array,
    Inputs,
    KernelCall,
    OptionError,
    Request,
    count_threads,
    fastest_calls,
    shape_text,
    started_threads,
)

ENVIRONMENT = EngineEnvironment("onnxruntime", REQUIREMENTS, ("onnxruntime",), disk_bytes=300_000_000)
ENGINES: dict[str, dict[str, Any]] = {"onnxruntime": {}}
CPU, CUDA = "CPUExecutionProvider", "CUDAExecutionProvider"


class OnnxRuntime:
    """A session with bound inputs; outputs are not copied."""

    def __init__(
        self,
        model: str,
        *,
        threads: int | None,
        inputs: Inputs,
        optimise: bool,
        device: str,
        options: Mapping[str, Any],
    ) -> None:
        import onnxruntime as ort

        self._onnxruntime, self._device, self._model = ort, device, model

        own, threads_before = ort.SessionOptions(), count_threads()
        own.intra_op_num_threads, own.inter_op_num_threads = threads or 0, 1
        level = ort.GraphOptimizationLevel
        own.graph_optimization_level = level.ORT_ENABLE_ALL if optimise else level.ORT_DISABLE_ALL
        for name, value in options.items():
            _set_option(own, name, value)
        self._options, self._session = own, ort.InferenceSession(model, own, providers=_providers(ort, device))
        # It only warns if CUDA is missing, and runs on the CPU.
        if device != "cpu" and self._session.get_providers()[0] != CUDA:
            raise RuntimeError("ONNX Runtime cannot load CUDA or finds no GPU, and would run on the CPU")
        self._inputs = inputs
        self._binding = self._bind(self._session)
        self.threads = own.intra_op_num_threads or started_threads(threads_before)
        self.versions = {"onnxruntime": ort.__version__}
        self.settings = {"graph_optimization_level": own.graph_optimization_level.name, **options}

    def _bind(self, session: Any) -> Any:
        binding = session.io_binding()
        for name, array in self._inputs.items():
            if self._device == "cpu":
                binding.bind_cpu_input(name, array)
            else:
                binding.bind_ortvalue_input(name, self._onnxruntime.OrtValue.ortvalue_from_numpy(array, "cuda", 0))
        for output in session.get_outputs():
            binding.bind_output(output.name, "cpu" if self._device == "cpu" else "cuda")
        return binding

    def outputs(self, inputs: Inputs) -> Sequence[Array]:
        """Run once and copy the outputs."""
        arrays: Sequence[Array] = self._session.run(None, dict(inputs))
        return arrays

    def infer(self) -> None:
        """Run once."""
        self._session.run_with_iobinding(self._binding)

    def requests(self, count: int) -> Sequence[Request]:
        """Return runs of one session, which share its pool of threads; each has outputs of its own."""
        session = self._session
        return [partial(session.run_with_iobinding, self._bind(session)) for _ in range(count)]

    def kernels(self, runs: int) -> Sequence[KernelCall]:
        """Return the nodes of the optimised graph, by the profiler of another session."""
        if self._device != "cpu":
            raise NotImplementedError("its profiler times the launches of kernels on a GPU, not the kernels")
        with TemporaryDirectory() as folder:
            self._options.enable_profiling, self._options.profile_file_prefix = True, str(Path(folder) / "profile")
            providers = _providers(self._onnxruntime, self._device)
            session = self._onnxruntime.InferenceSession(self._model, self._options, providers=providers)
            binding = self._bind(session)
            for _ in range(runs + 1):  # the first one fills the caches
                session.run_with_iobinding(binding)
            events = json.loads(Path(session.end_profiling()).read_text())
        nodes = sorted((each for each in events if _is_kernel(each)), key=lambda each: each["ts"])
        calls = [_call(each) for each in nodes]
        size, rest = divmod(len(calls), runs + 1)
        by_run = [calls[place * size : (place + 1) * size] for place in range(runs + 1)]
        if rest or any([call.name for call in each] != [call.name for call in by_run[0]] for each in by_run):
            raise NotImplementedError("the runs have different nodes")
        return fastest_calls(by_run[1:])


def _set_option(options: Any, name: str, value: Any) -> None:
    """Set an attribute of the session's options, by the name of its value if that is one of a list, or an entry.

    Raises:
        OptionError: The session has no such option, or the option no such value.
    """
    if "." in name:
        options.add_session_config_entry(name, str(int(value)) if isinstance(value, bool) else str(value))
        return
    names = [each for each in dir(options) if not each.startswith("_") and not callable(getattr(options, each))]
    if name not in names:
        raise OptionError(f"unknown option `{name}`; there are {', '.join(names)}, and entries such as `session.NAME`")
    kind = type(getattr(options, name))
    members = getattr(kind, "__members__", None)
    if members is not None and value not in members:
        raise OptionError(f"`{name}` is one of {', '.join(members)}; got `{value}`")
    if members is None and type(value) is not kind:
        raise OptionError(f"`{name}` is of type {kind.__name__}; got `{value}`")
    setattr(options, name, value if members is None else members[value])


def _is_kernel(event: Mapping[str, Any]) -> bool:
    return event.get("cat") == "Node" and str(event.get("name")).endswith("_kernel_time")


def _call(event: Mapping[str, Any]) -> KernelCall:
    about = event["args"]
    # A list with one item for each argument, which maps its type to its shape.
    shapes = [shape for entry in about.get("input_type_shape", ()) for shape in entry.values()]
    name = f"{about['op_name']} {about['node_index']}"
    return KernelCall(name, 1e-6 * event["dur"], about["op_name"], shape_text(shapes))


def _providers(ort: Any, device: str) -> list[Any]:
    if device == "cpu":
        return [CPU]
    ort.preload_dlls()  # the libraries of CUDA are packages beside it
    # By default it rounds the operands of products to TF32.
    return [(CUDA, {"use_tf32": "0"}), CPU]


def open_engine(
    model: str,
    *,
    threads: int | None,
    inputs: Inputs,
    optimise: bool = True,
    device: str = "cpu",
    options: Mapping[str, Any] = MappingProxyType({}),
) -> OnnxRuntime:
    """Load a model file; without ``optimise`` its graph runs as it is. ``options`` are those of the session."""
    return OnnxRuntime(model, threads=threads, inputs=inputs, optimise=optimise, device=device, options=options)
