"""Times products of networks by many tiles on a GPU: ``python benchmarks/gpu_products.py NETWORK ... --wheels FOLDER``.

All cores but two build the products of the networks by the tiles of ``ScheduleGPU`` that their sizes allow: first each
by the tile that it has by default, then a further tile of every product in turn, in an order that a seed decides. A
build is launched once on each of several copies of its data, more than caches hold, as weights of a network are not in
caches either; the launches are recorded as a CUDA graph, and the fastest of its replays counts. The results of all
builds of a product are compared with those of the first.

``--reads TILE ...`` needs no GPU and times nothing: it prints how often a thread reads shared memory for 256 products,
by the PTX that NVRTC makes for sm_90 of a product without further operators.

Needs PyTorch for CUDA 13 beside what ``gpu_session.py`` needs. The JSON is written every few seconds; a run whose time
is over says how many builds it has left out.
"""

import argparse
import itertools
import json
import math
import multiprocessing
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

from gpu_pack import PACK, install_beside
from gpu_tiles import list_products

ROOT = Path(__file__).parents[1]
NETWORKS = ("bert_base", "gpt2", "mobilenet_v2", "resnet50")
TARGET = {"kind": "cuda", "thread_warp_size": 32, "max_num_threads": 1024, "max_threads_per_block": 1024}
SHARED_BYTES = 49_152
CACHES_BYTES = 120_000_000
"""More than the caches of an H200 hold."""
MOST_COPIES = 1000
REPLAYS = 12
MOST_DEVIATION = 1e-4
"""Of the largest result."""

THREADS = ((8, 16), (8, 8), (16, 8), (16, 16))
SINGLE_RESULTS, VECTOR_RESULTS = ((2, 2), (4, 2), (4, 4)), ((2, 4), (4, 4), (8, 4), (8, 8))
STEPS = (16, 32)
PARTS = (1, 2, 4, 8, 16)
MOST_PADDING = 1.5
"""Multiplications with those of padding, as a multiple of those without."""
STORED = 4 * 1.3
"""Bytes of shared memory for a value, with the padding of its row."""
LEAST_BLOCKS, MOST_BLOCKS = 64, 2500
"""Blocks between which parts of sums are worth trying."""


def main() -> None:
    """Time what the time suffices for, in a new environment if there are wheels."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("networks", nargs="*", default=NETWORKS, help=f"of the zoo ({' '.join(NETWORKS)})")
    parser.add_argument("--wheels", type=Path, metavar="FOLDER", help="folder that gpu_pack.py wrote")
    parser.add_argument("--toolchain", default="this", help="name of an installed toolchain (%(default)s interpreter)")
    parser.add_argument("--seconds", type=float, default=200.0, help="for all of it (%(default)s)")
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results" / "gpu" / "products.json")
    parser.add_argument("--reads", nargs="+", metavar="TILE", help="print reads of shared memory, and time nothing")
    options = parser.parse_args()
    if options.reads:
        from passsearch.toolchain import get_toolchain

        python = str(get_toolchain("relax").python)
        code = f"import gpu_products; gpu_products.print_reads({options.reads!r})"
        folders = {"PYTHONPATH": os.pathsep.join([str(ROOT), str(Path(__file__).parent)])}
        sys.exit(subprocess.run([python, "-c", code], env={**os.environ, **folders}).returncode)
    end_s = time.monotonic() + options.seconds
    if options.wheels:
        with tempfile.TemporaryDirectory(prefix="passsearch-", ignore_cleanup_errors=True) as folder:
            python = install_beside(options.wheels / PACK, Path(folder) / "environment", ROOT)
            arguments = [*options.networks, "--seconds", str(end_s - time.monotonic()), "--out", str(options.out)]
            folders = {"PASSSEARCH_DATA_DIR": f"{folder}/data", "XDG_CACHE_HOME": f"{folder}/cache"}
            command = [str(python), __file__, *arguments, "--toolchain", options.toolchain]
            sys.exit(subprocess.run(command, env={**os.environ, **folders}).returncode)
    sys.path.insert(0, str(ROOT))  # passsearch of this checkout, whatever is installed
    products: dict[str, dict[str, Any]] = {}
    for network in options.networks:
        for digest, product in list_products(network, options.toolchain).items():
            product["calls"] = {network: product["calls"]} | products.get(digest, {}).get("calls", {})
            products[digest] = product
    options.out.parent.mkdir(parents=True, exist_ok=True)
    # Processes that still build when the time is over write into the folder.
    with tempfile.TemporaryDirectory(prefix="passsearch-", ignore_cleanup_errors=True) as folder:
        print_table(time_products(products, Path(folder), options.out, end_s=end_s))


def tiles_for(sizes: Sequence[int]) -> Iterator[str]:
    """Return the tiles that make sense for the sizes of a product: batch, rows, columns and terms of the sum."""
    batch, rows, columns, terms = sizes
    forms = [("", each) for each in SINGLE_RESULTS] + [("v", each) for each in VECTOR_RESULTS]
    for threads, (form, results), steps, parts in itertools.product(THREADS, forms, STEPS, PARTS):
        tile_rows, tile_columns = (count * each for count, each in zip(threads, results, strict=True))
        tiles = math.ceil(rows / tile_rows), math.ceil(columns / tile_columns)
        rounds = math.ceil(terms / (steps * parts))
        computed = math.prod(tiles) * tile_rows * tile_columns * rounds * steps * parts
        blocks = batch * math.prod(tiles) * parts
        if (
            computed <= MOST_PADDING * rows * columns * terms
            and STORED * steps * (tile_rows + tile_columns) <= SHARED_BYTES
            and (parts == 1 or (rounds > 1 and LEAST_BLOCKS <= blocks <= MOST_BLOCKS))
        ):
            yield "x".join(map(str, (*threads, *results, steps, parts))) + form


def prepare() -> None:
    """Make this process able to compile CUDA code."""
    from passsearch.standalone.relax.deployment import cuda_libraries

    cuda_libraries.prepare("cc")


def compiled(function: Any, rule: str, arch: str) -> Any:
    """Return a compiled product as a tile computes it; ``None`` if the tile does not fit. Needs TVM."""
    import tvm

    from passsearch.standalone.relax.gpu_schedules.rules import Products
    from passsearch.standalone.relax.gpu_schedules.tiles import parse_tile

    target = tvm.target.Target({**TARGET, "arch": arch, "max_shared_memory_per_block": SHARED_BYTES})
    with target:
        schedule = Products(parse_tile(rule)).apply(function, target, False)
        if schedule is None:
            return None
        module = tvm.IRModule({"main": schedule.mod["main"].with_attr("global_symbol", "main")})
        return tvm.compile(module, target=tvm.target.Target(target, "llvm"))


def build(function: str, rule: str, library: str, arch: str) -> str | None:
    """Build one product by a tile; return why not, if so."""
    import tvm

    try:
        made = compiled(tvm.ir.load_json(function), rule, arch)
        if made is None:
            return "the tile does not fit the function"
        made.export_library(library)
    except Exception as error:  # noqa: BLE001 -- whatever a tile does, the other tiles are timed
        return f"{type(error).__name__}: {error}"[:300]
    return None


def print_reads(rules: Sequence[str]) -> None:
    """Print how often tiles read shared memory for 256 products, by PTX; runs in an interpreter with TVM."""
    from tvm import te
    from tvm.support.nvcc import compile_cuda

    prepare()
    left, right = te.placeholder((128, 768), name="left"), te.placeholder((768, 768), name="right")
    k = te.reduce_axis((0, 768), name="k")
    product = te.compute((128, 768), lambda i, j: te.sum(left[i, k] * right[k, j], axis=k), name="product")
    function = te.create_prim_func([left, right, product])
    for rule in rules:
        source = compiled(function, rule, "sm_90").mod.imports[0].inspect_source()
        ptx = bytes(compile_cuda(source, target_format="ptx", arch="sm_90", compiler="nvrtc"))
        reads, products = ptx.count(b"ld.shared."), ptx.count(b"fma.rn.f32")
        print(f"{rule}: {256 * reads / products:.0f} reads for 256 products")


def time_products(products: Mapping[str, Any], folder: Path, out: Path, *, end_s: float) -> dict[str, Any]:
    """Time the products by their tiles, the order of networks first, and write the JSON meanwhile."""
    import torch

    arch = "sm_{}{}".format(*torch.cuda.get_device_capability())
    rows = {digest: {**product, "us": {}, "failures": {}} for digest, product in products.items()}
    functions = {digest: row.pop("function") for digest, row in rows.items()}
    jobs = order({digest: [row["by_sizes"], *tiles_for(row["sizes"])] for digest, row in rows.items()})
    document = {
        "date": time.strftime("%Y-%m-%d"),
        "device": torch.cuda.get_device_name(),
        "products": rows,
        "left": len(jobs),
    }
    saved_s = time.monotonic()
    cores = max(1, len(os.sched_getaffinity(0)) - 2)
    pool = ProcessPoolExecutor(cores, mp_context=multiprocessing.get_context("spawn"), initializer=prepare)
    prepare()
    futures = {
        pool.submit(build, functions[digest], rule, f"{folder}/{number}.so", arch): (number, digest, rule)
        for number, (digest, rule) in enumerate(jobs)
    }
    data = Data()
    for future in as_completed(futures):
        number, digest, rule = futures[future]
        try:
            failure = future.result()
            if failure is None:
                failure = data.time(functions[digest], digest, f"{folder}/{number}.so", rows[digest]["us"], rule)
        except (DeviceLost, BrokenProcessPool) as error:
            document["ended"] = f"{rule} of {rows[digest]['name']}: {type(error).__name__}: {error}"
            break
        if failure is not None:
            rows[digest]["failures"][rule] = failure
        document["left"] -= 1
        now_s = time.monotonic()
        if now_s > saved_s + 5 or now_s > end_s:
            out.write_text(json.dumps(document, indent=1) + "\n")
            saved_s = now_s
        if now_s > end_s:
            break
    pool.shutdown(wait=False, cancel_futures=True)
    out.write_text(json.dumps(document, indent=1) + "\n")
    return document


def order(rules: Mapping[str, Sequence[str]]) -> list[tuple[str, str]]:
    """Return digests and rules: the first rule of every product, then another one of each in turn."""
    shuffled = random.Random(0)
    queues = {}
    for digest, (usual, *others) in rules.items():
        own = sorted(set(others) - {usual})
        queues[digest] = [usual, *shuffled.sample(own, len(own))]
    rounds = itertools.zip_longest(*([(digest, rule) for rule in own] for digest, own in queues.items()))
    return [job for each in rounds for job in each if job is not None]


class DeviceLost(Exception):
    """A build whose fault ends the CUDA context, so that nothing can be timed any more."""


class Data:
    """Copies of the data of one product at a time, and the results of its first build."""

    def __init__(self) -> None:
        """Begin without data."""
        self.results: dict[str, Any] = {}
        self.digest = ""
        self.copies: list[list[Any]] = []

    def time(self, function: str, digest: str, library: str, us: dict[str, float], rule: str) -> str | None:
        """Add the microseconds of one launch to ``us``; return why not, if so."""
        import torch
        import tvm

        if digest != self.digest:
            self.digest, self.copies = digest, []  # the former copies' memory is free before there are new ones
            self.copies = copies_for(tvm.ir.load_json(function))
            torch.cuda.synchronize()  # the next stream does not wait for the one that fills them
        run = tvm.runtime.load_module(library)["main"]
        try:
            with torch.cuda.stream(torch.cuda.Stream()):
                run(*self.copies[0])
                torch.cuda.synchronize()
                result = self.copies[0][-1].clone()
                first = self.results.setdefault(digest, result)
                deviation = float((result - first).abs().max() / first.abs().max())
                if not deviation <= MOST_DEVIATION:
                    return f"results deviate by {deviation:.1e} of the largest"
                graph = torch.cuda.CUDAGraph()
                graph.capture_begin()
                for arguments in self.copies:
                    run(*arguments)
                graph.capture_end()
                us[rule] = round(min(map(_replay_us, [graph] * REPLAYS)) / len(self.copies), 2)
        except Exception as error:  # noqa: BLE001 -- whatever a tile does, the other tiles are timed
            try:
                torch.cuda.synchronize()
            except Exception:  # noqa: BLE001 -- of whatever type
                raise DeviceLost(f"{error}"[:300]) from error
            return f"{type(error).__name__}: {error}"[:300]
        return None


def copies_for(function: Any) -> list[list[Any]]:
    """Return the arguments of a function on the GPU, as often as they do not fit into caches together."""
    import torch

    torch.manual_seed(0)
    types = [([int(size) for size in each.ty.shape], getattr(torch, str(each.ty.dtype))) for each in function.params]
    size = sum(math.prod(shape) * dtype.itemsize for shape, dtype in types)
    count = min(max(2, CACHES_BYTES // size), MOST_COPIES)
    return [
        [
            torch.randn(shape, device="cuda", dtype=dtype)
            if dtype.is_floating_point
            else torch.randint(0, 2, shape, device="cuda").to(dtype)
            for shape, dtype in types
        ]
        for _ in range(count)
    ]


def _replay_us(graph: Any) -> float:
    import torch

    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    graph.replay()
    end.record()
    end.synchronize()
    return float(start.elapsed_time(end)) * 1e3


def print_table(document: Mapping[str, Any]) -> None:
    """Print the sums of all products' times by network, and what is left."""
    print("| network | products | by their sizes, us | best without vectors | best with vectors |")
    print("| --- | ---: | ---: | ---: | ---: |")
    rows = [row for row in document["products"].values() if row["by_sizes"] in row["us"]]
    for network in dict.fromkeys(name for row in rows for name in row["calls"]):
        own = [row for row in rows if network in row["calls"]]
        sums = [
            math.fsum(
                row["calls"][network] * min(row["us"][each] for each in row["us"] if fits(each, row)) for row in own
            )
            for fits in (
                lambda each, row: each == row["by_sizes"],
                lambda each, row: not each.endswith("v") or each == row["by_sizes"],
                lambda each, row: each.endswith("v") or each == row["by_sizes"],
            )
        ]
        print(f"| {network} | {len(own)} | " + " | ".join(f"{value:.0f}" for value in sums) + " |")
    print(f"{document['left']} builds are left out. {document.get('ended', '')}")


if __name__ == "__main__":
    main()
