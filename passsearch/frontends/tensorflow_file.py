"""TensorFlow and TFLite files: where they are; only their own frameworks read what is in them."""

from pathlib import Path

from passsearch.frontends.model_file import ModelFile, digest_files
from passsearch.frontends.request import Asked


def from_path(path: Path, asked: Asked) -> ModelFile:
    """A SavedModel by its folder, a frozen graph or a TFLite file; the importer settles the inputs."""
    # The file inside is what a file dialogue yields; its variables are beside it.
    path = path.parent if path.name == "saved_model.pb" else path
    files = sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path]
    return ModelFile(
        path,
        "tflite" if path.suffix == ".tflite" else "tensorflow",
        path.name if path.is_dir() else path.stem,
        asked.source,
        digest_files(files),
        dict(asked.inputs),
        asked.batch,
    )
