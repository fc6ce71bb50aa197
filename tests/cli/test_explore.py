"""``explore`` and ``catalog learn`` as a user runs them."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml

from passsearch.toolchain import Toolchain

Run = Callable[..., Any]
PASSES = "SimplifyInference,FoldConstant,FuseOps"


@pytest.mark.toolchain
def test_explore_writes_draws_checks_and_learns(
    passsearch: Run, relay: Toolchain, small_network: Path, tmp_path: Path
) -> None:
    explore = partial(passsearch, "explore", small_network, "--toolchain", relay.name)
    out, picture, proposal = (tmp_path / name for name in ("space.json", "space.svg", "learned.yaml"))
    answer = explore("--passes", PASSES, "--out", out, "--picture", picture)
    assert answer.code == 0 and "closed: " in answer.out and "no sequence of these passes" in answer.out
    assert "s, stored in the fact cache for later runs" in " ".join(answer.out.split())
    document = json.loads(out.read_text())
    assert document["remembered"]
    circles = ElementTree.parse(picture).getroot().findall("{http://www.w3.org/2000/svg}circle")
    assert len(circles) == document["states"] == len(document["graph"]["states"])

    repeated = explore("--passes", PASSES, "--json")
    assert json.loads(repeated.out)["tried"] == 0, "all facts were cached"
    fresh = json.loads(explore("--passes", PASSES, "--fresh", "--json").out)
    assert fresh["tried"] > 0 and not fresh["remembered"]

    checked = explore("--check", out, "--sample", 4)
    assert checked.code == 0 and "4 of " in checked.out and "all as certified" in checked.out
    document["graph"]["table"][0] = [0, 0, 0]
    out.write_text(json.dumps(document))
    broken = explore("--check", out, "--json")
    assert broken.code == 1 and not json.loads(broken.out)["holds"]

    assert passsearch("catalog", "learn", out, "--out", proposal).code == 0
    assert document["classes"][0] in yaml.safe_load(proposal.read_text())["learned"]


@pytest.mark.toolchain
@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (("--passes", "FoldConst"), "Unknown pass `FoldConst` in dialect `relay`; did you mean `FoldConstant`?"),
        (("--passes", "FuseOps{level=1}"), "Unknown parameter `level` of pass `FuseOps`"),
        (("--out", "no/such/folder/space.json"), "Cannot write `no/such/folder/space.json`: there is no folder"),
        (
            ("--check", "a.json", "--out", "b.json"),
            "`--check` explores nothing, so `--out` has no effect",
        ),
        (("--check", "nowhere.json"), "Cannot read the certificate `nowhere.json`"),
        (("--sample", "5"), "`--sample` and `--seed` choose edges for `--check`"),
        (("--passes", "FuseOps", "--every"), "so `every` has no effect"),
    ],
)
def test_a_mistake_is_one_line(
    passsearch: Run, relay: Toolchain, small_network: Path, arguments: tuple[str, ...], line: str
) -> None:
    answer = passsearch("explore", small_network, "--toolchain", relay.name, *arguments)
    assert answer.code == 2 and line in answer.err and answer.err.count("error:") == 1


def test_a_file_without_a_space_is_refused(passsearch: Run, tmp_path: Path) -> None:
    (tmp_path / "other.json").write_text("{}")
    answer = passsearch("catalog", "learn", tmp_path / "other.json")
    assert answer.code == 2 and "holds no explored space" in answer.err
