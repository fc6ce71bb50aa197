"""Where and when a benchmark ran, as it stands in its JSON."""

from datetime import date
from typing import Any

from passsearch.frontends import resolve
from passsearch.search.document import toolchain_document
from passsearch.search.setting import Setting, choose
from passsearch.toolchain import cache_folder


def settle(model: str) -> Setting:
    """The default toolchain and this machine's target for a network, as ``tune`` chooses them."""
    return choose(resolve(model, folder=cache_folder() / "models"), toolchain=None, target=None)


def provenance(chosen: Setting) -> dict[str, Any]:
    """Date, machine, target and compiler."""
    machine = {"device": chosen.sensors.device, "target": chosen.target, "toolchain": toolchain_document(chosen)}
    return {"date": date.today().isoformat(), **machine}
