"""Schedules by MetaSchedule for the kernels of a network: ``python benchmarks/tune_kernels.py zoo:resnet18 --out DB``.

Tunes the kernels that a named sequence of the catalog has when it comes to ``ScheduleCPU``. Beside the database it
writes a catalog file with that sequence, the database before ``ScheduleCPU``, which schedules what is not in there:
``passsearch tune zoo:resnet18 --catalog DB/catalog.yaml``.
"""

import argparse
import subprocess
import time
from pathlib import Path

import yaml
from provenance import settle

from passsearch.api.asking import evaluating
from passsearch.core import Failure, PassSpec, Pipeline
from passsearch.search.setting import Setting

GUEST = Path(__file__).with_name("metaschedule.py")


def main() -> None:
    """Tune the kernels and say how to use what was found."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("--out", type=Path, required=True, help="folder of the database")
    parser.add_argument("--toolchain", default="relax")
    parser.add_argument("--sequence", default="batchnorm-schedule-cpu", help="of the catalog (%(default)s)")
    parser.add_argument("--trials", type=int, default=1000, help="schedules to build and time in all (%(default)s)")
    arguments = parser.parse_args()
    chosen = settle(arguments.model, arguments.toolchain)
    steps = chosen.catalog.sequences[arguments.sequence].pipeline.passes
    scheduling = [step.name for step in steps].index("ScheduleCPU")
    folder = arguments.out.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    write_kernels(chosen, Pipeline(steps[:scheduling]), folder / "kernels.json")
    start = time.perf_counter()
    command = [str(chosen.toolchain.python), str(GUEST), str(folder / "kernels.json"), str(folder)]
    subprocess.run([*command, "--target", chosen.target, "--trials", str(arguments.trials)], check=True)
    found = PassSpec.of("MetaScheduleApplyDatabase", work_dir=str(folder))
    sequence = {
        "name": "database",
        "summary": f"As {arguments.sequence}, kernels as MetaSchedule found them in {arguments.trials} trials.",
        "pipeline": str(Pipeline((*steps[:scheduling], found, *steps[scheduling:]))),
    }
    catalog = folder / "catalog.yaml"
    catalog.write_text(yaml.safe_dump({"sequences": [sequence]}, sort_keys=False))
    print(f"Tuned in {time.perf_counter() - start:.0f} s: passsearch tune {arguments.model} --catalog {catalog}")


def write_kernels(chosen: Setting, pipeline: Pipeline, file: Path) -> None:
    """The network's IR after these passes."""
    with evaluating(chosen, remember=True) as evaluator:
        state = evaluator.reach(pipeline)
        if isinstance(state, Failure) or not evaluator.save(state, file):
            raise SystemExit(f"`{pipeline}` does not apply to {chosen.model.name}.")


if __name__ == "__main__":
    main()
