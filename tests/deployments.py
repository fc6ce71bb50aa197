"""Deployments of small networks, made by a worker without a search."""

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import archspec.cpu

from passsearch.core import BuildOptions, CheckInputs, Pipeline, TensorType
from passsearch.dialects import DIALECTS
from passsearch.export import Deployment
from passsearch.toolchain import Toolchain
from passsearch.worker import Worker


@dataclass(frozen=True)
class Recipe:
    """A pipeline, the factories of its passes and the build after it."""

    pipeline: Pipeline
    factories: Mapping[str, str]
    build: BuildOptions


PIPELINES = {
    "relay": Recipe(
        Pipeline.parse('SimplifyInference,AlterOpLayout,FoldConstant{evaluator="numpy"},FuseOps{fuse_opt_level=2}'),
        {
            "SimplifyInference": "tvm.relay.transform:SimplifyInference",
            "AlterOpLayout": "tvm.relay.transform:AlterOpLayout",
            "FoldConstant": "passsearch.standalone.relay.graph_rewrites.fold_constant:FoldConstant",
            "FuseOps": "tvm.relay.transform:FuseOps",
        },
        BuildOptions(opt_level=0),
    ),
    "relax": Recipe(
        Pipeline.parse("LegalizeOps,ScheduleCPU"),
        {
            "LegalizeOps": "tvm.relax.transform:LegalizeOps",
            "ScheduleCPU": "passsearch.standalone.relax.cpu_schedules:ScheduleCPU",
        },
        BuildOptions(opt_level=1),
    ),
}


def deploy_by_worker(toolchain: Toolchain, network: Path, home: Path, inputs: Mapping[str, Any] = {}) -> Deployment:
    """Return a deployment of an ONNX network, which a worker has transformed, built and run."""
    shutil.copy(network, home / "network.onnx")
    target = f"llvm -mtriple={archspec.cpu.host().family.name}-unknown-linux-gnu"
    entry = DIALECTS[toolchain.dialect]
    worker = Worker(toolchain.python, bridge=entry.bridge, target=target, threads=2, log=home / "log.txt")
    try:
        return _transform_and_build(worker, toolchain, home, target, inputs)
    finally:
        worker.close()


def _transform_and_build(
    worker: Worker, toolchain: Toolchain, home: Path, target: str, inputs: Mapping[str, Any]
) -> Deployment:
    def request(verb: str, **arguments: object) -> dict[str, Any]:
        answer = worker.ask({"verb": verb, **arguments}, deadline_s=120)
        assert "error" not in answer, answer
        return answer

    recipe = PIPELINES[toolchain.dialect]
    source = {"path": str(home / "network.onnx"), "format": "onnx", "inputs": dict(inputs)}
    loaded = request("load", source=source)
    states = [loaded["state"]]
    for step in recipe.pipeline.passes:
        data = {"name": step.name, "arguments": step.argument_values}
        states.append(
            request("apply", state=states[-1], factory=recipe.factories[step.name], **{"pass": data})["state"]
        )
    request("save", state=states[0], path=str(home / "network.json"))
    reloaded = request("load", source={"path": str(home / "network.json"), "format": "ir", "inputs": {}})
    assert reloaded["state"] == states[0]
    artifact = str(home / "artifact")
    request("build", state=states[-1], options=recipe.build.to_json(), folder=artifact)
    types = {name: TensorType(tuple(shape), dtype) for name, (shape, dtype) in loaded["inputs"].items()}
    check = CheckInputs(types).to_json()
    digests = request("expect", folder=artifact, device="cpu", inputs=check, seed=3)["expected"]
    return Deployment(
        dialect=DIALECTS[toolchain.dialect],
        tvm_version=toolchain.tvm_version,
        target=target,
        pipeline=recipe.pipeline,
        factories=recipe.factories,
        build=recipe.build,
        network=home / "network.json",
        model={"name": "network", "source": "network.onnx", "sha256": "", "batch": 1},
        inputs=loaded["inputs"],
        ir_hashes=[request("hash", state=state)["hash"] for state in states],
        output_digests=digests,
        tolerance=1e-3,
        seed=3,
    )
