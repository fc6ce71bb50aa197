"""Importer of MXNet's symbol files and their parameter files."""

from collections.abc import Mapping

import mxnet  # before TVM, or the process crashes
import tvm
from tvm import relay

from passsearch.dialects.contract import ModelSource
from passsearch.errors import UserError


def read(source: ModelSource) -> tuple[tvm.IRModule, Mapping[str, tvm.nd.NDArray]]:
    """Return the symbol's graph and its parameters.

    Raises:
        UserError: MXNet cannot read the symbol or the parameters.
    """
    try:
        symbol = mxnet.symbol.load(str(source.path))
        saved = mxnet.nd.load(str(source.parameters))
    except mxnet.MXNetError as error:
        reason = str(error).strip().splitlines()[-1]
        raise UserError(
            f"Cannot read `{source.path}` and its parameters ({reason}); export the block again."
        ) from error
    values = {key.removeprefix("arg:").removeprefix("aux:"): array for key, array in saved.items()}
    auxiliary = set(symbol.list_auxiliary_states())
    module, params = relay.frontend.from_mxnet(
        symbol,
        {name: kind.shape for name, kind in source.inputs.items()},
        {name: kind.dtype for name, kind in source.inputs.items()},
        arg_params={name: array for name, array in values.items() if name not in auxiliary},
        aux_params={name: array for name, array in values.items() if name in auxiliary},
    )
    return module, params
