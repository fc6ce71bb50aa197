"""Front ends: they turn a network of any framework into a model file that a worker can load."""

from passsearch.frontends.call_form import CallForm, call_form, read_form
from passsearch.frontends.foreign import find_code
from passsearch.frontends.model_file import ModelFile, cache_file_name, digest_files, save_file, temporary_subfolder
from passsearch.frontends.onnx_network import OnnxNetwork, fixed_onnx, resolve_onnx
from passsearch.frontends.onnx_parts import OnnxParts, Part
from passsearch.frontends.onnx_simplification import simplifier_version, simplify_onnx
from passsearch.frontends.onnx_sizes import sizes_of
from passsearch.frontends.onnx_values import first_difference, with_all_values
from passsearch.frontends.resolve import ZOO, resolve
from passsearch.frontends.torch_values import with_all_program_values

__all__ = [
    "ZOO",
    "CallForm",
    "ModelFile",
    "OnnxNetwork",
    "OnnxParts",
    "Part",
    "cache_file_name",
    "call_form",
    "digest_files",
    "find_code",
    "first_difference",
    "fixed_onnx",
    "read_form",
    "resolve",
    "resolve_onnx",
    "save_file",
    "simplifier_version",
    "simplify_onnx",
    "sizes_of",
    "temporary_subfolder",
    "with_all_program_values",
    "with_all_values",
]
