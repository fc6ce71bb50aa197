"""Frozen values and pure functions; standard library only, so that every worker can import them."""

from passsearch.core.advice import ON_COMMAND_LINE
from passsearch.core.architecture import UNKNOWN_CLASS, ArchitectureClass, Feature, Fingerprint
from passsearch.core.archive import (
    archive_documents,
    archive_names,
    archive_sizes,
    archive_texts,
    check_archive,
    check_one_root,
)
from passsearch.core.arguments import IMPORT, NUMBERS, REFERENCES, RULES, SOURCE, check_arguments
from passsearch.core.candidate import BuildOptions, Candidate
from passsearch.core.cases import MAIN, Calls, Case, read_calls
from passsearch.core.check_inputs import (
    DTYPE,
    MASK,
    RANGE_SOURCES,
    SAMPLES,
    TABLE,
    UNKNOWN,
    CheckInputs,
    InputRange,
    read_ranges,
)
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
    CHANGE_MARGIN,
    CODEGEN,
    COMPILE_PARTS,
    CONSTANTS,
    DEADLINE_S,
    FAILURE_KINDS,
    FOLDING,
    LOWERING,
    MACHINE_FAULTS,
    PASSES,
    QUANTIZED_LIMIT,
    STRICT_LIMITS,
    USUAL_REPETITIONS,
    USUAL_TRIALS,
    WRITING,
    Failure,
    FailureKind,
    Interval,
    Measurement,
    allowed_deviation,
    strict_limit,
)
from passsearch.core.notice import NOTICE_LOG
from passsearch.core.passes import Json, PassSpec, Pipeline, parse_json
from passsearch.core.printable import printable
from passsearch.core.processors import physical_cores, usable_processors
from passsearch.core.step import Step
from passsearch.core.suggestion import suggest_name
from passsearch.core.summary import ModuleSummary, Operator, TensorType
from passsearch.core.timestamp import timestamp
from passsearch.core.trust import require_trust

__all__ = [
    "CHANGE_MARGIN",
    "CODEGEN",
    "COMPILE_PARTS",
    "CONSTANTS",
    "DEADLINE_S",
    "DTYPE",
    "ENDING_SIGNALS",
    "FAILURE_KINDS",
    "FOLDING",
    "IMPORT",
    "LOWERING",
    "MACHINE_FAULTS",
    "MAIN",
    "MASK",
    "NOTICE_LOG",
    "NUMBERS",
    "ON_COMMAND_LINE",
    "PARTIAL",
    "PASSES",
    "QUANTIZED_LIMIT",
    "RANGE_SOURCES",
    "REFERENCES",
    "RULES",
    "SAMPLES",
    "SOURCE",
    "STRICT_LIMITS",
    "TABLE",
    "UNKNOWN",
    "UNKNOWN_CLASS",
    "USUAL_REPETITIONS",
    "USUAL_TRIALS",
    "WRITING",
    "ArchitectureClass",
    "BuildOptions",
    "Calls",
    "Candidate",
    "Case",
    "CheckInputs",
    "DeclaredInput",
    "Dimension",
    "Failure",
    "FailureKind",
    "Feature",
    "Fingerprint",
    "InputRange",
    "InputTypes",
    "Interval",
    "Json",
    "Measurement",
    "ModuleSummary",
    "Operator",
    "PassSpec",
    "Pipeline",
    "Step",
    "TensorType",
    "allowed_deviation",
    "archive_documents",
    "archive_names",
    "archive_sizes",
    "archive_texts",
    "bind_inputs",
    "check_archive",
    "check_arguments",
    "check_one_root",
    "child_environment",
    "expand_home",
    "folder_bytes",
    "format_input",
    "interruptible",
    "leading_batch",
    "parse_input",
    "parse_json",
    "physical_cores",
    "printable",
    "read_calls",
    "read_inputs",
    "read_ranges",
    "replace_durably",
    "require_trust",
    "resolve_inputs",
    "safe_file_name",
    "strict_limit",
    "suggest_name",
    "timestamp",
    "usable_processors",
]
