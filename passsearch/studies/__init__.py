"""Questions about runs and pipelines above the search: comparisons, audits, ablations, certificates, profiles."""

from passsearch.studies.ablation import ablate_run
from passsearch.studies.audit import audit_run, recorded_sequence
from passsearch.studies.certificate import check_certificate, explored_space, read_closure
from passsearch.studies.comparison import compare_candidates
from passsearch.studies.comparison_records import CACHES, CF22, PAIRED, PROTOCOLS, ComparisonOptions, Side
from passsearch.studies.profiling import profile_candidates
from passsearch.studies.referee import FASTER, SLOWER, KernelQuestion, Trial, try_foreign_kernel
from passsearch.studies.regression import find_regression, regression_side
from passsearch.studies.regression_exchange import candidate_exchanges, setting_exchanges
from passsearch.studies.regression_kernels import kernel_differences
from passsearch.studies.regression_records import AFTER, BEFORE, RegressionFindings, RegressionQuestion, Variant
from passsearch.studies.reproduction import REPORT as REPRODUCTION
from passsearch.studies.reproduction import FaultQuestion, reproduce_fault
from passsearch.studies.schedule_learning import learn_schedules

__all__ = [
    "AFTER",
    "BEFORE",
    "CACHES",
    "CF22",
    "FASTER",
    "PAIRED",
    "PROTOCOLS",
    "REPRODUCTION",
    "SLOWER",
    "ComparisonOptions",
    "FaultQuestion",
    "KernelQuestion",
    "RegressionFindings",
    "RegressionQuestion",
    "Side",
    "Trial",
    "Variant",
    "ablate_run",
    "audit_run",
    "candidate_exchanges",
    "check_certificate",
    "compare_candidates",
    "explored_space",
    "find_regression",
    "kernel_differences",
    "learn_schedules",
    "profile_candidates",
    "read_closure",
    "recorded_sequence",
    "regression_side",
    "reproduce_fault",
    "setting_exchanges",
    "try_foreign_kernel",
]
