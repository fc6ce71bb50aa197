"""A network of the table of architectures is read, imported, built and compared."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnxruntime

from passsearch.toolchain import Toolchain


def test_a_network_gets_through_all_steps(
    relax: Toolchain, load_benchmark: Callable[[str], Any], tiny_network: Path
) -> None:
    networks = load_benchmark("imports.import_networks")
    session = onnxruntime.InferenceSession(str(tiny_network))
    network = networks.Network(str(tiny_network), lambda inputs: session.run(None, dict(inputs)))
    found = [answer.get("step") for answer in networks.answers(network, "relax")]
    assert found == ["read", "imported", "analysed", "built", "equal"]
