"""Advice names options on the command line and arguments in Python."""

import errno

import pytest

import passsearch
from passsearch.cli import main
from passsearch.core import check_arguments
from passsearch.core.advice import in_python
from passsearch.errors import EnvironmentFault, UserError


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("give its sizes, for example: --input x:float32[1,3]", 'give its sizes, for example: inputs="x:float32[1,3]"'),
        ("choose another folder (--out).", "choose another folder (out=)."),
        ("choose another with --to.", "choose another with to=."),
        ("or --trust (trust=True).", "or trust=True."),
        ("choose one: --function decode.", 'choose one: function="decode".'),
        ("give --catalog FILE (catalogs=)", 'give catalogs="FILE"'),
        ("3 are usual (--confirm 3)", "3 are usual (confirm=3)"),
        ("See: passsearch tune --out RUN", "See: passsearch tune --out RUN"),
        (
            "run: passsearch toolchain install relax --with torch; or choose --reference import",
            'run: passsearch toolchain install relax --with torch; or choose reference="import"',
        ),
    ],
)
def test_options_become_arguments_but_not_those_of_commands(text: str, expected: str) -> None:
    assert in_python(text) == expected


def test_an_error_of_the_library_names_arguments_and_a_notebook_shows_one_line() -> None:
    with pytest.raises(UserError, match="No such file") as caught:
        passsearch.tune("missing.onnx", catalogs=[])
    (line,) = caught.value._render_traceback_()
    assert line.startswith("UserError: No such file: `missing.onnx`") and "--" not in line


def test_a_command_in_this_process_changes_no_later_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "zoo:resnet_tiny", "--target", "cpu"]) == 2
    assert "--engines" in capsys.readouterr().err
    with pytest.raises(UserError, match="engines="):
        passsearch.bench("zoo:resnet_tiny", [])


def test_a_full_disk_is_said_to_be_one() -> None:
    @check_arguments
    def write() -> None:
        raise OSError(errno.ENOSPC, "No space left on device", "runs/log.jsonl")

    with pytest.raises(EnvironmentFault, match=r"The disk, on which `runs/log.jsonl` is, is full; make room"):
        write()
