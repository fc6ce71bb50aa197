"""``explore`` and ``catalog learn`` as a user types them."""

import json
from functools import partial
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

import pytest
import yaml

from passsearch import cli
from passsearch.toolchain import Toolchain

PASSES = "SimplifyInference,FoldConstant,FuseOps"


class Answer(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def typed(capsys: pytest.CaptureFixture[str]) -> object:
    def run(*arguments: object) -> Answer:
        code = cli.main([str(argument) for argument in arguments])
        return Answer(code, *capsys.readouterr())

    return run


@pytest.mark.toolchain
def test_a_space_is_explored_drawn_checked_and_learned_from(
    typed, relay: Toolchain, small_network: Path, tmp_path: Path
) -> None:
    explore = partial(typed, "explore", small_network, "--toolchain", relay.name)
    out, picture, learned = (tmp_path / name for name in ("space.json", "space.svg", "learned.yaml"))
    told = explore("--passes", PASSES, "--out", out, "--picture", picture)
    assert told.code == 0 and "closed: " in told.out and "no sequence of these passes" in told.out
    assert "s, remembered for later runs" in " ".join(told.out.split())
    document = json.loads(out.read_text())
    assert document["remembered"]
    circles = ElementTree.parse(picture).getroot().findall("{http://www.w3.org/2000/svg}circle")
    assert len(circles) == document["states"] == len(document["graph"]["states"])

    again = explore("--passes", PASSES, "--json")
    assert json.loads(again.out)["tried"] == 0, "everything was known"
    afresh = json.loads(explore("--passes", PASSES, "--fresh", "--json").out)
    assert afresh["tried"] > 0 and not afresh["remembered"]

    held = explore("--check", out, "--sample", 4)
    assert held.code == 0 and "4 of " in held.out and "all as certified" in held.out
    document["graph"]["table"][0] = [0, 0, 0]
    out.write_text(json.dumps(document))
    broken = explore("--check", out, "--json")
    assert broken.code == 1 and not json.loads(broken.out)["holds"]

    assert typed("catalog", "learn", out, "--out", learned).code == 0
    assert document["classes"][0] in yaml.safe_load(learned.read_text())["learned"]


@pytest.mark.toolchain
@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (("--passes", "FoldConst"), "Unknown pass `FoldConst` in dialect `relay`; did you mean `FoldConstant`?"),
        (("--passes", "FuseOps{level=1}"), "Unknown parameter `level` of pass `FuseOps`"),
        (("--out", "no/such/folder/space.json"), "Cannot write `no/such/folder/space.json`: there is no folder"),
        (("--check", "nowhere.json"), "Cannot read the certificate `nowhere.json`"),
    ],
)
def test_a_mistake_is_one_line(typed, relay: Toolchain, small_network: Path, arguments, line: str) -> None:
    answer = typed("explore", small_network, "--toolchain", relay.name, *arguments)
    assert answer.code == 2 and line in answer.err and answer.err.count("error:") == 1


def test_what_is_no_space_is_refused(typed, tmp_path: Path) -> None:
    (tmp_path / "other.json").write_text("{}")
    answer = typed("catalog", "learn", tmp_path / "other.json")
    assert answer.code == 2 and "holds no explored space" in answer.err
