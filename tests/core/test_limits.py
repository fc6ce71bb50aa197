"""The deviation that rounding can explain."""

import pytest

from passsearch.core import strict_limit


@pytest.mark.parametrize(
    ("dtypes", "quantizes", "limit"),
    [
        (["int64", "bool"], False, 0.0),
        (["float32", "int64"], False, 1024 * 2**-23),
        (["float32", "float16"], False, 64 * 2**-10),
        (["float32", "int8"], True, 8 * 2**-7),
        (["float64", "uint8"], True, 8 * 2**-7),
    ],
)
def test_the_coarsest_rounding_gives_the_limit(dtypes: list[str], quantizes: bool, limit: float) -> None:
    assert strict_limit(dtypes, quantizes=quantizes) == limit


def test_outputs_that_are_only_rounded_to_16_bits_deviate_by_a_step() -> None:
    limits = {kind: strict_limit(["float32", kind], rounded=[kind]) for kind in ("float16", "bfloat16")}
    assert limits == {"float16": 2**-10 + 2**-13, "bfloat16": 2**-7 + 2**-13}
