"""Relax, the graph IR of TVM 0.20 on. This module needs no TVM; the other modules of this folder do."""

from pathlib import Path

from passsearch.core import BuildOptions, Candidate
from passsearch.dialects.declaration import Dialect, Framework

__all__ = ["DIALECT"]

HERE = Path(__file__).parent

DIALECT = Dialect(
    name="relax",
    # Only 0.27 is tested; TVM changes Relax's Python interface from release to release.
    tvm_versions=((0, 27), (0, 28)),
    bridge="passsearch.dialects.relax.bridge:RelaxBridge",
    packaged_version="0.27.0.post1",
    saver="passsearch.dialects.relax.ir_file:save",
    tiles_for_threads=True,
    has_cases=True,
    opener="passsearch.dialects.relax.compiled:open_network",
    pipeline_maker="passsearch.dialects.relax.tvm_pass:as_pass",
    checker="passsearch.dialects.relax.check:check_entry",
    padding_prover="passsearch.dialects.relax.padding:prove_padding",
    weight_rounding="passsearch.dialects.relax.rounded_network:WeightRounding",
    kernel_access="passsearch.dialects.relax.foreign_kernels:RelaxKernels",
    # Relax has no opt levels; the levels here are those of ``lowering.py``.
    baselines=(
        Candidate(build=BuildOptions(opt_level=0), name="none"),
        Candidate(build=BuildOptions(opt_level=1), name="zero"),
        Candidate(build=BuildOptions(opt_level=3), name="default"),
    ),
    default_baseline="default",
    # TVM's build has no schedules: BERT-base takes 25 s for one inference by it on a processor where it takes 0.2 s by
    # these. If the baseline, which has none, disagrees, the reference is made anew without passes.
    reference_passes=("LegalizeOps", "ScheduleCPU"),
    isolated_imports={"exported": ("torch",)},
    requirements=HERE / "requirements",
    frameworks=(
        # Compiles and runs for CUDA on a machine with and without a device.
        Framework("cuda", disk_bytes=600_000_000),
        Framework("torch", disk_bytes=1_200_000_000, requirement="torch==2.13.0"),
    ),
)
