"""Networks as files that a worker can load, whatever they were given as."""

from passsearch.frontends.model_file import ModelFile, digest_files, kept_name, passing_folder
from passsearch.frontends.resolve import resolve

__all__ = ["ModelFile", "digest_files", "kept_name", "passing_folder", "resolve"]
