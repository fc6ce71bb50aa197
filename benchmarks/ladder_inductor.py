"""The ladder of mechanisms on kernels that Inductor makes: ``python benchmarks/ladder_inductor.py [--processes 5]``.

The kernels are those of ``ladder.py`` for which Inductor writes C++: GELU, softmax and layer norm. Products and
convolutions are calls of libraries there, whose mechanisms no switch takes out. Vectors are taken out by Inductor's
``cpp.simdlen`` and by the C++ compiler's ``-fno-tree-vectorize``, threads by ``cpp.threads``. Inductor has no switch
for overlap. Every rung is checked in the disassembly. It needs ``passsearch toolchain install torch`` and ``objdump``.
"""

import argparse
import json
import math
import os
import re
import subprocess
import tempfile
import time
from datetime import date
from pathlib import Path
from types import FunctionType
from typing import Any

RESULTS = Path(__file__).parent / "results" / "ladder_inductor.json"
TVM = RESULTS.with_name("ladder.json")
"""The answers of ``ladder.py``."""
RUNGS = {"scalar": (False, False), "vectors": (True, False), "threads": (False, True), "both": (True, True)}
"""Vectors and threads, by rung."""
ROUNDS, SAMPLE_S = 15, 2e-3


def main() -> None:
    """Start the processes that are missing, write the JSON and print the tables; with ``--seed`` be such a process."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--processes", type=int, default=5)
    parser.add_argument("--seed", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.seed is not None:
        print(json.dumps(measure(options.seed)))
        return
    print(_tables(_measure_all(options.out, options.processes)))


def _measure_all(out: Path, processes: int) -> dict[str, Any]:
    from passsearch.engines import engine_spec
    from passsearch.measure import probe

    document: dict[str, Any] = json.loads(out.read_text()) if out.exists() else {"processes": []}
    python = engine_spec("torch", Path()).python
    for seed in range(len(document["processes"]), processes):
        command = [str(python), str(Path(__file__).absolute()), "--seed", str(seed)]
        answer = subprocess.run(command, stdout=subprocess.PIPE, check=True)
        own = json.loads(answer.stdout)
        # Operations and bytes as TVM counts them for the same kernels.
        counted = json.loads(TVM.read_text())["processes"][0]["kernels"]
        for name, kernel in own["kernels"].items():
            kernel |= {key: counted[name][key] for key in ("flops", "bytes")}
        document["processes"].append(own)
        document |= {"device": dict(probe("cpu").device), "date": date.today().isoformat()}
        out.write_text(json.dumps(document, indent=1) + "\n")
    return document


def _tables(document: dict[str, Any]) -> str:
    from ladder import tables

    return tables(document)


def measure(seed: int) -> dict[str, Any]:
    """Return the seconds of every rung of every kernel in this process, which has PyTorch."""
    import torch

    threads = len(os.sched_getaffinity(0))
    torch.set_num_threads(threads)
    torch.manual_seed(seed)
    functional = torch.nn.functional
    gain, bias = torch.randn(768), torch.randn(768)
    kernels: dict[str, tuple[Any, tuple[int, ...]]] = {
        "gelu": (lambda x: functional.gelu(x), (2**20,)),
        "softmax": (lambda x: torch.softmax(x, -1), (1536, 128)),
        "layer_norm": (lambda x: functional.layer_norm(x, (768,), gain, bias), (512, 768)),
    }
    answers = {name: _ladder(make, torch.randn(shape), threads) for name, (make, shape) in kernels.items()}
    return {"kernels": answers, "torch": torch.__version__}


def _ladder(function: Any, data: Any, threads: int) -> dict[str, Any]:
    """Return seconds and assembly of all rungs of a kernel, timed in turns."""
    built = {
        name: _compile(function, data, vectors=vectors, threads=threads if many else 1)
        for name, (vectors, many) in RUNGS.items()
    }
    fastest = dict.fromkeys(built, math.inf)
    for _ in range(ROUNDS):
        for name, (run, _) in built.items():
            fastest[name] = min(fastest[name], _sample_s(run, data))
    rungs = {name: {"seconds": fastest[name], **assembly} for name, (_, assembly) in built.items()}
    return {"rungs": rungs}


def _compile(function: Any, data: Any, *, vectors: bool, threads: int) -> tuple[Any, dict[str, Any]]:
    """Return a compiled function and what its assembly has."""
    import torch
    from torch._inductor import config

    with tempfile.TemporaryDirectory() as folder:
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = folder
        plain = Path(folder) / "compiler"
        plain.write_text('#!/bin/sh\nexec g++ "$@" -fno-tree-vectorize\n')
        plain.chmod(0o700)
        patch: dict[str, Any] = {"cpp.threads": threads, "fx_graph_cache": False}
        patch |= {} if vectors else {"cpp.simdlen": 1, "cpp.cxx": (str(plain),)}
        # PyTorch keeps one compilation for each code object, and every rung is one of its own.
        code = function.__code__.replace(co_name=f"kernel_{vectors}_{threads}")
        own = FunctionType(code, function.__globals__, "kernel", None, function.__closure__)
        with config.patch(patch), torch.no_grad():
            run = torch.compile(own, dynamic=False)
            run(data)
        libraries = [each for each in Path(folder).rglob("*.so") if b"kernel" in each.read_bytes()]
        return run, _assembly(libraries)


def _assembly(libraries: list[Path]) -> dict[str, Any]:
    from ladder_kernels import read_assembly

    command = ["objdump", "--disassemble", "--no-show-raw-insn", *map(str, libraries)]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    lines = re.sub(r"^\s*[0-9a-f]+:\s*", "\t", text, flags=re.MULTILINE)
    return {**read_assembly(lines), "pool_calls": len(re.findall(r"call.*GOMP_parallel", lines))}


def _sample_s(run: Any, data: Any) -> float:
    import torch

    count, begin = 0, time.perf_counter()
    with torch.no_grad():
        while time.perf_counter() - begin < SAMPLE_S:
            run(data)
            count += 1
    return (time.perf_counter() - begin) / count


if __name__ == "__main__":
    main()
