"""Options of commands that are stated with those of the API's functions."""

from collections.abc import Iterator
from typing import Any

import pytest
import typer

from passsearch.cli.app import application
from passsearch.cli.options import Shared, share_options
from passsearch.core import OPTIONS


def _options(command: Any, words: str = "") -> Iterator[tuple[str, Any]]:
    for name, inner in getattr(command, "commands", {}).items():
        yield from _options(inner, f"{words} {name}")
    yield from ((words, option) for option in command.params if option.name in OPTIONS)


def test_the_help_of_a_command_has_the_text_of_the_option() -> None:
    texts = {(words, each.name): each.help for words, each in _options(typer.main.get_command(application()))}
    own = {(" tune", "timeout")}
    for (words, name), text in texts.items():
        stated = OPTIONS[name].text
        assert text in (stated, f"{stated[:-1]}; repeatable.") or (words, name) in own, (words, name)
    assert {name for _, name in texts} == {*OPTIONS} - {"example_inputs", "plans"}


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], {"tolerance": None, "catalogs": (), "trust": False}),
        (["--tolerance", "0", "--catalog", "a.yaml", "--catalog", "b.yaml"], {"tolerance": 0.0, "trust": False}),
    ],
)
def test_a_command_gets_the_values_of_its_shared_options(words: list[str], expected: dict[str, object]) -> None:
    got: dict[str, Any] = {}

    @share_options("tolerance", "catalogs", "trust")
    def command(*, shared: Shared) -> None:
        got.update(shared)

    app = typer.Typer()
    app.command()(command)
    typer.main.get_command(app)(words, standalone_mode=False)
    assert got.keys() == {"tolerance", "catalogs", "trust"} and expected.items() <= got.items()
    assert [str(file) for file in got["catalogs"]] == words[3::2]
