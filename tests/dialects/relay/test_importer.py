"""What importing does to a network, and how it is kept."""

from typing import Any


def test_matrix_products_take_their_fast_form_and_stay_the_same(cases: Any) -> None:
    *products, parallel, apart = cases("importer_cases.py")
    assert len(products) == 6
    for case in products:
        assert case["operators"] == [case["case"].partition(" of ")[0]], case
        assert case["same"], case
    assert parallel["one value"] and parallel["same"] and parallel["idempotent"], "parallel layers are seen as such"
    assert apart["equal"] and apart["large ones only"], "IR is read back as it was, weights from beside it"
