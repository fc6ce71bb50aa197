"""Questions about runs and pipelines above the search: comparisons, audits, ablations, certificates, profiles."""

from passsearch.studies.ablation import ablate_run
from passsearch.studies.audit import audit_run, recorded_sequence
from passsearch.studies.certificate import check_certificate, explored_space, read_closure
from passsearch.studies.comparison import compare_candidates
from passsearch.studies.comparison_records import CACHES, CF22, PAIRED, PROTOCOLS, ComparisonOptions, Side
from passsearch.studies.profiling import profile_candidates
from passsearch.studies.referee import SLOWER, KernelQuestion, Trial, try_foreign_kernel
from passsearch.studies.reproduction import REPORT as REPRODUCTION
from passsearch.studies.reproduction import FaultQuestion, reproduce_fault
from passsearch.studies.schedule_learning import learn_schedules

__all__ = [
    "CACHES",
    "CF22",
    "PAIRED",
    "PROTOCOLS",
    "REPRODUCTION",
    "SLOWER",
    "ComparisonOptions",
    "FaultQuestion",
    "KernelQuestion",
    "Side",
    "Trial",
    "ablate_run",
    "audit_run",
    "check_certificate",
    "compare_candidates",
    "explored_space",
    "learn_schedules",
    "profile_candidates",
    "read_closure",
    "recorded_sequence",
    "reproduce_fault",
    "try_foreign_kernel",
]
