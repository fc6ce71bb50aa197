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
