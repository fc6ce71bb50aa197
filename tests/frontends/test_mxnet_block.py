"""Tests of gluon blocks and MXNet symbols; every program runs in its own process."""

import pytest


@pytest.mark.parametrize("program", ["mxnet_blocks.py", "mxnet_bad_blocks.py", "mxnet_symbols.py"])
def test_mxnet(run_program, program):
    run_program(program, framework="mxnet")
