"""``torch.compile(module, backend="passsearch")``: the recommended pipeline inside PyTorch.

A part of the program is compiled in a process of the toolchain, like every network, and its build is loaded into the
caller's process. So a compiler that crashes, hangs or takes too much memory ends its own process only, and the part
runs eagerly.
"""

import logging
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any
from weakref import WeakValueDictionary

from passsearch.api.compiled_function import own_toolchain
from passsearch.api.compiled_network import CompiledNetwork
from passsearch.api.compiling import compile  # noqa: A004 -- the name that users of torch.compile expect
from passsearch.dialects import dialect
from passsearch.errors import EnvironmentFault, PassSearchError, UserError

EXTRA = "torch-compile"
"""The extra of the package with what the backend needs."""

OPTIONS = ("pipeline", "seconds", "target", "tolerance", "deadline", "memory", "catalogs", "trust")
"""Options of ``compile`` that ``torch.compile(…, options={…})`` may give."""

_log = logging.getLogger(__name__)

_networks: "WeakValueDictionary[Any, CompiledNetwork]" = WeakValueDictionary()
"""Networks of parts that are in use; while one is, its weights are kept, so their addresses identify them."""


def compile_graph(
    graph: Any, examples: Sequence[Any], *, options: Mapping[str, Any] | None = None, mode: str | None = None
) -> Callable[..., Any]:
    """Compile a graph that Dynamo has cut out of a program; PyTorch calls this function.

    A part that cannot be compiled runs eagerly, with a ``RuntimeWarning`` that names it.

    Args:
        graph: The graph.
        examples: Its arguments.
        options: Some of the options of ``passsearch.compile``: see ``OPTIONS``.
        mode: A mode of PyTorch's own compiler; there is none here.

    Raises:
        UserError: An option is unknown, or the graph is in training mode.
        EnvironmentFault: This interpreter has no TVM that compiled networks load into.
    """
    given = _options(options, mode)
    _require_compiler()
    dynamo: Any = import_module("passsearch.frontends.torch_dynamo")
    with dynamo.outside_inference_mode():
        part = dynamo.GraphPart(graph, examples)
        part.refuse_training()
        network = _network(part, given, dynamo.LEAST_OPERATORS, dynamo.tell_eager)
    function: Callable[..., Any] = part.eager() if network is None else part.function(network)
    return function


def _network(
    part: Any, options: Mapping[str, Any], least_operators: int, tell_eager: Callable[[str, str], None]
) -> CompiledNetwork | None:
    """Return the compiled network of a part; ``None`` if it must run eagerly."""
    if part.operators < least_operators:
        _log.info("%s is too small to be compiled", part.name)
        return None
    if reason := part.obstacle():
        tell_eager(part.name, reason)
        return None
    # Dynamo gives the same graph again where gradients are switched on or off.
    key = part.key, repr(sorted(options.items()))
    try:
        network = _networks.get(key) or compile(part.module, part.examples, rivals=[], progress=False, **options)
        network.load()
    except PassSearchError as error:
        tell_eager(part.name, str(error).rstrip("."))
        return None
    _networks[key] = network
    return network


def _options(options: Mapping[str, Any] | None, mode: str | None) -> dict[str, Any]:
    if mode not in (None, "default"):
        raise UserError(f"The backend passsearch has no mode `{mode}`; leave `mode` out.")
    unknown = [name for name in options or {} if name not in OPTIONS]
    if unknown:
        raise UserError(f"Unknown option `{unknown[0]}` of the backend passsearch; it has: {', '.join(OPTIONS)}.")
    return dict(options or {})


def _require_compiler() -> None:
    own = own_toolchain()
    if own is None or not dialect(own.dialect).opener:
        raise EnvironmentFault(
            f"The backend passsearch needs TVM beside PyTorch in {sys.executable}; run: pip install -e '.[{EXTRA}]'"
        )
