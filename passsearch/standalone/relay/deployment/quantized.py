"""The lowering of quantised operators that TVM's build leaves out at opt level 0."""

from __future__ import annotations

from typing import Any

import tvm
from tvm import relay


def canonicalize_quantized(module: Any, *, opt_level: int) -> Any:
    """Return the module without quantised operators, if a build at this level would leave them in.

    They have no kernels on a CPU. ``qnn.CanonicalizeOps`` writes them with plain operators. Its own opt level is 1, so
    TVM's build does not run it at level 0 and then refuses the module (``GetPassPrefix`` in
    src/relay/backend/utils.cc).
    """
    if opt_level > 0 or not any(name.startswith("qnn.") for name in relay.analysis.list_op_freqs(module)):
        return module
    with tvm.transform.PassContext(opt_level=1):
        return relay.qnn.transform.CanonicalizeOps()(module)
