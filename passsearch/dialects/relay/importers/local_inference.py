"""Type inference and constant folding for TVM's importers that look at the operators of one step only.

TVM's importers infer the types of the whole graph so far, and fold its constants, for every operator they convert, and
every fold of a shape is a JIT compilation: BERT-base took 35 s of processor time, nearly all of it here. Everything
behind an operator that was converted before is typed and folded already. These functions stop there, and numpy
evaluates what is left.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any
from unittest import mock

import tvm
from tvm import relay
from tvm.relay.frontend import common

from passsearch.standalone.relay.graph_rewrites.fold_constant import Folder, Types, flatten_arguments


@contextmanager
def local_inference(importer: ModuleType) -> Iterator[None]:
    """Let one of TVM's importers, a module of ``tvm.relay.frontend``, infer types and fold constants step by step."""
    infer, fold = _local_infer_type(common.infer_type), _local_fold(common.fold_constant)
    with (
        mock.patch.object(common, "infer_type", infer),
        mock.patch.multiple(importer, infer_type=infer, fold_constant=fold),
    ):
        yield


def dtype_of(value: Any) -> str:
    """Return the dtype of an expression of the importer."""
    # Looked up at each call, because `local_inference` replaces the function.
    return str(common.infer_type(value).checked_type.dtype)


def _local_infer_type(infer_all: Callable[..., Any]) -> Callable[..., Any]:
    def infer_type(node: Any, mod: tvm.IRModule | None = None) -> Any:
        return node if mod is None and _set_type(node) else infer_all(node, mod)

    return infer_type


def _local_fold(fold_all: Callable[..., Any]) -> Callable[..., Any]:
    def fold_constant(node: Any, mod: tvm.IRModule | None = None) -> Any:
        folder = _StepFolder()
        folded = folder.fold(node)
        if not folder.is_complete:
            folded = fold_all(node, mod)
        _set_type(folded)
        return folded

    return fold_constant


def _set_type(node: Any) -> bool:
    """Infer and set the type of a call or tuple from the types of its nearest typed operands."""
    if not isinstance(node, (relay.Call, relay.Tuple, relay.TupleGetItem)):
        return False
    try:
        relay.transform.InferTypeLocal(node)
    except tvm.TVMError:
        return False
    return True


class _StepFolder(Folder):
    """A folder that stops at operators that the importer has finished, which are those with a span.

    Attributes:
        is_complete: False if a call on constants is left, or a construct that only TVM's own pass knows.
    """

    def __init__(self) -> None:
        super().__init__()
        self.is_complete = True

    def children(self, expr: Any) -> list[Any] | None:
        """Return the expressions below one of this step."""
        below = [] if expr.span is not None else super().children(expr)
        self.is_complete = self.is_complete and below is not None
        return below

    def fold_call(self, call: Any, args: list[Any]) -> Any:
        """Return the constant that replaces a call, ``None`` if it stays."""
        folded = super().fold_call(call, args)
        if folded is None and all(isinstance(arg, relay.Constant) for arg in flatten_arguments(args)):
            self.is_complete = False
        return folded

    def types(self, expr: Any) -> Types | None:
        """Return shapes and dtypes of an expression."""
        _set_type(expr)
        return super().types(expr)
