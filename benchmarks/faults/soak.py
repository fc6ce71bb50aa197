"""Puts random pipelines through the real compiler, to see whether anything ends the coordinator.

``python -m benchmarks.faults.soak relax 10000`` applies, builds and verifies random pipelines of all passes of the
catalog, those included that no search uses, with random arguments, on tiny networks. The same command continues where
it stopped. Every failure must be typed; every other exception is an internal error.
``benchmarks/results/soak-relax.json`` gets the failures by kind, hours, memory and disk over time, and each way in
which the compiler died, with the shortest pipeline that showed it. ``--reproduce`` runs these pipelines again;
``--table`` writes the Markdown of all compilers into ``docs/evidence/reliability.md``."""

import json
import re
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import psutil

import passsearch
from benchmarks.common import RESULTS, markdown, options, provenance, read, write_part
from benchmarks.faults.tiny_networks import NETWORKS, write_network
from passsearch.catalog import Catalog, CatalogEntry
from passsearch.core import BuildOptions, Candidate, Failure, PassSpec, Pipeline, folder_bytes
from passsearch.evaluate import WorkerEvaluator
from passsearch.store import write_json

MOST_PASSES, DEADLINE_S, SAVE_EVERY = 6, 60.0, 50
DEATHS = ("crash", "timeout", "oom")
"""Kinds of failures in which the compiler's process ended or hung."""

LEAVE_OUT = re.compile("MetaSchedule|MSC")
"""Passes that tune for minutes, or start other frameworks."""

INDEPENDENT = (re.compile(r"0x[0-9a-f]+|\d+"), re.compile(r"`[^`]*`"))
"""Parts of a reason that differ between two occurrences of one failure."""

FIRST: Mapping[str, Any] = {"done": 0, "seconds": 0.0, "builds": 0, "untyped": 0}


def main() -> None:
    arguments = options(
        __doc__,
        ("toolchain", "relax"),
        ("pipelines", 0),
        block=(2_500, "pipelines of one session, which has one network"),
        reproduce=(False, "run the pipelines that killed the compiler again"),
        table=(False, "write the page from the JSON"),
    )
    file = RESULTS / f"soak-{arguments.toolchain}.json"
    if arguments.table:
        write_part("reliability.md", "faults/soak.py", tables(RESULTS))
    elif arguments.reproduce:
        reproduce(read(file), arguments.toolchain)
    else:
        soak(arguments.toolchain, arguments.pipelines, block=arguments.block, file=file)


def soak(toolchain: str, pipelines: int, *, block: int, file: Path) -> dict[str, Any]:
    """Run pipelines until so many are done, those of earlier starts included; return the record."""
    record = {**FIRST, "failures": {}, "internal_errors": [], "deaths": {}, "over_time": [], **read(file)}
    while record["done"] < pipelines:
        number = record["done"] // block
        end = min(pipelines, (number + 1) * block)
        network = list(NETWORKS)[number % len(NETWORKS)]
        try:
            for _ in _block(toolchain, network, record, end=end):
                write_json(file, record)
        except Exception:  # noqa: BLE001
            # What this benchmark looks for. The next session goes on behind the pipeline that caused it.
            record["internal_errors"].append({"pipeline": record["done"], "traceback": traceback.format_exc()[-2000:]})
            record["done"] += 1
        write_json(file, record)
    return record


def _block(toolchain: str, network: str, record: dict[str, Any], *, end: int) -> Iterator[None]:
    """Run the pipelines of one block on one network; yields whenever the record is worth saving."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="passsearch-soak-")))
        model = str(write_network(network, folder))
        run = folder / "run"
        options: Any = {"toolchain": toolchain, "deadline": DEADLINE_S, "remember": False, "folder": run}
        evaluator = stack.enter_context(passsearch.session(model, **options))
        record |= provenance(evaluator.session)
        states, begin = set[tuple[str, int]](), time.monotonic()
        while record["done"] < end:
            rng = np.random.default_rng([7, record["done"]])
            candidate = random_candidate(evaluator.session.catalog, evaluator.session.toolchain.tvm_version, rng)
            outcome = _evaluate(evaluator, candidate, states, record)
            if isinstance(outcome, Failure):
                _count(outcome, candidate, network, record)
            record["done"] += 1
            if record["done"] % SAVE_EVERY == 0 or record["done"] == end:
                record["seconds"] += time.monotonic() - begin
                begin = time.monotonic()
                record["over_time"].append(_resources(record, run, len(states)))
                yield


def random_candidate(catalog: Catalog, tvm_version: str, rng: np.random.Generator) -> Candidate:
    """Return one to ``MOST_PASSES`` random passes with random arguments, and a random level of the build."""
    entries = [
        entry
        for entry in catalog.entries.values()
        if entry.supports(tvm_version) and "cpu" in (entry.devices or ("cpu",)) and not LEAVE_OUT.search(entry.name)
    ]
    number = int(rng.integers(1, MOST_PASSES + 1))
    # A pass twice as often where searches use it, so that pipelines get past their first pass.
    weights = np.array([2.0 if entry.role == "candidate" else 1.0 for entry in entries])
    places = rng.choice(len(entries), size=number, p=weights / weights.sum())
    steps = tuple(_random_pass(entries[place], rng) for place in places)
    return Candidate(Pipeline(steps), BuildOptions(opt_level=int(rng.choice([0, 0, 0, 3]))))


def _random_pass(entry: CatalogEntry, rng: np.random.Generator) -> PassSpec:
    samples = entry.argument_sets()
    return PassSpec.of(entry.name, **samples[int(rng.integers(len(samples)))])


def _evaluate(
    evaluator: WorkerEvaluator, candidate: Candidate, states: set[tuple[str, int]], record: dict[str, Any]
) -> Failure | None:
    """Apply a pipeline; build and verify its state if this session has not done so."""
    state = evaluator.reach(candidate.pipeline)
    if isinstance(state, Failure):
        return state
    if (state, candidate.build.opt_level) in states:
        return None
    states.add((state, candidate.build.opt_level))
    record["builds"] += 1
    built = evaluator.build(state, candidate)
    if isinstance(built, Failure):
        return built
    evaluator.discard(built)
    return None


def _count(failure: Failure, candidate: Candidate, network: str, record: dict[str, Any]) -> None:
    key = f"{failure.kind} in {failure.stage}"
    record["failures"][key] = record["failures"].get(key, 0) + 1
    if not failure.reason or not failure.stage:
        record["untyped"] += 1
    if failure.kind in DEATHS:
        reason = failure.reason
        for part in INDEPENDENT:
            reason = part.sub("…", reason)
        way = f"{failure.stage} {failure.step}: {failure.kind}, {reason}".replace(" :", ":")
        first = {"network": network, "pipeline": str(candidate.pipeline), "opt_level": candidate.build.opt_level}
        death = record["deaths"].setdefault(way, {**first, "count": 0})
        # The shortest pipeline is the easiest to understand.
        if len(first["pipeline"]) < len(death["pipeline"]):
            death |= first
        death["count"] += 1


def _resources(record: Mapping[str, Any], run: Path, builds: int) -> dict[str, Any]:
    coordinator = psutil.Process()
    return {
        "done": record["done"],
        "seconds": round(record["seconds"]),
        "coordinator_bytes": coordinator.memory_info().rss,
        "workers_bytes": sum(worker.memory_info().rss for worker in coordinator.children()),
        "disk_bytes": folder_bytes(run),
        "log_bytes": (run / "log.jsonl").stat().st_size,
        "builds_of_session": builds,
    }


def reproduce(record: Mapping[str, Any], toolchain: str) -> list[Failure | object]:
    """Run every pipeline again that killed the compiler, in sessions of their own; print and return the outcomes."""
    outcomes: list[Failure | object] = []
    for way, death in record["deaths"].items():
        with TemporaryDirectory(prefix="passsearch-soak-") as folder:
            model = str(write_network(death["network"], Path(folder)))
            candidate = Candidate(Pipeline.parse(death["pipeline"]), BuildOptions(opt_level=death["opt_level"]))
            with passsearch.session(model, toolchain=toolchain, deadline=DEADLINE_S, remember=False) as evaluator:
                outcome = evaluator.build_candidate(candidate)
        print(f"{way}\n    {death['network']}: {death['pipeline']} -> {outcome}")
        outcomes.append(outcome)
    return outcomes


def tables(results: Path) -> str:
    """Return the Markdown of the records in a folder."""
    records = [json.loads(file.read_text()) for file in sorted(results.glob("soak-*.json"))]
    deaths = [
        (_compiler(record), way, f"`{death['pipeline']}` on `{death['network']}`", death["count"])
        for record in records
        for way, death in record["deaths"].items()
    ]
    heads = ("compiler", "way in which it died", "shortest pipeline", "times")
    return f"{table(records)}\n\n{markdown(heads, deaths)}"


def table(records: Sequence[Mapping[str, Any]]) -> str:
    """Return the Markdown of ``docs/evidence/reliability.md``, a column for each compiler."""
    kinds = sorted({kind for record in records for kind in record["failures"]})
    rows: list[list[object]] = [
        ["pipelines", *(record["done"] for record in records)],
        ["hours", *(f"{record['seconds'] / 3600:.1f}" for record in records)],
        ["distinct builds", *(record["builds"] for record in records)],
        ["internal errors", *(len(record["internal_errors"]) for record in records)],
        ["failures without a reason", *(record["untyped"] for record in records)],
        *([f"`{kind}`", *(record["failures"].get(kind, 0) for record in records)] for kind in kinds),
        ["ways in which the compiler died", *(len(record["deaths"]) for record in records)],
    ]
    for done in (100, 1_000, 2_500):
        for what, key in (("coordinator's memory", "coordinator"), ("run folder", "disk")):
            rows.append([f"{what} after {done}, MB", *(_megabytes(each, key, done) for each in records)])
    for what, key in (("coordinator's memory", "coordinator"), ("workers' memory", "workers"), ("run folder", "disk")):
        rows.append([f"largest {what}, MB", *(_megabytes(each, key) for each in records)])
    return markdown(["", *map(_compiler, records)], rows)


def _compiler(record: Mapping[str, Any]) -> str:
    return f"{record['toolchain']['dialect']}, TVM {record['toolchain']['tvm_version']}"


def _megabytes(record: Mapping[str, Any], key: str, done: int | None = None) -> str:
    values = [row[f"{key}_bytes"] for row in record["over_time"] if done in (None, row["done"])]
    return f"{max(values) / 1e6:.0f}" if values else "–"


if __name__ == "__main__":
    main()
