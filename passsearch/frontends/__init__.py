"""Front ends: they turn a network of any framework into a model file that a worker can load."""

from passsearch.frontends.foreign_code import find_code
from passsearch.frontends.model_file import ModelFile, cache_file_name, digest_files, temporary_subfolder
from passsearch.frontends.resolve import resolve

__all__ = ["ModelFile", "cache_file_name", "digest_files", "find_code", "resolve", "temporary_subfolder"]
