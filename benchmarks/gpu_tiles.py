"""Says what tiles of products are worth on a GPU: ``python benchmarks/gpu_tiles.py FILE``.

FILE is what ``gpu_session.py`` wrote, such as ``benchmarks/results/gpu/h100-3.json``; it has the times of kernels
alone, by digest. This script lists the kernels of the same networks, which needs no GPU. Of all products of which
several settings were timed it adds up the times by DLight's rule, by the tile that ``ScheduleGPU`` takes for their
sizes, and by the fastest of all. It writes ``FILE-tiles.json`` and prints a table.
"""

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
NO_DEVICE, BY_SIZES, FORMER = "cuda -arch=sm_90", "by sizes", "8x16x2x2x32x1"


def main() -> None:
    """Join the times with the sizes, write them and print the sums."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path)
    options = parser.parse_args()
    document = json.loads(options.file.read_text())
    usual = document.get("usual_tile", BY_SIZES)
    rows = {
        name: join(row["search"]["kernels_us"], list_products(name), usual=usual)
        for name, row in document["networks"].items()
    }
    options.file.with_name(f"{options.file.stem}-tiles.json").write_text(json.dumps(rows, indent=1) + "\n")
    print("| network | products | DLight's `Matmul`, us | 8x16x2x2x32x1 | by its sizes | the best |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    for name, products in rows.items():
        sums = [math.fsum(row["calls"] * row["us"][rule] for row in products) for rule in ("Matmul", FORMER)]
        by_sizes = math.fsum(row["calls"] * row["us"].get(BY_SIZES, row["us"].get(row["by_sizes"])) for row in products)
        best = math.fsum(row["calls"] * min(row["us"].values()) for row in products)
        cells = " | ".join(f"{value:.0f}" for value in (*sums, by_sizes, best))
        print(f"| {name} | {len(products)} | {cells} |")


def join(
    times: Mapping[str, Mapping[str, float]], products: Mapping[str, dict[str, Any]], *, usual: str
) -> list[dict[str, Any]]:
    """Return the products of which several settings were timed, with their times by rule.

    Args:
        times: Microseconds by digest of the kernel and by pass.
        products: Products by digest of the kernel.
        usual: What ``ScheduleGPU`` did without an argument.
    """
    found = []
    for digest, product in products.items():
        us = {step.partition('"')[2].rstrip('"}') or usual: value for step, value in times.get(digest, {}).items()}
        if {"Matmul", FORMER, usual} <= set(us) and (BY_SIZES in us or product["by_sizes"] in us):
            found.append({**{key: value for key, value in product.items() if key != "function"}, "us": us})
    return found


def list_products(network: str, toolchain: str = "relax") -> dict[str, dict[str, Any]]:
    """Return name, calls, sizes, tile and function of every product of a network, by digest of its kernel."""
    import passsearch
    from passsearch.catalog import load
    from passsearch.core import Pipeline

    with passsearch.session(f"zoo:{network}", toolchain=toolchain, target=NO_DEVICE) as evaluator:
        model, python = evaluator.session.model.path, evaluator.session.toolchain.python
    catalog = load("relax")
    passes = catalog.sequence("schedule-gpu").pipeline.passes
    before = passes[: [step.name for step in passes].index("ScheduleGPU")]
    factories = {step.name: catalog.entries[step.name].factory for step in before}
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump({"model": str(model), "pipeline": str(Pipeline(before)), "factories": factories}, file)
        file.flush()
        command = [str(python), __file__, "--in-toolchain", file.name]
        done = subprocess.run(command, env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE, check=True)
    products: dict[str, dict[str, Any]] = json.loads(done.stdout.decode().splitlines()[-1])
    return products


def list_in_toolchain(file: str) -> None:
    """Print what ``list_products`` returns; runs in an interpreter with TVM."""
    import tvm
    from tvm import s_tir
    from tvm.s_tir.dlight.analysis import get_root_block
    from tvm.s_tir.dlight.gpu.matmul import get_index_map, get_reduction_blocks

    from passsearch.core import Pipeline
    from passsearch.dialects.contract import ModelSource
    from passsearch.dialects.relax.bridge import RelaxBridge
    from passsearch.standalone.relax.gpu_schedules.sums import multiplies_and_adds, normalise
    from passsearch.standalone.relax.gpu_schedules.tiles import usual_tile

    request = json.loads(Path(file).read_text())
    bridge = RelaxBridge(NO_DEVICE)
    module = bridge.load(ModelSource(Path(request["model"]), "onnx", {}))
    for step in Pipeline.parse(request["pipeline"]).passes:
        module = bridge.apply(module, step, factory=request["factories"][step.name])
    products = {}
    for kernel in bridge.kernels(module, {}):
        schedule = s_tir.Schedule(module[kernel.name])
        sums = get_reduction_blocks(schedule, schedule.get_child_blocks(get_root_block(schedule)))
        if not sums or not multiplies_and_adds(schedule.get(sums[0])) or get_index_map(schedule.get(sums[0])) is None:
            continue
        normalise(schedule, sums[0])
        sizes = [schedule.get(loop).extent for loop in schedule.get_loops(sums[0])]
        about = {"name": kernel.name, "calls": kernel.calls, "sizes": list(map(int, sizes))}
        own = {"by_sizes": str(usual_tile(sizes)), "function": tvm.ir.save_json(module[kernel.name])}
        products[kernel.digest] = {**about, **own}
    print(json.dumps(products))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--in-toolchain"]:
        list_in_toolchain(sys.argv[2])
    else:
        main()
