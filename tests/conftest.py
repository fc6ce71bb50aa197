"""Fixtures every room shares."""

from pathlib import Path

import pytest

from passsearch.errors import PassSearchError
from passsearch.toolchain import Toolchain, get_toolchain


def _toolchain(dialect: str) -> Toolchain:
    try:
        return get_toolchain(dialect=dialect)
    except PassSearchError as error:
        pytest.skip(f"needs a toolchain: {error}")


@pytest.fixture(scope="session")
def relay() -> Toolchain:
    """An installed toolchain with Relay; `make test` installs one."""
    return _toolchain("relay")


@pytest.fixture(scope="session")
def relay_python(relay: Toolchain) -> Path:
    """Its interpreter."""
    return relay.python


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whatever uses a toolchain is marked so."""
    for item in items:
        if {"relay", "relay_python"} & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.toolchain)


