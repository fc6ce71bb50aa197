"""Every catalog entry holds: it exists in the compiler, its arguments bind, it runs on a network with its features."""

from collections.abc import Callable

import pytest

from passsearch.catalog import load
from passsearch.evaluate.catalog_check import check_entries
from passsearch.toolchain import Toolchain


@pytest.mark.parametrize(("dialect", "least"), [("relay", 60), ("relax", 90)])
def test_every_entry_holds(dialect: str, least: int, toolchain_of: Callable[[str], Toolchain]) -> None:
    toolchain = toolchain_of(dialect)
    entries = tuple(load(toolchain.dialect).entries.values())
    rows = check_entries(toolchain, entries, progress=lambda *_: None)
    assert {row.name: row.problems for row in rows if row.problems} == {}
    assert sum(not row.skipped for row in rows) > least
