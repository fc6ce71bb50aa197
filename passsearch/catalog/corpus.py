"""Reads the corpus that the catalog ships."""

import json
from functools import cache
from importlib.resources import files

from passsearch.results import Corpus


@cache
def read_corpus(dialect: str) -> Corpus:
    """Return what was measured with the sequences of a dialect; empty for a dialect without a corpus."""
    file = files("pass_catalog").joinpath(dialect).joinpath("corpus.json")
    return Corpus.from_json(json.loads(file.read_text(encoding="utf-8"))) if file.is_file() else Corpus("", {})
