"""Makes all measurements on a GPU machine in ten minutes: ``python -m benchmarks.gpu_session --wheels FOLDER``.

The plan (``--plan`` prints it) has a time for each step. For each network it searches and confirms the winner by fresh
compiles, times PyTorch beside TVM's builds where it is installed, and measures TVM's default, the catalog's best
sequence and the winner side by side. Further steps are the tests marked ``gpu``, each scheduling rule alone, and
``OTHERS``: networks for which nothing is searched, by TVM's default and by one sequence beside PyTorch, which
``--unsearched`` does alone. ``--precisions float16 tf32 bfloat16`` times the networks in 16 bits and TF32 instead, by
the sequence for it beside PyTorch in the same precision. With eight cores or more, every network has a queue of its
own, because compilers use one core each and a lock gives the GPU to one queue at a time; otherwise one queue has all
steps but ``OTHERS``, the most valuable first. Every step is a process that is ended when its time is over, and time
that a step leaves goes to the later ones of its queue. The JSON is written after every step: a session that is cut off
loses its current steps only.

Needs a checkout, an NVIDIA driver and a C compiler, and no internet. With ``--wheels`` it makes an environment from the
folder that ``pack.py`` wrote and the packages of this interpreter; without, it uses ``--toolchain``. ``--target
host`` does the same on the CPU.
"""

import argparse
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any, TypeAlias

from benchmarks.gpu import steps
from benchmarks.gpu.pack import PACK, install_beside
from benchmarks.gpu.pytorch import prepare_inductor, time_pytorch
from benchmarks.gpu.steps import Row, Settings, write
from benchmarks.gpu.tables import tables

ROOT = Path(__file__).parents[1]
NETWORKS = ("resnet50", "bert_base", "mobilenet_v2")
PRECISIONS = ("float16", "tf32", "bfloat16")
OTHERS = ("gpt2", "resnet50@8")
"""Networks without a search, if no network is named and there are several queues."""
LEAST_S = 3.0
"""Shortest time in which a step can do anything."""
QUEUE_CORES = 8
"""Number of cores from which on several queues run at once."""

Work: TypeAlias = Callable[[Settings, float], Row]


@dataclass(frozen=True)
class Step:
    """A part of the session: the keys of its row in the JSON, its time in a session of ten minutes, and its work."""

    place: tuple[str, ...]
    seconds: float
    work: Work

    @property
    def name(self) -> str:
        """The name that is printed."""
        return " ".join(self.place)


def make_plan(
    networks: Sequence[str],
    unsearched: Sequence[str] = (),
    *,
    at_once: bool,
    networks_only: bool = False,
    precisions: Sequence[str] = (),
) -> list[list[Step]]:
    """Return the queues, each with its steps in their order; a single queue unless several run at once."""
    machine = [Step(("machine",), 15, steps.describe_machine)]
    if precisions:
        timed = [[_precision_step(name, precision) for precision in precisions] for name in (*networks, *unsearched)]
        # The first precision of every network before the second one of any.
        in_turn = [step for group in zip(*timed, strict=True) for step in group]
        return [machine, *timed] if at_once else [[*machine, *in_turn]]
    beside_pytorch = [Step(("networks", name, "pytorch"), 180, partial(time_pytorch, name)) for name in unsearched]
    if not networks:
        return [machine, *([step] for step in beside_pytorch)] if at_once else [[*machine, *beside_pytorch]]
    first, *others = queues = [_network_steps(name) for name in networks]
    small = [] if networks_only else [Step(("small",), 30, steps.run_small)]
    tests = [Step(("tests",), 30, steps.run_tests)]
    rules = [] if networks_only else [Step(("rules",), 30, steps.try_rules)]
    if at_once:
        inductor = Step(("inductor",), 60, partial(prepare_inductor, networks))
        return [[*machine, inductor, *small, *tests, *beside_pytorch, *rules], *queues]
    rest = [step for queue in others for step in queue]
    return [[*machine, *small, *first, *tests, *rules, *rest, *beside_pytorch]]


def _precision_step(name: str, precision: str) -> Step:
    work = partial(time_pytorch, name, precision=precision)
    return Step(("networks", name, f"pytorch {precision}"), 60, work)


def _network_steps(name: str) -> list[Step]:
    return [
        Step(("networks", name, "search"), 100, partial(steps.search, name)),
        Step(("networks", name, "pytorch"), 45, partial(time_pytorch, name)),
        Step(("networks", name, "measure"), 20, partial(steps.measure, name)),
    ]


def main() -> None:
    """Measure everything, in a new environment if there are wheels."""
    options = _parse()
    end_s = time.monotonic() + 60 * options.minutes
    at_once = len(os.sched_getaffinity(0)) >= QUEUE_CORES
    if not options.networks and not options.unsearched:
        options.networks, options.unsearched = NETWORKS, OTHERS if at_once else ()
        if options.precisions:
            options.unsearched = OTHERS[:1]
    choices: Any = {"networks_only": options.networks_only, "precisions": options.precisions}
    queues = make_plan(options.networks, options.unsearched, at_once=at_once, **choices)
    if options.plan:
        for queue in queues:
            print("\n".join(f"{60 * options.minutes * share:4.0f} s  {step.name}" for step, share in _shares(queue)))
    elif options.wheels:
        sys.exit(run_in_environment(options))
    else:
        document = run_session(queues, options, end_s=end_s)
        print(json.dumps(document, indent=1), tables(document), sep="\n")


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("networks", nargs="*", help=f"of the zoo ({' '.join(NETWORKS)})")
    parser.add_argument("--unsearched", nargs="+", default=[], metavar="NETWORK", help="networks without a search")
    parser.add_argument("--wheels", type=Path, metavar="FOLDER", help="folder that pack.py wrote")
    parser.add_argument("--toolchain", default="this", help="name of an installed toolchain (%(default)s interpreter)")
    parser.add_argument("--target", default="cuda", help="TVM's target, or `host` (%(default)s)")
    parser.add_argument("--minutes", type=float, default=10.0, help="for all of it (%(default)s)")
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results" / "gpu_session.json")
    parser.add_argument(
        "--pytorch", type=Path, metavar="PYTHON", help="interpreter with PyTorch, numpy and onnx (this)"
    )
    parser.add_argument("--precisions", nargs="+", default=[], choices=PRECISIONS, help="16 bits and TF32 instead")
    parser.add_argument("--networks-only", action="store_true", help="without the small network and the rules")
    parser.add_argument("--plan", action="store_true", help="print the steps with their times, and do nothing")
    return parser.parse_args()


def _shares(steps: Sequence[Step]) -> list[tuple[Step, float]]:
    total_s = sum(step.seconds for step in steps)
    return [(step, step.seconds / total_s) for step in steps]


def run_session(queues: Sequence[Sequence[Step]], options: argparse.Namespace, *, end_s: float) -> dict[str, Any]:
    """Run the steps of every queue one by one, all queues at once, and write the JSON after each step."""
    sys.path.insert(0, str(ROOT))  # passsearch of this checkout, whatever is installed
    document: dict[str, Any] = {"date": time.strftime("%Y-%m-%d"), "minutes": options.minutes, "queues": len(queues)}
    with tempfile.TemporaryDirectory(prefix="passsearch-", ignore_cleanup_errors=True) as folder:
        target = None if options.target == "host" else options.target
        python = options.pytorch or Path(sys.executable)
        settings = Settings(options.toolchain, target, Path(folder), options.out.absolute(), python)
        left = {number: list(queue) for number, queue in enumerate(queues)}
        running: dict[int, Running] = {}
        while running or any(left.values()):
            for number in (number for number, steps in left.items() if steps and number not in running):
                _, share = _shares(left[number])[0]
                seconds = share * (end_s - time.monotonic())
                running[number] = start(left[number].pop(0), replace(settings, queue=number), seconds=seconds)
            wait([each.process.sentinel for each in running.values()], min(each.left_s for each in running.values()))
            for number, each in [*running.items()]:
                if each.left_s <= 0 or not each.process.is_alive():
                    _add(document, each.step.place, running.pop(number).end())
                    write(options.out, document)
    return document


def _add(document: dict[str, Any], place: tuple[str, ...], row: Row) -> None:
    for key in place[:-1]:
        document = document.setdefault(key, {})
    document[place[-1]] = row


@dataclass(frozen=True)
class Running:
    """A step that runs in a process: the seconds that it may take, and when it started on the monotonic clock."""

    step: Step
    settings: Settings
    seconds: float
    start_s: float
    process: multiprocessing.process.BaseProcess

    @property
    def left_s(self) -> float:
        """Seconds until it is ended."""
        return max(0.0, self.start_s + self.seconds - time.monotonic())

    def end(self) -> Row:
        """End the step's processes; return its row, or the reason why there is none."""
        is_late = self.process.is_alive()
        _end(self.process)
        row: Row = json.loads(self.settings.row.read_text()) if self.settings.row.exists() else {}
        if is_late and self.seconds < LEAST_S:
            return {"unavailable": f"{max(self.seconds, 0.0):.0f} s were left for it"}
        if is_late:
            row |= {"unavailable": f"its process was ended after {self.seconds:.0f} s"}
        elif self.process.exitcode:
            row |= {"unavailable": f"its process ended with status {self.process.exitcode}"}
        return {**row, "step_s": round(time.monotonic() - self.start_s, 1)}


def start(step: Step, settings: Settings, *, seconds: float) -> Running:
    """Start a step in a process of its own."""
    print(f"{step.name}: {seconds:.0f} s", file=sys.stderr, flush=True)
    settings.row.unlink(missing_ok=True)
    # A fork, because imports take seconds; no thread runs here, and no driver is in use.
    process = multiprocessing.get_context("fork").Process(target=_work, args=(step, settings, seconds))
    process.start()
    return Running(step, settings, seconds, time.monotonic(), process)


def _work(step: Step, settings: Settings, seconds: float) -> None:
    """Write the row of a step to a file; whatever goes wrong is the reason why there is no row."""
    try:
        row = step.work(settings, seconds)
    except Exception as error:  # noqa: BLE001 -- time on the machine is short, and the later steps do not need this one
        traceback.print_exc()
        row = json.loads(settings.row.read_text()) if settings.row.exists() else {}
        row |= {"unavailable": f"{type(error).__name__}: {error}"[:500]}
    settings.keep(row)


def _end(process: multiprocessing.Process) -> None:
    """End a step's process and all that it started."""
    import psutil  # the interpreter that makes the environment may lack it

    if process.is_alive():
        root = psutil.Process(process.pid)
        for each in [*root.children(recursive=True), root]:
            try:
                each.kill()
            except psutil.NoSuchProcess:  # noqa: PERF203 -- it ended by itself
                continue
    process.join()


def run_in_environment(options: argparse.Namespace) -> int:
    """Run the same command in a temporary environment with the packages of a pack; return its exit status."""
    start_s = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="passsearch-") as folder:
        python = install_beside(options.wheels / PACK, Path(folder) / "environment", ROOT)
        minutes = options.minutes - (time.monotonic() - start_s) / 60
        arguments = ["--target", options.target, "--minutes", str(minutes), "--out", str(options.out.absolute())]
        arguments += ["--pytorch", str(options.pytorch or sys.executable)]
        arguments += ["--networks-only"] if options.networks_only else []
        arguments += ["--unsearched", *options.unsearched] if options.unsearched else []
        folders = {"PASSSEARCH_DATA_DIR": f"{folder}/data", "XDG_CACHE_HOME": f"{folder}/cache"}
        command = [str(python), "-m", "benchmarks.gpu_session", *options.networks, *arguments]
        return subprocess.run(command, env={**os.environ, **folders}).returncode


if __name__ == "__main__":
    main()
