"""The options that functions and commands share: one default, one sentence and one check."""

import inspect
import re
from collections.abc import Callable
from typing import Any

import pytest

import passsearch
from passsearch.core import OPTIONS, RULES, Limits, NetworkOptions

NAMES = (
    *("tune", "analyze", "apply", "compare", "compile", "bench", "explore", "check_space", "ablate", "audit"),
    *("catalog_entry", "load_pipeline", "pipeline", "profile", "session"),
)
FUNCTIONS = [getattr(passsearch, name) for name in NAMES]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_functions_have_the_defaults_of_the_options_and_a_text_for_every_argument(function: Callable[..., Any]) -> None:
    parameters = inspect.signature(function).parameters
    shared = {name: parameter.default for name, parameter in parameters.items() if name in OPTIONS}
    assert shared and shared == {name: OPTIONS[name].default for name in shared}
    entries = re.findall(r"^    (\w+): \S", inspect.getdoc(function) or "", flags=re.MULTILINE)
    assert [name for name in entries if name in parameters] == list(parameters)


def test_the_text_of_an_option_is_the_same_wherever_it_is_no_other() -> None:
    text = " ".join(str(inspect.getdoc(passsearch.compare)).split())
    for name in ("target", "samples", "keep_symbolic", "catalogs", "deadline"):
        assert f"{name}: {OPTIONS[name].description}" in text
    assert "True to compile one function" in text and "``prefill:0.1,decode:0.9``" in text
    assert "trust: True to use passes that only the file names." in str(passsearch.load_pipeline.__doc__)


def test_an_option_is_checked_by_its_own_rule() -> None:
    assert all(RULES[name] is option.rule for name, option in OPTIONS.items() if option.rule)


def test_a_record_takes_its_options_from_the_arguments_of_a_function() -> None:
    arguments = {"model": "zoo:resnet18", "batch": 8, "memory": 2.0}
    assert NetworkOptions.of(arguments) == NetworkOptions(batch=8) and Limits.of(arguments) == Limits(memory=2.0)
