"""Schedules by MetaSchedule for the kernels of a network: ``python benchmarks/tune_kernels.py zoo:resnet18 --out DB``.

Tunes the kernels that a named sequence of the catalog has when it comes to ``ScheduleCPU``, their weights laid out as
MetaSchedule likes. Beside the database it writes a catalog file with the sequence ``database``: the same with what was
found before ``ScheduleCPU``, which schedules the rest. Called again it goes on.
"""

import argparse
import hashlib
import subprocess
import sys
from pathlib import Path

import yaml
from provenance import settle

from passsearch.api.common import evaluating
from passsearch.core import Failure, PassSpec, Pipeline
from passsearch.evaluate import Session

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
    steps = chosen.catalog.sequence(arguments.sequence).pipeline.passes
    names = [step.name for step in steps]
    if "ScheduleCPU" not in names:
        sys.exit(f"`{arguments.sequence}` has no ScheduleCPU to tune for; see: passsearch catalog list")
    place = names.index("ScheduleCPU")
    kernels = Pipeline((*steps[:place], PassSpec.of("AttachAttrLayoutFreeBuffers")))
    folder = arguments.out.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    write_kernels(chosen, kernels, folder / "kernels.json")
    command = [str(chosen.toolchain.python), str(GUEST), str(folder / "kernels.json"), str(folder)]
    done = subprocess.run([*command, "--target", chosen.target, "--trials", str(arguments.trials)], check=False)
    if done.returncode:
        sys.exit(done.returncode)
    digest = hashlib.sha256((folder / "database_tuning_record.json").read_bytes()).hexdigest()[:16]
    found = PassSpec.of("MetaScheduleApplyDatabase", work_dir=str(folder), sha256=digest)
    after = (found, PassSpec.of("SplitLayoutRewritePreproc"), *steps[place:])
    sequence = {
        "name": "database",
        "summary": f"As {arguments.sequence}, kernels as MetaSchedule found them.",
        "pipeline": str(Pipeline((*kernels.passes, *after))),
    }
    catalog = folder / "catalog.yaml"
    catalog.write_text(yaml.safe_dump({"sequences": [sequence]}, sort_keys=False))
    print(f"passsearch tune {arguments.model} --toolchain {chosen.toolchain.name} --catalog {catalog}")


def write_kernels(chosen: Session, pipeline: Pipeline, file: Path) -> None:
    """The network's IR after these passes."""
    with evaluating(chosen, remember=True) as evaluator:
        state = evaluator.reach(pipeline)
        if isinstance(state, Failure):
            sys.exit(f"`{pipeline}` does not apply to {chosen.model.name}: {state.reason}")
        if not evaluator.save(state, file):
            sys.exit(f"`{file}` cannot be written.")


if __name__ == "__main__":
    main()
