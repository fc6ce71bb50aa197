"""Builds networks for GPUs on any machine: ``python -m benchmarks.gpu.builds bert_base resnet50 --arch sm_80 sm_90``.

Each network is built by ``merge-schedule-gpu`` in each precision for each architecture. A row has the kernels that one
inference starts, those of the device code with their largest numbers of registers and of bytes of stack, and the
seconds of the build. The JSON is written after every build, and a build that it has is not made again. No device is
needed; ``passsearch toolchain install relax --with cuda`` is. ``--table`` prints the Markdown and builds nothing.
"""

import argparse
import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import passsearch
from benchmarks.common import RESULTS, markdown, read_rows, write_row
from benchmarks.gpu.cubins import read_cubins
from passsearch.catalog import load
from passsearch.core import Candidate, Failure, PassSpec, Pipeline
from passsearch.evaluate import WorkerEvaluator

FILE = RESULTS / "gpu" / "builds.json"
NETWORKS = ("bert_base", "resnet50", "mobilenet_v2", "gpt2")
PRECISIONS = ("float32", "tf32", "float16")
"""Without bfloat16, which TVM's importer does not read and ``ToMixedPrecision`` does not make."""
ARCHITECTURES = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_120")
FIRST_OF_TF32 = 80

GOALS = {"bert_base": 12 * 7, "resnet50": 55}
"""Most kernels that an inference should start: seven for each layer of BERT-base."""


def main() -> None:
    """Build what the file has not, and print its table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("networks", nargs="*", default=NETWORKS, help="of the zoo (%(default)s)")
    parser.add_argument("--arch", nargs="+", default=ARCHITECTURES)
    parser.add_argument("--precision", nargs="+", default=PRECISIONS, choices=PRECISIONS)
    parser.add_argument("--toolchain", default="relax")
    parser.add_argument("--out", type=Path, default=FILE)
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args()
    for arch in () if options.table else options.arch:
        for name in options.networks:
            build_network(name, arch, options)
    print(table(read_rows(options.out, "networks")))


def candidate(precision: str) -> Candidate:
    """Return the sequence for GPUs that starts the fewest kernels, in a precision."""
    sequences = load("relax").sequences
    if precision != "float16":
        return sequences["schedule-gpu-tf32" if precision == "tf32" else "merge-schedule-gpu"].candidate()
    plain, passes = sequences["merge-schedule-gpu"].candidate(), []
    for step in plain.pipeline.passes:
        # Casts of weights are constants.
        halves = [PassSpec.of("ToMixedPrecision", out_dtype="float16"), PassSpec.of("FoldConstant", evaluator="numpy")]
        passes += [*halves, step] if step.name == "LegalizeOps" else [step]
    return replace(plain, pipeline=Pipeline(tuple(passes)))


def build_network(name: str, arch: str, options: argparse.Namespace) -> None:
    """Add a network's builds for one architecture to the results, each when it is made."""
    row = {"note": "One build each, beside other work: the seconds are indicative.", "builds": {}}
    row["builds"] = read_rows(options.out, "networks").get(name, row)["builds"]
    wanted = [each for each in options.precision if arch not in row["builds"].get(each, {})]
    wanted = [each for each in wanted if each != "tf32" or int(arch.removeprefix("sm_")) >= FIRST_OF_TF32]
    if not wanted:
        return
    target = f"cuda -arch={arch}"
    with passsearch.session(f"zoo:{name}", toolchain=options.toolchain, target=target, remember=False) as evaluator:
        for precision in wanted:
            made = build(evaluator, candidate(precision))
            print(name, arch, precision, json.dumps(made), file=sys.stderr, flush=True)
            row["builds"].setdefault(precision, {})[arch] = made
            write_row(options.out, "networks", name=name, row=row, session=evaluator.session)


def build(evaluator: WorkerEvaluator, candidate: Candidate) -> dict[str, Any]:
    """Return what a build has, or the reason why there is none."""
    built = evaluator.build_candidate(candidate)
    if isinstance(built, Failure):
        return {"failure": f"{built.kind}: {built.reason}"}
    (cubin,) = read_cubins(built.folder / "network.so")
    kernels = cubin.kernels.values()
    return {
        "launches": built.launches,
        "kernels": len(kernels),
        "on_tensor_cores": sum(each.tensor_instructions > 0 for each in kernels),
        "registers": max(each.registers for each in kernels),
        "stack_bytes": max(each.stack_bytes for each in kernels),
        "shared_bytes": max(each.shared_bytes for each in kernels),
        "cubin_bytes": cubin.bytes,
        "seconds": round(built.seconds, 2),
    }


def table(networks: Mapping[str, Any]) -> str:
    """Return one line for each network, precision and result, with the architectures that share it."""
    heads = ("network", "precision", "built for", "kernels started", "goal", "kernels", "registers", "stack, bytes")
    return markdown(heads, _lines(networks))


def _lines(networks: Mapping[str, Any]) -> Iterator[tuple[object, ...]]:
    for name, row in networks.items():
        for precision, builds in row["builds"].items():
            groups: dict[tuple[object, ...], list[str]] = {}
            for arch, made in builds.items():
                values = (made["launches"], made["kernels"]) if "launches" in made else (made["failure"], "–")
                groups.setdefault(values, []).append(arch)
            for (launches, kernels), archs in groups.items():
                largest = [_range(builds, archs, key) for key in ("registers", "stack_bytes")]
                yield (name, precision, ", ".join(archs), launches, GOALS.get(name, "–"), kernels, *largest)


def _range(builds: Mapping[str, Any], archs: list[str], key: str) -> str:
    found = sorted({builds[arch][key] for arch in archs if key in builds[arch]})
    return f"{found[0]} to {found[-1]}" if len(found) > 1 else str(found[0]) if found else "–"


if __name__ == "__main__":
    main()
