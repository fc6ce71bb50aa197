"""Front end for TensorFlow and TFLite files; the importer in the worker reads their content."""

from pathlib import Path

from passsearch.frontends.model_file import ModelFile, digest_files
from passsearch.frontends.request import ModelRequest


def from_path(path: Path, request: ModelRequest) -> ModelFile:
    """Return a SavedModel's folder, a frozen graph or a TFLite file; the importer binds the inputs."""
    files = sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path]
    return ModelFile(
        path,
        "tflite" if path.suffix == ".tflite" else "tensorflow",
        path.name if path.is_dir() else path.stem,
        request.source,
        digest_files(files),
        dict(request.inputs),
        request.batch,
    )
