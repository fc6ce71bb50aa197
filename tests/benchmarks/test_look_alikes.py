"""A look-alike is another file with the same kernels: other digest and symbols, equal outputs."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import passsearch
from passsearch.core import Candidate
from passsearch.evaluate import Built, FreshCompile
from passsearch.search import named_candidate
from passsearch.toolchain import Toolchain

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def look_alikes(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(sys, "path", [str(BENCHMARKS), *sys.path])
    import look_alikes

    return look_alikes


def local_functions(folder: Path) -> set[str]:
    [library] = folder.glob("*.so")
    lines = subprocess.run(["nm", str(library)], check=True, capture_output=True, text=True).stdout.splitlines()
    return {line.split()[-1] for line in lines if " t " in line}


@pytest.mark.slow
def test_a_look_alike_has_another_digest_and_the_same_outputs(
    look_alikes: Any, relay: Toolchain, tmp_path: Path
) -> None:
    model = "zoo:resnet_tiny"
    with passsearch.session(model, toolchain=relay.name, folder=tmp_path / "own") as own:
        target = look_alikes.aligned(own.session.target, exponent=7)
        pipeline = named_candidate(own.session, look_alikes.PIPELINES[relay.name])
        candidate = Candidate(pipeline.pipeline, pipeline.build)
        with passsearch.session(model, toolchain=relay.name, target=target, folder=tmp_path / "other") as other:
            evaluator = look_alikes.LookAlike(own, other, seed=1)
            plain, alike = (
                evaluator.compile_fresh(key, candidate, timing_key=key, kinds=()) for key in ("1-baseline", "1-best")
            )
            assert isinstance(plain, FreshCompile) and isinstance(alike, FreshCompile)
            assert plain.digest != alike.digest
            renamed = {name for name in local_functions(alike.folder) if name.startswith("look_alike_")}
            assert renamed and not renamed & local_functions(plain.folder)
            built = own.build(own.reach(candidate.pipeline), candidate)
            assert isinstance(built, Built)
            folders = plain.folder, alike.folder
            outputs = [own.builder.verification.expected_outputs(folder, candidate) for folder in folders]
            assert outputs[0] == outputs[1] is not None
