"""Every catalog entry against the compiler: it exists, its arguments bind, it runs on a network with its features."""

from passsearch.catalog import load
from passsearch.search.check import check_entries
from passsearch.toolchain import Toolchain


def test_every_entry_holds(relay: Toolchain) -> None:
    entries = tuple(load(relay.dialect).entries.values())
    checked = check_entries(relay, entries, progress=lambda *_: None)
    assert {row.name: row.problems for row in checked if row.problems} == {}
    assert sum(not row.skipped for row in checked) > 60
