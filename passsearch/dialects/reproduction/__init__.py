"""Scripts that show one fault of a compiler on one ONNX file, with nothing in them that the fault does not need."""

from passsearch.dialects.reproduction.script import (
    CRASH,
    ONNX,
    ONNX_RUNTIME,
    REFUSAL,
    RUNTIME,
    SECOND,
    SLOW,
    WRONG,
    ScriptForm,
    script_text,
)

__all__ = [
    "CRASH",
    "ONNX",
    "ONNX_RUNTIME",
    "REFUSAL",
    "RUNTIME",
    "SECOND",
    "SLOW",
    "WRONG",
    "ScriptForm",
    "script_text",
]
