"""Relay, the graph IR of TVM 0.8 to 0.19. This module needs no TVM; its siblings load where there is one."""

from pathlib import Path

from passsearch.core import BuildOptions, Candidate
from passsearch.dialects.declaration import CompilerWheel, Dialect, Framework

__all__ = ["DIALECT"]

HERE = Path(__file__).parent

DIALECT = Dialect(
    name="relay",
    tvm_versions=((0, 8), (0, 20)),
    bridge="passsearch.dialects.relay.bridge:RelayBridge",
    script=(HERE / "build_model.py", HERE.with_name("replay.py"), HERE.with_name("linker.py")),
    saver="passsearch.dialects.relay.ir_file:save",
    checker="passsearch.dialects.relay.check:check_entry",
    baselines=tuple(Candidate(build=BuildOptions(opt_level=level), name=f"O{level}") for level in range(5)),
    default_baseline="O3",
    # TVM simplifies at every level, over half of BERT's quickest build (docs/paper.md); a search has both passes.
    builds=(
        BuildOptions(opt_level=0, disabled=("SimplifyExpr", "SimplifyExprPostAlterOp")),
        BuildOptions(opt_level=3),
    ),
    isolated_imports={
        "torchscript": ("torch",),
        "tensorflow": ("tensorflow",),
        "tflite": (),
        "mxnet": ("mxnet",),
    },
    requirements=HERE / "requirements",
    compiler=CompilerWheel(lock="hhb-tvm.txt", python=(3, 10)),
    frameworks=(
        Framework("mxnet", disk_bytes=300_000_000),
        Framework("tensorflow", disk_bytes=1_500_000_000),
        # The room a CPU build needs: what another takes is known only once pip has chosen it.
        Framework("torch", disk_bytes=1_200_000_000, requirement="torch==2.13.0"),
    ),
)
