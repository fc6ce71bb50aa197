"""MXNet's symbols with parameters beside them. MXNet must be imported before TVM, or the process dies."""

from collections.abc import Mapping
from pathlib import Path

import mxnet
import tvm
from tvm import relay

from passsearch.dialects.contract import ModelSource
from passsearch.errors import UserError


def read(source: ModelSource) -> tuple[tvm.IRModule, Mapping[str, tvm.nd.NDArray]]:
    """The symbol's graph.

    Raises:
        UserError: Symbol or parameters cannot be read, or an input is missing, which the files give no shape of.
    """
    try:
        symbol = mxnet.symbol.load(str(source.path))
        saved = mxnet.nd.load(str(_parameters(source.path)))
    except mxnet.MXNetError as error:
        reason = str(error).strip().splitlines()[-1]
        raise UserError(
            f"Cannot read `{source.path}` and its parameters ({reason}); export the block again."
        ) from error
    values = {key.partition(":")[2] or key: array for key, array in saved.items()}
    open_ones = [name for name in symbol.list_inputs() if name not in values]
    missing = [name for name in open_ones if name not in source.inputs]
    if missing:
        raise UserError(
            f"MXNet files give no shape of input `{missing[0]}`; "
            f"give it, for example: --input {missing[0]}:float32[1,3,224,224]"
        )
    auxiliary = set(symbol.list_auxiliary_states())
    module, params = relay.frontend.from_mxnet(
        symbol,
        {name: kind.shape for name, kind in source.inputs.items()},
        {name: kind.dtype for name, kind in source.inputs.items()},
        arg_params={name: array for name, array in values.items() if name not in auxiliary},
        aux_params={name: array for name, array in values.items() if name in auxiliary},
    )
    return module, params


def _parameters(symbol: Path) -> Path:
    """``NAME-0007.params`` of the last epoch, or ``NAME.params``."""
    name = symbol.name.removesuffix("-symbol.json")
    return max(symbol.parent.glob(f"{name}-[0-9][0-9][0-9][0-9].params"), default=symbol.with_name(f"{name}.params"))
