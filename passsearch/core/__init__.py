"""Frozen values and pure functions; standard library only, so that every worker can import them."""

from passsearch.core.architecture import UNKNOWN_CLASS, ArchitectureClass, Feature, Fingerprint
from passsearch.core.arguments import IMPORT, NUMBERS, REFERENCES, RULES, SOURCE, check_arguments
from passsearch.core.candidate import BuildOptions, Candidate
from passsearch.core.cases import MAIN, Calls, Case, read_calls
from passsearch.core.child_environment import child_environment
from passsearch.core.durable import PARTIAL, replace_durably
from passsearch.core.file_name import expand_home, safe_file_name
from passsearch.core.folder_size import folder_bytes
from passsearch.core.inputs import (
    DeclaredInput,
    Dimension,
    InputTypes,
    bind_inputs,
    format_input,
    leading_batch,
    parse_input,
    read_inputs,
    resolve_inputs,
)
from passsearch.core.interruption import ENDING_SIGNALS, interruptible
from passsearch.core.measurement import (
    CODEGEN,
    COMPILE_PARTS,
    CONSTANTS,
    DEADLINE_S,
    FAILURE_KINDS,
    FOLDING,
    LOWERING,
    MACHINE_FAULTS,
    OBJECTIVES,
    PASSES,
    QUANTIZED_LIMIT,
    SPEED_OBJECTIVES,
    STRICT_LIMITS,
    USUAL_REPETITIONS,
    USUAL_TRIALS,
    WRITING,
    Failure,
    FailureKind,
    Interval,
    Measurement,
    Objective,
    allowed_deviation,
    parse_objectives,
    strict_limit,
)
from passsearch.core.notice import NOTICE_LOG
from passsearch.core.outcome import EQUAL, IMPROVED, NO_GAIN, OUTCOMES, UNCONFIRMED, UNDECIDED, verdict_outcome
from passsearch.core.passes import Json, PassSpec, Pipeline, parse_json
from passsearch.core.printable import printable
from passsearch.core.processors import physical_cores, usable_processors
from passsearch.core.step import Step
from passsearch.core.suggestion import suggest_name
from passsearch.core.summary import ModuleSummary, Operator, TensorType
from passsearch.core.timestamp import timestamp
from passsearch.core.trust import require_trust

__all__ = [
    "CODEGEN",
    "COMPILE_PARTS",
    "CONSTANTS",
    "DEADLINE_S",
    "ENDING_SIGNALS",
    "EQUAL",
    "FAILURE_KINDS",
    "FOLDING",
    "IMPORT",
    "IMPROVED",
    "LOWERING",
    "MACHINE_FAULTS",
    "MAIN",
    "NOTICE_LOG",
    "NO_GAIN",
    "NUMBERS",
    "OBJECTIVES",
    "OUTCOMES",
    "PARTIAL",
    "PASSES",
    "QUANTIZED_LIMIT",
    "REFERENCES",
    "RULES",
    "SOURCE",
    "SPEED_OBJECTIVES",
    "STRICT_LIMITS",
    "UNCONFIRMED",
    "UNDECIDED",
    "UNKNOWN_CLASS",
    "USUAL_REPETITIONS",
    "USUAL_TRIALS",
    "WRITING",
    "ArchitectureClass",
    "BuildOptions",
    "Calls",
    "Candidate",
    "Case",
    "DeclaredInput",
    "Dimension",
    "Failure",
    "FailureKind",
    "Feature",
    "Fingerprint",
    "InputTypes",
    "Interval",
    "Json",
    "Measurement",
    "ModuleSummary",
    "Objective",
    "Operator",
    "PassSpec",
    "Pipeline",
    "Step",
    "TensorType",
    "allowed_deviation",
    "bind_inputs",
    "check_arguments",
    "child_environment",
    "expand_home",
    "folder_bytes",
    "format_input",
    "interruptible",
    "leading_batch",
    "parse_input",
    "parse_json",
    "parse_objectives",
    "physical_cores",
    "printable",
    "read_calls",
    "read_inputs",
    "replace_durably",
    "require_trust",
    "resolve_inputs",
    "safe_file_name",
    "strict_limit",
    "suggest_name",
    "timestamp",
    "usable_processors",
    "verdict_outcome",
]
