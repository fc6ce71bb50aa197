"""The importer rewrites matrix products, and an IR file preserves the network."""

from typing import Any


def test_matrix_products_take_their_fast_form_and_stay_the_same(cases: Any) -> None:
    *products, parallel, external = cases("importer_cases.py")
    assert len(products) == 6
    for case in products:
        assert case["operators"] == [case["case"].partition(" of ")[0]], case
        assert case["same"], case
    assert parallel["one value"] and parallel["same"] and parallel["idempotent"], "parallel layers read one value"
    assert external["equal"] and external["large ones only"], "a written IR reads back as the same state"
