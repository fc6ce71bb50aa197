"""Importer of MXNet's symbol files and their parameter files."""

from collections.abc import Mapping, Sequence
from typing import Any

import mxnet  # before TVM, or the process crashes
import tvm
from tvm import relay

from passsearch.dialects.contract import Array, ModelSource, SourceNetwork
from passsearch.errors import UserError


def read(source: ModelSource) -> tuple[tvm.IRModule, Mapping[str, tvm.nd.NDArray]]:
    """Return the symbol's graph and its parameters.

    Raises:
        UserError: MXNet cannot read the symbol or the parameters.
    """
    symbol, values = _load(source)
    auxiliary = set(symbol.list_auxiliary_states())
    module, params = relay.frontend.from_mxnet(
        symbol,
        {name: kind.shape for name, kind in source.inputs.items()},
        {name: kind.dtype for name, kind in source.inputs.items()},
        arg_params={name: array for name, array in values.items() if name not in auxiliary},
        aux_params={name: array for name, array in values.items() if name in auxiliary},
    )
    return module, params


def _load(source: ModelSource) -> tuple[Any, dict[str, Any]]:
    """Return the symbol, and its parameters by name."""
    try:
        symbol = mxnet.symbol.load(str(source.path))
        saved = mxnet.nd.load(str(source.parameters))
    except mxnet.MXNetError as error:
        reason = str(error).strip().splitlines()[-1]
        raise UserError(
            f"Cannot read `{source.path}` and its parameters ({reason}); export the block again."
        ) from error
    return symbol, {key.removeprefix("arg:").removeprefix("aux:"): array for key, array in saved.items()}


def open_source(source: ModelSource) -> SourceNetwork:
    """Open a network as MXNet runs it."""
    return MxnetNetwork(source)


class MxnetNetwork(SourceNetwork):
    """A symbol with its parameters as MXNet runs it on the CPU."""

    def __init__(self, source: ModelSource) -> None:
        self._symbol, values = _load(source)
        self._inputs = source.inputs
        names = {*self._symbol.list_arguments(), *self._symbol.list_auxiliary_states()}
        self._values = {name: array for name, array in values.items() if name in names}
        self.runtime = f"MXNet {mxnet.__version__}"
        self.output_names = self._symbol.list_outputs()

    def run(self, inputs: Mapping[str, Array]) -> Sequence[Array]:
        """Run one inference.

        Raises:
            UserError: MXNet cannot run the network.
        """
        try:
            named = {name: mxnet.nd.array(array, dtype=array.dtype) for name, array in inputs.items()}
            auxiliary = set(self._symbol.list_auxiliary_states())
            everything = {**self._values, **named}
            executor = self._symbol.bind(
                mxnet.cpu(),
                {name: everything[name] for name in self._symbol.list_arguments() if name in everything},
                aux_states={name: everything[name] for name in auxiliary},
                grad_req="null",
            )
            return [output.asnumpy() for output in executor.forward(is_train=False)]
        except mxnet.MXNetError as error:
            raise UserError(f"{self.runtime} cannot run it ({str(error).strip().splitlines()[-1]})") from error
