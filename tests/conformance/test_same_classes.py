"""A network has the same classes and features in every dialect, although importers write it differently."""

from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from passsearch.dialects import dialect
from passsearch.evaluate import Network, open_session
from passsearch.evaluate.compiler import load_request
from passsearch.evaluate.model_import import loadable_model
from passsearch.frontends import resolve
from passsearch.search.pass_selection import analyze_network
from passsearch.toolchain import Toolchain, host_target
from passsearch.worker import Worker

IMPORTER_FEATURES = {"bias_add", "constant_expression", "transpose", "transpose_dense"}
"""Features that importers decide: Relax's adds biases by a reshape and an addition, and folds no constants."""


@pytest.fixture(scope="module")
def workers(
    relay: Toolchain, relax: Toolchain, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[list[tuple[Toolchain, Worker]]]:
    """A worker of each toolchain: a start takes longer than an import."""
    log = tmp_path_factory.mktemp("workers") / "workers.log"
    with ExitStack() as stack:

        def start(toolchain: Toolchain) -> Worker:
            bridge = dialect(toolchain.dialect).bridge
            worker = Worker(toolchain.python, bridge=bridge, target=host_target(toolchain), threads=1, log=log)
            return stack.enter_context(closing(worker))

        yield [(toolchain, start(toolchain)) for toolchain in (relay, relax)]


def feature_counts(analysis: Any) -> dict[str, int]:
    """Return the counts of the features that importers do not decide."""
    features = analysis.fingerprint.features.items()
    return {name: feature.count for name, feature in features if feature.count and name not in IMPORTER_FEATURES}


@pytest.mark.parametrize(
    "network",
    [
        "resnet18",
        "mobilenet_v2",
        "ssd_mobilenet",
        "unet_tiny",
        "bert_tiny",
        "vit_tiny",
        "gpt2_tiny",
        "llama_tiny",
        "llama_tiny_decode",
    ],
)
def test_classes_and_features_do_not_depend_on_the_importer(
    network: str, workers: list[tuple[Toolchain, Worker]], tmp_path: Path
) -> None:
    file, analyses = resolve(f"zoo:{network}", folder=tmp_path), []
    for toolchain, worker in workers:
        session = open_session(file, toolchain=toolchain.name, target=None)
        request = load_request(loadable_model(session, tmp_path).to_request(), summary=True)
        answer = worker.ask(request, deadline_s=600)
        assert "error" not in answer, answer
        analyses.append(analyze_network(session, Network.from_fact(answer).summary))
    by_relay, by_relax = analyses
    assert by_relay.class_names == by_relax.class_names
    assert feature_counts(by_relay) == feature_counts(by_relax)
