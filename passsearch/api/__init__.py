"""The functions a notebook calls; the command line prints their results."""

from passsearch.api.ablation import ablate
from passsearch.api.application import apply
from passsearch.api.benchmark import bench
from passsearch.api.catalog import catalog_entry
from passsearch.api.common import Progress, session
from passsearch.api.comparison import analyze, compare
from passsearch.api.compiled_network import CompiledNetwork, load
from passsearch.api.compiling import compile  # noqa: A004 -- the name that users of torch.compile expect
from passsearch.api.exploration import check_space, explore
from passsearch.api.pipeline_file import LoadedPipeline, load_pipeline
from passsearch.api.profiling import profile
from passsearch.api.recommending import recommend
from passsearch.api.regressing import regress
from passsearch.api.reproducing import reproduce
from passsearch.api.results import AppliedPipeline, Recommendation
from passsearch.api.trying import try_kernel
from passsearch.api.tuning import Best, TuneResult, audit, tune
from passsearch.api.tvm_pass import pipeline
from passsearch.standalone.deployment.machine_pool import InputError

__all__ = [
    "AppliedPipeline",
    "Best",
    "CompiledNetwork",
    "InputError",
    "LoadedPipeline",
    "Progress",
    "Recommendation",
    "TuneResult",
    "ablate",
    "analyze",
    "apply",
    "audit",
    "bench",
    "catalog_entry",
    "check_space",
    "compare",
    "compile",
    "explore",
    "load",
    "load_pipeline",
    "pipeline",
    "profile",
    "recommend",
    "regress",
    "reproduce",
    "session",
    "try_kernel",
    "tune",
]
