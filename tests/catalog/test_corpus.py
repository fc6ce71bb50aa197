"""The corpus that the catalog ships."""

import json
from importlib.resources import files

from jsonschema import validate

from passsearch.catalog import load, read_corpus
from passsearch.results import Corpus


def test_the_file_agrees_with_its_schema() -> None:
    validate(json.loads(files("pass_catalog").joinpath("relax", "corpus.json").read_text()), Corpus.json_schema())


def test_every_row_names_sequences_of_the_catalog() -> None:
    known = {*load("relax").sequences, "default", "onnxruntime"}
    rows = [row for each in read_corpus("relax").processors.values() for row in each.networks.values()]
    assert rows
    for row in rows:
        assert {*row.rounds_s, *row.order, *row.same, *row.same.values()} <= known
        assert all(seconds > 0 for rounds in row.rounds_s.values() for seconds in rounds)


def test_a_dialect_without_a_corpus_has_an_empty_one() -> None:
    assert not read_corpus("relay").processors
