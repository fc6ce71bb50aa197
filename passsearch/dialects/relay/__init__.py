"""Relay, the graph IR of TVM 0.8 to 0.19. This module needs no TVM; the other modules of this folder do."""

from pathlib import Path

from passsearch.core import BuildOptions, Candidate
from passsearch.dialects.declaration import CompilerWheel, Dialect, Framework

__all__ = ["DIALECT"]

HERE = Path(__file__).parent

DIALECT = Dialect(
    name="relay",
    tvm_versions=((0, 8), (0, 20)),
    bridge="passsearch.dialects.relay.bridge:RelayBridge",
    packaged_version="0.16.dev0",
    saver="passsearch.dialects.relay.ir_file:save",
    checker="passsearch.dialects.relay.check:check_entry",
    baselines=tuple(Candidate(build=BuildOptions(opt_level=level), name=f"O{level}") for level in range(5)),
    default_baseline="O3",
    builds=(
        # TVM runs SimplifyExpr at every opt level, which takes more than half of BERT's shortest build
        # (docs/evidence/paper.md). A pipeline can contain both passes, so lowering alone leaves them out.
        BuildOptions(opt_level=0, disabled=("SimplifyExpr", "SimplifyExprPostAlterOp")),
        BuildOptions(opt_level=3),
    ),
    # MXNet must be imported before TVM, or the process crashes; MXNet and PyTorch crash in one process.
    isolated_imports={
        "torchscript": ("torch",),
        "tensorflow": ("tensorflow",),
        "tflite": (),
        "mxnet": ("mxnet",),
    },
    # Kernels that keep it take 3.5 times as long.
    drops_nan=frozenset(
        {
            *("max", "min", "maximum", "minimum"),
            *("nn.max_pool1d", "nn.max_pool2d", "nn.max_pool3d"),
            *("nn.global_max_pool2d", "nn.adaptive_max_pool1d", "nn.adaptive_max_pool2d", "nn.adaptive_max_pool3d"),
        }
    ),
    requirements=HERE / "requirements",
    # No wheel of this TVM is tagged for a Python above 3.10; it runs on later ones through ctypes.
    compiler=CompilerWheel(lock="hhb-tvm.txt", python=(3, 10)),
    frameworks=(
        Framework("mxnet", disk_bytes=300_000_000),
        Framework("tensorflow", disk_bytes=1_500_000_000),
        # The size of a CPU build. The size of other builds is not known until pip has resolved the requirement.
        Framework("torch", disk_bytes=1_200_000_000, requirement="torch==2.13.0"),
    ),
)
