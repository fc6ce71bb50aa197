"""Pages and pipelines: tables name sequences that the catalog has, and say which have changed since."""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from passsearch.catalog import load

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    [ROOT / "README.md", *(ROOT / "docs" / "guide").glob("*.md"), *(ROOT / "docs" / "evidence").glob("*.md")]
)
RESULTS = ROOT / "benchmarks" / "results"

TABLES = {
    ("results.md", "### On an AMD EPYC"): "engines/*.json",
    ("results.md", "### On an Intel Xeon"): "engines/xeon/*.json",
    ("compilers.md", "## All engines on eight networks"): "engines/bench/*.json",
    ("compilers.md", "## All engines on a processor without AVX-512"): "engines/bench-avx2/*.json",
    ("relax.md", "## Decoders"): "decoders/*.json",
}
"""Files that a section shows, by page and heading."""

CHANGED = "changed since"


def shipped() -> dict[str, str]:
    """Return the pipeline of each sequence of the catalogs, by name."""
    return {
        name: str(each.pipeline) for dialect in ("relax", "relay") for name, each in load(dialect).sequences.items()
    }


def unknown_sequences(text: str, names: set[str]) -> set[str]:
    """Return what stands in a page's tables like a sequence for a device and is none."""
    lines = [line for line in text.splitlines() if line.lstrip().startswith("|")]
    return {
        name for line in lines for name in re.findall(r"(?<![\w/-])[a-z0-9]+(?:-[a-z0-9]+)*-[cg]pu\b", line)
    } - names


def section(text: str, heading: str) -> str:
    """Return the text from a heading to the next one of the same depth or less."""
    depth = heading.index(" ")
    rest = text[text.index(f"\n{heading}\n") + len(heading) + 2 :]
    end = re.search(rf"^#{{1,{depth}}} ", rest, re.MULTILINE)
    return rest[: end.start()] if end else rest


def measured(files: Iterator[Path]) -> Iterator[tuple[str, str]]:
    """Yield the name and the pipeline of every engine of results that has one."""
    for file in files:
        document: Mapping[str, Any] = json.loads(file.read_text())
        engines = document.get("engines") or {row["engine"]: row for row in document.get("rows", ())}
        for name, row in engines.items():
            if isinstance(row, Mapping) and "pipeline" in row:
                yield name.removeprefix("tvm ").removeprefix("relax:"), row["pipeline"]


def unmarked(text: str, pipelines: Iterator[tuple[str, str]], catalog: Mapping[str, str]) -> set[str]:
    """Return sequences that were measured with other passes than the catalog's and whose section does not say so."""
    stale = {name for name, pipeline in pipelines if name in catalog and pipeline != catalog[name]}
    blocks = [block for block in re.split(r"\n\n|\n\* ", text) if CHANGED in " ".join(block.split())]
    # `winograd-`, `nhwc-schedule-cpu`: a name may be cut at its last two words.
    names = {quoted for block in blocks for quoted in re.findall(r"`([^`]+)`", block)}
    return {name for name in stale if not {name, name.removesuffix("schedule-cpu") or name} & names}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_tables_name_sequences_that_the_catalog_has(page: Path) -> None:
    assert not unknown_sequences(page.read_text(), {*shipped()})


@pytest.mark.parametrize(("page", "heading"), TABLES)
def test_a_section_says_which_of_its_sequences_have_changed_since(page: str, heading: str) -> None:
    text = section((ROOT / "docs" / "evidence" / page).read_text(), heading)
    files = RESULTS.glob(TABLES[page, heading])
    assert not unmarked(text, measured(iter(sorted(files))), shipped())


def test_a_lost_name_and_a_changed_pipeline_are_found() -> None:
    assert unknown_sequences("| resnet18 | lost-schedule-cpu |\nlost-cpu", {"schedule-cpu"}) == {"lost-schedule-cpu"}
    old = [("schedule-cpu", "FuseOps")]
    catalog = {"schedule-cpu": "FuseOps,ScheduleCPU"}
    assert unmarked("| `schedule-cpu` | 1.1 |", iter(old), catalog) == {"schedule-cpu"}
    assert not unmarked("`schedule-cpu` has changed\nsince.", iter(old), catalog)
