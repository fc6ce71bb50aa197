"""The relations of passes that the catalog ships."""

import json
from importlib.resources import files

import pytest
from jsonschema import validate

from passsearch.catalog import describe_name, load, read_relations
from passsearch.results import MeasuredRelations, PassRelations


@pytest.mark.parametrize("dialect", ["relay", "relax"])
def test_the_file_agrees_with_its_schema_and_is_small(dialect: str) -> None:
    text = files("pass_catalog").joinpath(dialect).joinpath("pairs.json").read_text()
    validate(json.loads(text), MeasuredRelations.json_schema())
    assert len(text) < 200_000


@pytest.mark.parametrize("dialect", ["relay", "relax"])
def test_every_relation_is_of_passes_of_the_catalog_and_has_a_witness(dialect: str) -> None:
    shipped, known = read_relations(dialect), load(dialect).entries
    assert shipped is not None
    for firsts in shipped.relations.values():
        for first, seconds in firsts.items():
            for second, (seen, contradicted, witness) in seconds.items():
                assert first in known and second in known
                assert seen > 0 <= contradicted
                assert shipped.witnesses[witness][0] in shipped.networks


def test_a_pass_is_described_with_its_relations() -> None:
    document = describe_name("FuseTIR", ["relay", "relax"])
    validate(document["relations"], PassRelations.json_schema())
    pairs = PassRelations.from_json(document["relations"]).pairs  # type: ignore[arg-type]
    assert all("FuseTIR" in (each.first, each.second) for each in pairs)
    assert ("enables", "FuseOps", "FuseTIR") in {(each.relation, each.first, each.second) for each in pairs}


def test_a_dialect_without_measurements_and_a_sequence_have_no_relations() -> None:
    assert read_relations("other") is None
    assert "relations" not in describe_name("schedule-cpu", ["relax"])
