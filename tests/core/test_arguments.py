"""Tests of the rules that arguments of the API and options of the command line share."""

from pathlib import Path

import numpy as np
import pytest

import passsearch
from passsearch.errors import UserError


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"trials": -1}, "`trials` is a whole number from 0 on; got -1. For example: trials=60"),
        ({"trials": "8"}, "`trials` is a whole number from 0 on; got '8'. For example: trials=60"),
        ({"trials": 8.5}, "got 8.5"),
        ({"trials": np.zeros((99, 99))}, "got array([["),
        ({"trials": True}, "got True"),
        ({"trials": None}, "got None"),
        ({"timeout": -5}, "`timeout` is a number from 0 on; got -5. For example: timeout=600"),
        ({"timeout": float("nan")}, "got nan"),
        ({"keep_throughput": 2}, "`keep_throughput` is a number from 0 to 1; got 2. For example: keep_throughput=0.98"),
        ({"batch": 0}, "`batch` is a whole number from 1 on; got 0"),
        ({"seed": -1}, "`seed` is a whole number from 0 to 4294967295; got -1"),
        ({"tolerance": "1e-3"}, "`tolerance` is a number"),
        ({"deadline": 0}, "`deadline` is a number from 1 on; got 0"),
        ({"passes": "FoldConstant"}, "got the single value 'FoldConstant'. Write: passes=['FoldConstant']"),
        ({"passes": [1]}, "`passes` is a list of strings; got [1]"),
        ({"additional": "FoldConstant"}, "Write: additional=['FoldConstant']"),
        ({"catalogs": Path("own.yaml")}, "Write: catalogs=['own.yaml']"),
        ({"objective": 5}, "`objective` is a name or a list of two names; got 5"),
        ({"target": 5}, "`target` is a target as text; got 5"),
        ({"toolchain": 16}, "`toolchain` is the name of a toolchain"),
        ({"out": 3}, "`out` is a run folder; got 3"),
        ({"remember": "no"}, "`remember` is True or False; got 'no'"),
        ({"progress": "yes"}, "`progress` is True, False or a function"),
    ],
)
def test_tune_refuses_an_impossible_argument_in_one_line_before_anything_else(arguments, message):
    with pytest.raises(UserError) as error:
        passsearch.tune("no such network", **arguments)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("function", "positional", "arguments"),
    [
        (passsearch.compare, ("network", "O3"), {}),
        (passsearch.compare, ("network", ["O3"]), {"rounds": 1}),
        (passsearch.compare, ("network", ["O3"]), {"processes": 0}),
        (passsearch.explore, ("network",), {"states": "many"}),
        (passsearch.explore, ("network",), {"depth": 0}),
        (passsearch.check_space, ({}, "network"), {"sample": 0}),
        (passsearch.analyze, ("network",), {"batch": 1.5}),
        (passsearch.audit, (5,), {}),
        (passsearch.session, ("network",), {"deadline": "soon"}),
    ],
)
def test_every_function_checks_its_arguments(function, positional, arguments):
    with pytest.raises(UserError, match=r"^`\w+` is "):
        function(*positional, **arguments)


@pytest.mark.parametrize(
    "arguments",
    [
        {"trials": np.int64(3), "timeout": np.float32(5), "batch": np.int32(1)},
        {"timeout": 5, "keep_throughput": 1, "passes": ("FoldConstant",), "catalogs": [Path("x.yaml"), "y.yaml"]},
        {"progress": True},
        {"progress": print, "objective": ["throughput", "memory"], "target": None},
    ],
)
def test_usual_values_are_accepted(arguments, monkeypatch, tmp_path):
    # No toolchain is there, which is noticed after the arguments.
    monkeypatch.setenv("PASSSEARCH_DATA_DIR", str(tmp_path))
    with pytest.raises(passsearch.errors.EnvironmentFault, match="No toolchain"):
        passsearch.tune("no such network", **arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"model": "zoo:resnet18", "timout": 5}, "`tune` has no argument `timout`; did you mean `timeout`? Its"),
        (
            {"model": "zoo:resnet18", "xyz": 5},
            "`tune` has no argument `xyz`. Its arguments are: model, example_inputs,",
        ),
        ({}, "`tune`: missing a required argument: 'model'. Its arguments are: model, example_inputs,"),
    ],
)
def test_a_call_with_an_unknown_or_a_missing_argument_is_refused(arguments, message):
    with pytest.raises(UserError) as refusal:
        passsearch.tune(**arguments)
    assert message in str(refusal.value)


def test_numbers_of_numpy_become_plain_numbers():
    from passsearch.core import check_arguments

    @check_arguments
    def echo(*, trials=60, timeout=None):
        return trials, timeout

    assert [type(value) for value in echo(trials=np.int64(3), timeout=np.float32(5))] == [int, float]
    assert echo() == (60, None)
