"""Whether the confirmation calls equal kernels faster: ``python benchmarks/look_alikes.py``.

A look-alike is the same pipeline built with its functions at other addresses: LLVM aligns every function, and so the
padding between them, to another power of two, the linker puts code and data of random length before the kernels, and
the symbols that nothing looks up have other names. Instructions and weights are the same, the binary is another one, so
only the statistics can tell that neither is faster. Every look-alike goes through ``passsearch.search.confirm`` as a
winner of a search does. ``benchmarks/results/look_alikes.json`` has the verdicts; those in it are not repeated.
``--table`` prints the Markdown of ``docs/evidence/measurement.md``.
"""

import argparse
import os
import random
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from provenance import read_rows, write_row

import passsearch
from passsearch.core import Candidate, Failure
from passsearch.evaluate import Consumed, FreshCompile, TimedSamples, TimingRequest, WorkerEvaluator
from passsearch.search import Confirmation, Pairing, confirm, named_candidate

RESULTS = Path(__file__).parent / "results" / "look_alikes.json"
NETWORKS = ("zoo:resnet18", "zoo:mobilenet_v2")
PIPELINES = {"relay": "O3-passes", "relax": "nhwc-schedule-cpu"}
"""Pipelines to build, by toolchain: fast ones, because a baseline of a second hides what differs by percents."""
REPETITIONS = 3
LINKER = """#!/bin/sh
for file in "$@"; do
    case "$file" in
    *.o)
        nm --defined-only "$file" | awk '$2 == "t" {{ print $3, "{prefix}" $3 }}' > {names}
        objcopy --redefine-syms={names} "$file"
        ;;
    esac
done
exec cc {padding} "$@"
"""
"""A linker that renames the local functions of every object first. The runtime finds the others by their names."""
PADDING = """.text
.globl look_alike_code
look_alike_code: .space {code}, 0x90
.section .rodata
.space {constants}
.data
.space {data}
.section .note.GNU-stack,"",@progbits
"""


class LookAlike:
    """An evaluator whose fresh compiles of the candidate are look-alikes; stands in for ``evaluate.Evaluator``."""

    def __init__(self, evaluator: WorkerEvaluator, other: WorkerEvaluator, *, seed: int) -> None:
        """Compile look-alikes.

        Args:
            evaluator: Compiles the baseline, and times.
            other: Compiles the candidate: an evaluator of the same network for a target with another alignment.
            seed: Seed of the lengths of padding.
        """
        self._evaluator, self._other, self._seed = evaluator, other, seed
        self.plans = evaluator.plans

    def compile_fresh(
        self, key: str, candidate: Candidate, *, timing_key: str, kinds: Sequence[str]
    ) -> FreshCompile | Failure:
        """Compile in a new process; the candidate is linked in another way."""
        if key.endswith("baseline"):
            return self._evaluator.compile_fresh(key, candidate, timing_key=timing_key, kinds=kinds)
        with other_linking(random.Random(self._seed)):
            return self._other.compile_fresh(key, candidate, timing_key=timing_key, kinds=kinds)

    def time_fresh(self, request: TimingRequest) -> TimedSamples | Failure:
        """Time artifacts in several new processes."""
        return self._evaluator.time_fresh(request)

    def measure_consumption(self, *_: Any, **__: Any) -> Consumed | None:
        """Return ``None``: throughput is the objective."""


@contextmanager
def other_linking(rng: random.Random) -> Iterator[None]:
    """Let the compilers started meanwhile rename local functions, and link padding of random length before kernels."""
    before = os.environ.get("CC")
    with tempfile.TemporaryDirectory() as folder:
        source, linker = Path(folder) / "padding.s", Path(folder) / "linker"
        lengths = {name: 16 * rng.randrange(1, 4096) for name in ("code", "constants", "data")}
        source.write_text(PADDING.format(**lengths))
        prefix = f"look_alike_{rng.randrange(10**6)}_"
        linker.write_text(LINKER.format(padding=source, prefix=prefix, names=Path(folder) / "names"))
        linker.chmod(0o700)
        os.environ["CC"] = str(linker)
        try:
            yield
        finally:
            os.environ.pop("CC")
            if before is not None:
                os.environ["CC"] = before


def aligned(target: str, exponent: int) -> str:
    """Return a target, such as ``llvm -mcpu=znver3``, with every function aligned to a power of two."""
    return f"{target} -cl-opt=-align-all-functions:uint={exponent}"


def measure(model: str, toolchain: str, seed: int) -> tuple[dict[str, Any], WorkerEvaluator]:
    """Return the verdict on one look-alike."""
    with passsearch.session(model, toolchain=toolchain, remember=False) as evaluator:
        target = aligned(evaluator.session.target, exponent=5 + seed % 8)
        with passsearch.session(model, toolchain=toolchain, target=target, remember=False) as other:
            candidate = named_candidate(evaluator.session, PIPELINES[toolchain])
            baseline = Candidate(candidate.pipeline, candidate.build)
            built = evaluator.build_candidate(baseline)
            assert not isinstance(built, Failure), built
            confirmation = confirm(
                LookAlike(evaluator, other, seed=seed),  # type: ignore[arg-type]
                Pairing(baseline, baseline, built, "throughput"),
                repetitions=REPETITIONS,
                progress=lambda text: print(text, flush=True),
            )
            assert isinstance(confirmation, Confirmation), confirmation
            assert confirmation.throughput is not None and not confirmation.same_binary
            ratio = confirmation.throughput
            row = {
                "target": target,
                "threads": evaluator.session.threads,
                "ratio": round(ratio.value, 5),
                "interval": [round(ratio.interval.low, 5), round(ratio.interval.high, 5)],
                "noise_floor": round(confirmation.floor("throughput"), 5),
                "improved": confirmation.improves("throughput", keep_throughput=0.0),
                "compiles": confirmation.repetitions,
                "processes": confirmation.processes,
                "seconds": round(confirmation.seconds, 1),
            }
            return row, evaluator


def table(rows: Mapping[str, Any]) -> str:
    """Return the Markdown of ``docs/evidence/measurement.md``."""
    lines = [
        "| network | look-alikes | called improved | ratios | noise floors | processes, mean |",
        "|---" * 6 + "|",
    ]
    for name in dict.fromkeys(key.rsplit(" ", 1)[0] for key in rows):
        runs = [row for key, row in rows.items() if key.rsplit(" ", 1)[0] == name]
        ratios, floors = sorted(row["ratio"] for row in runs), sorted(row["noise_floor"] for row in runs)
        processes = sum(row["processes"] for row in runs) / len(runs)
        lines.append(
            f"| {name} | {len(runs)} | {sum(row['improved'] for row in runs)} | {ratios[0]:.3f} to {ratios[-1]:.3f} "
            f"| {100 * floors[0]:.1f} to {100 * floors[-1]:.1f} % | {processes:.0f} |"
        )
    return "\n".join(lines)


def main() -> None:
    """Measure the look-alikes that are missing, or print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeat", type=int, default=10)
    parser.add_argument("--table", action="store_true", help="print the Markdown from the committed JSON")
    arguments = parser.parse_args()
    for seed in range(0 if arguments.table else arguments.repeat):
        for toolchain in PIPELINES:
            for model in NETWORKS:
                name = f"{model.partition(':')[2]}, {toolchain} {seed + 1}"
                if name not in read_rows(RESULTS, "look_alikes"):
                    row, evaluator = measure(model, toolchain, seed)
                    write_row(RESULTS, "look_alikes", name=name, row=row, session=evaluator.session)
                    print(f"{name}: {row['ratio']} {row['interval']}, improved: {row['improved']}", flush=True)
    print(table(read_rows(RESULTS, "look_alikes")))


if __name__ == "__main__":
    main()
