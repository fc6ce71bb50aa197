"""The steps of ``session.py``. Each returns a row of the JSON and runs in a process of its own."""

import json
import os
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

ROOT = Path(__file__).parents[2]
SMALL = "bert_tiny"
"""Network that shows whether anything runs."""

METRICS = (
    *("latency_s", "throughput_per_s", "compile_s", "power_w", "energy_j"),
    *("memory_bytes", "temperature_c", "utilisation"),
)
TESTS = ("tests/measure/test_nvml.py", "tests/conformance/test_bridge.py", "tests/gpu")
"""Quick ones first."""
END_OF_TESTS_S = 5.0
"""Time for tests that are ended to print what failed."""
RUN = "run"
"""Folder of a network's search."""

PROCESSES, PROCESSES_OF_LARGE, LARGE_BYTES = 5, 3, 200_000_000
"""Numbers of processes that measure side by side; an interval of two says nothing. BERT-base has 440 MB of parameters,
which every process reads for each build, and five of them did not end in their time.
"""

SEARCH_SHARE = 0.75
"""Share of its time after which a search ends; reporting takes the rest."""

GPU_SEQUENCES, CPU_SEQUENCES = ("default-passes-gpu", "graph-gpu"), ("transposed-schedule-cpu",)
"""Sequences of the catalog whose scheduling rules are tried one by one."""
UNSEARCHED = ("schedule-gpu", "schedule-cpu")
"""Sequence of a network for which nothing was searched, on a GPU and on the CPU."""
RULES, FALLBACK = "dlight.", "dlight.gpu.Fallback"

PAPER_NETWORKS = {
    "resnet50": ("ResNet50_V2", "resnet50_pytorch"),
    "bert_base": ("BERT", "bert_squad_pytorch"),
    "mobilenet_v2": ("MobileNet_V2", "mobilenet_v2_pytorch"),
}
"""Names in table 6 of the paper, and among its claims."""

Row: TypeAlias = dict[str, Any]


@dataclass(frozen=True)
class Settings:
    """The settings that all steps share.

    Attributes:
        toolchain: Name of the toolchain.
        target: TVM's target; the host if ``None``.
        folder: Folder for files that later steps read.
        out: File of the results.
        pytorch: Interpreter that may have PyTorch.
        queue: Number of the queue that a step belongs to.
    """

    toolchain: str
    target: str | None
    folder: Path
    out: Path
    pytorch: Path
    queue: int = 0

    @property
    def row(self) -> Path:
        """File of the row that the current step of the queue makes."""
        return self.folder / f"row-{self.queue}.json"

    def keep(self, row: Row) -> None:
        """Write the row so far, which counts if the step is ended before it has made all of it."""
        write(self.row, row)

    @property
    def device(self) -> str:
        """Device that kernels run on."""
        return "cuda:0" if self.target else "cpu"


def write(file: Path, document: Mapping[str, Any]) -> None:
    """Write JSON, so that the file is complete at every moment."""
    file.parent.mkdir(parents=True, exist_ok=True)
    partial_file = file.with_suffix(".partial")
    partial_file.write_text(json.dumps(document, indent=1) + "\n")
    partial_file.replace(file)


def describe_machine(settings: Settings, seconds: float) -> Row:
    """Return the device, its sensors, and what is missing on this machine or unknown."""
    del seconds
    from passsearch.measure import probe
    from passsearch.toolchain import diagnose

    sensors = probe(settings.device)
    row = {"device": dict(sensors.device), "unavailable_metrics": dict(sensors.unavailable)}
    settings.keep(row)
    return {**row, "doctor": [finding.to_json() for finding in diagnose() if not finding.ok]}


def run_small(settings: Settings, seconds: float) -> Row:
    """Build, verify and time one small network, which shows at once whether anything runs."""
    import passsearch
    from passsearch.evaluate import MeasurementPlans
    from passsearch.measure import WindowPlan

    document = passsearch.compare(
        f"zoo:{SMALL}",
        ["default"],
        toolchain=settings.toolchain,
        target=settings.target,
        processes=1,
        plans=MeasurementPlans(final_windows=WindowPlan(windows=1, window_s=seconds / 15)),
    )
    row = measurement_row(document["rows"][0])
    return {"target": document["target"], "toolchain": document["toolchain"], **row}


def try_rules(settings: Settings, seconds: float) -> Row:
    """Build and run a small network with each scheduling rule alone; say what came of it.

    A rule that kills its process, which a wrong kernel on a GPU can do, is a crash in its own row.
    """
    del seconds
    from passsearch.core import Failure

    rows: Row = {}
    with open_evaluator(SMALL, settings, 60, run="rules") as evaluator:
        for name, candidate in _one_rule_each(evaluator.session, GPU_SEQUENCES if settings.target else CPU_SEQUENCES):
            built = evaluator.build_candidate(candidate)
            rows[name] = (
                {"failure": built.to_json()}
                if isinstance(built, Failure)
                else {
                    "compile_s": built.seconds,
                    "first_run_s": built.run_s,
                    "outputs": built.agreement.stated.to_json(),
                }
            )
            settings.keep(rows)
    return rows


def _one_rule_each(session: Any, sequences: Sequence[str]) -> Iterator[tuple[str, Any]]:
    """Yield each DLight rule of a sequence with a pipeline that has no other rule, but the fallback; then all of it."""
    from passsearch.core import Candidate, Pipeline

    for sequence in sequences:
        passes = session.catalog.sequence(sequence).pipeline.passes
        for rule in (step for step in passes if step.name.startswith(RULES)):
            kept = [step for step in passes if step.name in (rule.name, FALLBACK) or not step.name.startswith(RULES)]
            yield f"{sequence}, {rule.name}", Candidate(Pipeline(tuple(kept)))
        yield sequence, Candidate(Pipeline(passes))


def search(network: str, settings: Settings, seconds: float) -> Row:
    """Search one network; return how the catalog's sequences did and what the winner is."""
    import passsearch
    from passsearch.evaluate import MeasurementPlans

    def report(text: str, done: int, total: int) -> None:
        print(f"{network}: {text} {done}/{total}", file=sys.stderr, flush=True)

    result = passsearch.tune(
        f"zoo:{network}",
        toolchain=settings.toolchain,
        target=settings.target,
        trials=10_000,
        timeout=SEARCH_SHARE * seconds,
        plans=MeasurementPlans(processes=1, confirm_share=0.35, least_timing_s=10.0),
        out=settings.folder / network / RUN,
        remember=False,  # an earlier session may have left facts, but no files
        progress=report,
    )
    document = result.document
    space = {key: value for key, value in document["space"].items() if not isinstance(value, list)}
    kept = ("target", "toolchain", "device", "failures", "failed", "seconds", "composition", "verdict", "ratios")
    best = {key: document["best"][key] for key in ("name", "pipeline", "build", "source")}
    found = {"space": space, "sequences": _sequences(document), "best": best}
    return {
        **{key: document[key] for key in kept},
        **found,
        "kernels_us": _kernel_times(settings.folder / network / RUN),
    }


def _kernel_times(folder: Path) -> dict[str, dict[str, float]]:
    """Return the microseconds of kernels that were timed alone, by their digests and the passes that scheduled them."""
    from passsearch.store import Log

    times: dict[str, dict[str, float]] = {}
    with Log(folder / "log.jsonl", writable=False) as log:
        for kind, key in log.times:
            fact = (kind == "variant" and log.recall(kind, key)) or {}
            if "seconds" in fact:
                digest, _, step = key.split("|", 2)
                times.setdefault(digest, {})[step] = round(1e6 * fact["seconds"], 2)
    return times


def _sequences(document: Mapping[str, Any]) -> Row:
    """Return throughput, as a multiple of the default's, and compile time of every named candidate."""
    return {
        trial["name"]: {"throughput": trial["ratio"]["ratio"], "compile_s": trial["compile_s"]}
        for trial in document["trials"]
        if trial["name"] and trial["ratio"]
    }


def measure(network: str, settings: Settings, seconds: float) -> Row:
    """Measure the default, the catalog's best sequence and the search's winner side by side, in several processes."""
    from passsearch.studies import ComparisonOptions, Side, compare_candidates

    with open_evaluator(network, settings, seconds) as evaluator:
        candidates = candidates_of(network, settings, evaluator.session)
        is_large = evaluator.session.model.path.stat().st_size > LARGE_BYTES
        options = ComparisonOptions(processes=PROCESSES_OF_LARGE if is_large else PROCESSES)

        def report(text: str, done: int, total: int) -> None:
            print(f"{network}: {text} {done}/{total}", file=sys.stderr, flush=True)

        compared = compare_candidates([Side(evaluator, list(candidates.values()))], options, progress=report)
    document = compared.to_json()
    rows = {label: measurement_row(row) for label, row in zip(candidates, document["rows"], strict=True)}
    kept = {key: document[key] for key in ("target", "device", "noise_floor", "processes", "pairs")}
    return {"rows": rows, **kept, "paper": paper_values(network)}


@contextmanager
def open_evaluator(network: str, settings: Settings, seconds: float, *, run: str = RUN) -> Iterator[Any]:
    """Yield the evaluator of a network, by default in the folder of its search, which has the winner's build."""
    import passsearch
    from passsearch.evaluate import MeasurementPlans
    from passsearch.measure import WindowPlan

    # One window for each of three artifacts in a process: a fifth of the step, because queues share the GPU.
    windows = WindowPlan(windows=1, window_s=min(5.0, seconds / (15 * PROCESSES)))
    with passsearch.session(
        f"zoo:{network}",
        toolchain=settings.toolchain,
        target=settings.target,
        plans=MeasurementPlans(final_windows=windows),
        folder=settings.folder / network / run,
        remember=False,
    ) as evaluator:
        yield evaluator


def candidates_of(network: str, settings: Settings, session: Any) -> dict[str, Any]:
    """Return the default, and the best sequence and the winner of a search that has ended, or else one sequence."""
    from passsearch.core import Candidate
    from passsearch.search import named_candidate

    candidates = {"default": session.dialect.baseline}
    file = settings.folder / network / RUN / "result.json"
    if not file.exists():
        candidates["sequence"] = named_candidate(session, UNSEARCHED[0] if settings.target else UNSEARCHED[1])
        return candidates
    document = json.loads(file.read_text())
    sequences = {name: row for name, row in _sequences(document).items() if name in session.catalog.sequences}
    if sequences:
        name = max(sequences, key=lambda name: sequences[name]["throughput"])
        candidates["sequence"] = named_candidate(session, name)
    best = document["best"]
    candidates["tuned"] = Candidate.from_json(best, "tuned")
    return candidates


def measurement_row(row: Mapping[str, Any]) -> Row:
    """Return the metrics of one build without the raw samples; a metric without value is null beside its reason."""
    kept = {key: row[key] for key in ("name", "pipeline", "ratio", "outputs") if key in row}
    if "failure" in row:
        return {**kept, "failure": row["failure"]}
    values = {key: row[key] for key in METRICS}
    if values["latency_s"]:
        values["latency_s"] = {key: value for key, value in values["latency_s"].items() if key != "samples"}
    return {**kept, **values, "unavailable": row["unavailable"], "conditions": row["conditions"]}


def paper_values(network: str) -> Row:
    """Return the paper's values for a network: those of figures 2 and 3 as ratios to -O3, and those of table 6.

    A value of table 6 is a median and a maximum.
    """
    if network not in PAPER_NETWORKS:
        return {}
    paper = json.loads((ROOT / "reproduction" / "cf22" / "paper.json").read_text())
    printed, claimed = PAPER_NETWORKS[network]
    gain, reduction = (paper["claims"][name].get(claimed) for name in ("throughput_gain", "compile_time_reduction"))
    keys = ("power_w", "temperature_c", "memory_mib")
    rows = [
        {"device": device, "framework": framework, "selection": selection}
        | {key: numbers[2 * place : 2 * place + 2] for place, key in enumerate(keys)}
        for device, name, framework, selection, *numbers in paper["table6"]
        if name == printed
    ]
    return {
        "throughput": None if gain is None else round(1 + gain, 3),
        "compile_time": None if reduction is None else round(1 - reduction, 3),
        "table6": rows,
    }


def run_tests(settings: Settings, seconds: float) -> Row:
    """Run the tests marked ``gpu``; if the device has a meter, its readings are written beside the JSON meanwhile."""
    from passsearch.measure import probe, recording

    meter = probe(settings.device).meter
    if meter is None:
        return _run_pytest(seconds)
    with recording(meter) as trace:
        row = _run_pytest(seconds)
    trace.write(settings.out.with_suffix(".trace.jsonl"))
    return row


def _run_pytest(seconds: float) -> Row:
    """Return the counts of the tests, and the reason of every test that did not pass; those that ran, if time ends."""
    limit_s = max(1.0, 0.9 * seconds - END_OF_TESTS_S)
    command: Sequence[str] = [sys.executable, "-m", "pytest", "-v", "-rsfE", "-p", "no:cacheprovider", "-m", "gpu"]
    variables = {**os.environ, "PYTHONUNBUFFERED": "1"}
    row: Row = {}
    process = subprocess.Popen(
        [*command, *TESTS], cwd=ROOT, env=variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    try:
        output, _ = process.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        row["unavailable"] = f"they did not end within {limit_s:.0f} s"
        process.send_signal(signal.SIGINT)  # pytest then prints the failures so far
        try:
            output, _ = process.communicate(timeout=END_OF_TESTS_S)
        except subprocess.TimeoutExpired:
            process.kill()
            output, _ = process.communicate()
    text = output.decode(errors="replace")
    outcomes = Counter(re.findall(r"^\S+::.* (PASSED|FAILED|SKIPPED|ERROR)\b", text, re.MULTILINE))
    row |= {outcome.lower(): count for outcome, count in outcomes.items()}
    reasons = [line for line in text.splitlines() if line.startswith(("SKIPPED", "FAILED", "ERROR"))]
    return {**row, "reasons": reasons or ([] if outcomes else [text[-500:]])}
