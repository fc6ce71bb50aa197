"""Relay's ``FoldConstant``, evaluated by numpy instead of one JIT compilation per constant call.

TVM compiles every call on constants separately, about 30 ms a call. Here numpy evaluates the operators whose results
equal those of LLVM's code bit for bit (``evaluators.py``), and TVM's own pass then folds the other calls. The resulting
IR is the one that TVM alone would make. The rules for which calls are folded (``folder.py``) are those of
``src/relay/transforms/fold_constant.cc`` (TVM 0.16); a call in doubt is left to TVM.
"""

from .evaluators import EVALUATED_OPERATORS, Types
from .folder import Folder, flatten_arguments
from .passes import DynamicToStatic, FoldConstant, FoldScaleAxis

__all__ = [
    "EVALUATED_OPERATORS",
    "DynamicToStatic",
    "FoldConstant",
    "FoldScaleAxis",
    "Folder",
    "Types",
    "flatten_arguments",
]
