"""The texts by which users choose functions and sizes, with weights."""

import pytest

from passsearch.core import Calls, Case, TensorType, read_calls
from passsearch.errors import UserError


def test_nothing_chosen_is_main_with_the_users_inputs() -> None:
    inputs = {"x": TensorType((1, 8), "float32")}
    assert read_calls(None, None, inputs) == Calls("", inputs, ())


def test_one_function_or_one_size_is_no_case() -> None:
    assert read_calls("prefill", None, {}) == Calls("prefill", {}, ())
    assert read_calls("prefill", "ids=1x128", {}) == Calls("prefill", {"ids": TensorType((1, 128), "")}, ())


def test_weights_of_sizes_add_up_to_one() -> None:
    calls = read_calls(None, "ids=1x128:3,1x1024:1", {})
    assert [(case.name, case.weight, case.entry) for case in calls.cases] == [
        ("1x128", 0.75, "main_1x128"),
        ("1x1024", 0.25, "main_1x1024"),
    ]
    assert [case.inputs["ids"].shape for case in calls.cases] == [(1, 128), (1, 1024)]


def test_weights_are_equal_by_default() -> None:
    assert [case.weight for case in read_calls("prefill,decode", None, {}).cases] == [0.5, 0.5]


def test_several_inputs_have_as_many_sizes() -> None:
    calls = read_calls(None, ["ids=1x8:0.5,1x16:0.5", "mask=8,16"], {})
    assert [case.inputs["mask"].shape for case in calls.cases] == [(8,), (16,)]
    with pytest.raises(UserError, match="2 of `ids` and 1 of `mask`"):
        read_calls(None, ["ids=1x8,1x16", "mask=8"], {})


def test_an_input_has_one_list_of_sizes_and_a_case_one_weight() -> None:
    with pytest.raises(UserError, match="`ids` are given twice"):
        read_calls(None, ["ids=1x8,1x16", "ids=1x32,1x64"], {})
    with pytest.raises(UserError, match="those of `mask` are not those of `ids`"):
        read_calls(None, ["ids=1x8:0.9,1x16:0.1", "mask=8:0.1,16:0.9"], {})


def test_sizes_keep_the_dtype_that_the_user_states() -> None:
    cases = read_calls(None, ["ids=1x8,1x16"], {"ids": TensorType((1, 8), "int32")}).cases
    assert [case.inputs["ids"] for case in cases] == [TensorType((1, 8), "int32"), TensorType((1, 16), "int32")]


def test_no_sizes_are_no_cases() -> None:
    assert read_calls(None, [], {}) == Calls("", {}, ())


def test_an_input_of_one_function_names_it() -> None:
    inputs = {"prefill.ids": TensorType((1, 128), "int64"), "scale": TensorType((), "float32")}
    first, second = read_calls("prefill:0.1,decode:0.9", None, inputs).cases
    assert set(first.inputs) == {"ids", "scale"}
    assert set(second.inputs) == {"scale"}


@pytest.mark.parametrize(
    ("function", "sizes", "message"),
    [
        ("prefill:0", None, "above 0; got `0`"),
        ("prefill:often", None, "above 0; got `often`"),
        ("prefill,,decode", None, "Each item is a function"),
        ("prefill,prefill", None, "`prefill` is given twice"),
        ("prefill,decode", "ids=1x8,1x16", "Sizes go with one function"),
        (None, "1x8,1x16", "Sizes read INPUT=SIZE:WEIGHT"),
        (None, "ids=1x0", "numbers from 1 on; got `1x0`"),
        (None, "ids=1x8:0.5,1x8:0.5", "`1x8` is given twice"),
        (None, "ids=1*8", "got `1[*]8`"),
        ("prefill-a,prefill.a", None, "`prefill-a` and `prefill.a` have the same letters"),
    ],
)
def test_a_text_of_another_form_is_refused_in_one_line(function: str | None, sizes: str | None, message: str) -> None:
    with pytest.raises(UserError, match=message) as refused:
        read_calls(function, sizes, {})
    assert "\n" not in str(refused.value)


def test_sizes_that_stay_open_are_calls_of_one_function() -> None:
    cases = read_calls(None, "ids=1x128,1x1024", {}, keep_symbolic=True).cases
    assert [(case.name, case.entry, case.is_symbolic) for case in cases] == [
        ("1x128", "main", True),
        ("1x1024", "main", True),
    ]
    assert read_calls(None, "ids=1x128", {}, keep_symbolic=True).cases[0].is_symbolic
    with pytest.raises(UserError, match="measured at sizes that you choose"):
        read_calls(None, None, {}, keep_symbolic=True)


def test_json_preserves_a_case() -> None:
    case = read_calls(None, "ids=1x128:3,1x1024:1", {}).cases[0]
    assert Case.from_json(case.to_json()) == case


def test_an_entry_that_is_no_name_is_refused() -> None:
    data = read_calls("prefill,decode", None, {}).cases[0].to_json()
    with pytest.raises(UserError, match="no entry function"):
        Case.from_json({**data, "entry": "../elsewhere"})
