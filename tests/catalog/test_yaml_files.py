"""Files in YAML of other users: what makes them large or wrong is refused in one line."""

import pytest

from passsearch.catalog.yaml_files import parse_yaml
from passsearch.errors import UserError

BOMB = "\n".join(f"a{place}: &a{place} [{', '.join([f'*a{place - 1}' if place else 'x'] * 9)}]" for place in range(12))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (BOMB, "anchors make more than 200,000 values"),
        (BOMB.replace("[", "{<<: [").replace("]", "]}"), "anchors make more than|mapping"),
        ("a: &a [*a]", "an anchor holds itself"),
        ("a: &a {<<: *a}", "an anchor holds itself"),
        ("[" * 100_000, "nesting depth|nested too deeply"),
        ("a: !!python/object/apply:os.system [true]", "could not determine a constructor"),
        (f"a: {'1' * 10_000}", "not valid YAML"),
        (f"a: 0x{'f' * 10_000}", "a number over 64 bits"),
        ("a: 2026-99-99", "not valid YAML"),
    ],
)
def test_a_text_that_is_larger_than_it_looks_is_refused(text: str, message: str) -> None:
    with pytest.raises(UserError, match=message) as refusal:
        parse_yaml(text, "FILE")
    assert "\n" not in str(refusal.value)


def test_anchors_and_merges_are_read() -> None:
    assert parse_yaml("a: &a {b: 1}\nc: {<<: *a, d: 2}\ne: [*a, *a]", "FILE") == {
        "a": {"b": 1},
        "c": {"b": 1, "d": 2},
        "e": [{"b": 1}, {"b": 1}],
    }
