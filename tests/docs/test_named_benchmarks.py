"""Benchmarks that pages name are there, or in the list of those that were deleted."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
DELETED = ROOT / "benchmarks" / "DELETED.md"
PAGES = {page: page.read_text() for page in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]}


def test_benchmarks_that_pages_run_are_there() -> None:
    named = {
        (page.name, name.replace(".", "/"))
        for page, text in PAGES.items()
        for name in (
            *re.findall(r"-m\s+benchmarks\.([a-z_.0-9]+)", text),
            *re.findall(r"benchmarks/([\w/]+)\.py", text),
        )
    }
    assert len(named) > 15
    assert [each for each in sorted(named) if not (ROOT / "benchmarks" / f"{each[1]}.py").exists()] == []


def test_deleted_benchmarks_that_pages_name_are_in_the_list() -> None:
    rows = re.findall(r"^\| `([^` ]+)[^|]*` \| `([0-9a-f]{8})` \|", DELETED.read_text(), re.MULTILINE)
    named = {
        (page.name, commit, script)
        for page, text in PAGES.items()
        for commit, script in re.findall(r"`([0-9a-f]{8}):\s+([\w/]+\.py)", text)
    }
    assert len(named) > 40
    assert [each for each in sorted(named) if (each[2], each[1]) not in rows] == []
    parts = {"speed/network_files.py"}  # some of it is still needed
    assert [script for script, _ in rows if script not in parts and (ROOT / "benchmarks" / script).exists()] == []


def test_places_that_the_list_names_exist() -> None:
    for page, anchor in re.findall(r"\]\(\.\./(docs/[^)#]+)(?:#([^)]*))?\)", DELETED.read_text()):
        headings = re.findall(r"^#+ (.*)$", (ROOT / page).read_text(), re.MULTILINE)
        anchors = {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}
        assert not anchor or anchor in anchors, f"{page} has no {anchor}"
