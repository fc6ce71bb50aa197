"""Tunes the kernels of a network by MetaSchedule: ``python benchmarks/tune_kernels.py zoo:resnet18 --out DB``.

Tunes the kernels that exist when a named sequence of the catalog comes to ``ScheduleCPU``, with their weights in the
layout that MetaSchedule prefers. Beside the database it writes a catalog file with the sequence ``database``, which
applies the schedules of the database before ``ScheduleCPU`` schedules the other kernels. Another call continues.
"""

import argparse
import hashlib
import subprocess
import sys
from pathlib import Path

import yaml

import passsearch
from passsearch.core import Failure, PassSpec, Pipeline
from passsearch.evaluate import WorkerEvaluator

TUNER = Path(__file__).with_name("metaschedule.py")


def main() -> None:
    """Tune the kernels, write the catalog file, and print the command that uses it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("--out", type=Path, required=True, help="folder of the database")
    parser.add_argument("--toolchain", default="relax")
    parser.add_argument("--sequence", default="batchnorm-schedule-cpu", help="of the catalog (%(default)s)")
    parser.add_argument("--trials", type=int, default=1000, help="schedules to build and time in all (%(default)s)")
    arguments = parser.parse_args()
    folder = arguments.out.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    with passsearch.session(arguments.model, toolchain=arguments.toolchain) as evaluator:
        session = evaluator.session
        sequence = session.catalog.sequence(arguments.sequence).pipeline
        kernels, schedules = split_sequence(sequence, arguments.sequence)
        save_kernels(evaluator, kernels, folder / "kernels.json")
    command = [str(session.toolchain.python), str(TUNER), str(folder / "kernels.json"), str(folder)]
    tuner = subprocess.run([*command, "--target", session.target, "--trials", str(arguments.trials)], check=False)
    if tuner.returncode:
        sys.exit(tuner.returncode)
    pipeline = Pipeline((*kernels.passes, *database_passes(folder), *schedules.passes))
    catalog = write_catalog(folder, pipeline, summary=f"As {arguments.sequence}, kernels as MetaSchedule found them.")
    print(f"passsearch tune {arguments.model} --toolchain {session.toolchain.name} --catalog {catalog}")


def split_sequence(sequence: Pipeline, name: str) -> tuple[Pipeline, Pipeline]:
    """Return the passes that lead to the kernels, and the passes from ``ScheduleCPU`` on."""
    names = [step.name for step in sequence.passes]
    if "ScheduleCPU" not in names:
        sys.exit(f"`{name}` has no ScheduleCPU to tune for; see: passsearch catalog list")
    place = names.index("ScheduleCPU")
    # The added pass lets MetaSchedule change the layout of weights.
    kernels = Pipeline((*sequence.passes[:place], PassSpec.of("AttachAttrLayoutFreeBuffers")))
    return kernels, Pipeline(sequence.passes[place:])


def save_kernels(evaluator: WorkerEvaluator, pipeline: Pipeline, file: Path) -> None:
    """Write the network's IR after these passes."""
    state = evaluator.reach(pipeline)
    if isinstance(state, Failure):
        sys.exit(f"`{pipeline}` does not apply to {evaluator.session.model.name}: {state.reason}")
    if not evaluator.applier.save(state, file):
        sys.exit(f"`{file}` cannot be written.")


def database_passes(folder: Path) -> tuple[PassSpec, PassSpec]:
    """Return the passes that apply the schedules of a database."""
    # With the digest as an argument, a database that has grown makes another pipeline: no old fact holds for it.
    digest = hashlib.sha256((folder / "database_tuning_record.json").read_bytes()).hexdigest()[:16]
    schedules = PassSpec.of("MetaScheduleApplyDatabase", work_dir=str(folder), sha256=digest)
    return schedules, PassSpec.of("SplitLayoutRewritePreproc")


def write_catalog(folder: Path, pipeline: Pipeline, *, summary: str) -> Path:
    """Write a catalog file with the one sequence ``database`` and return its path."""
    sequence = {"name": "database", "summary": summary, "pipeline": str(pipeline)}
    catalog = folder / "catalog.yaml"
    catalog.write_text(yaml.safe_dump({"sequences": [sequence]}, sort_keys=False))
    return catalog


if __name__ == "__main__":
    main()
