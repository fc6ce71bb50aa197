"""Tests of Keras models; every program runs in its own process, because two frameworks cannot share one."""

import pytest


@pytest.mark.parametrize("program", ["keras_computes.py", "keras_file_names.py", "keras_inputs.py", "keras_files.py"])
def test_keras(run_program, program):
    run_program(program, framework="tensorflow")
