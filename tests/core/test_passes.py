"""Tests of the text form and the JSON form of pipelines."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from passsearch.core import PassSpec, Pipeline
from passsearch.errors import UserError

NAMES = st.from_regex(r"[A-Za-z][A-Za-z0-9_.]{0,12}", fullmatch=True).filter(lambda name: name[-1] not in "._")
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
KEYS = st.from_regex(r"[a-z_]{1,8}", fullmatch=True)
SPECS = st.builds(lambda name, args: PassSpec.of(name, **args), NAMES, st.dictionaries(KEYS, VALUES, max_size=3))


@given(st.lists(SPECS, max_size=5))
def test_print_and_parse_are_inverse(specs: list[PassSpec]) -> None:
    pipeline = Pipeline(tuple(specs))
    assert Pipeline.parse(str(pipeline)) == pipeline
    assert Pipeline.from_json(pipeline.to_json()) == pipeline  # type: ignore[arg-type]


@pytest.mark.parametrize("text", ["A{", "B,A{x=1", "A{x=", "A{x=[1,2]"])
def test_an_open_brace_is_named(text: str) -> None:
    with pytest.raises(UserError, match=r"ends without its `\}`") as error:
        Pipeline.parse(text)
    assert text in str(error.value)


@pytest.mark.parametrize("text", ["A,", "A{x=},B", "A{x=1", "A B", ",A", "A{1}", "A}"])
def test_malformed_text_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(UserError) as error:
        Pipeline.parse(text)
    assert "\n" not in str(error.value) and "catalog list" in str(error.value)
