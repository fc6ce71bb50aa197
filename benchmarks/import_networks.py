"""Which architectures passsearch takes, by dialect: ``python benchmarks/import_networks.py [NAME…]``.

Each network of ``tests/frontends/architectures.py`` is imported, analysed and built without optimisation, in a process
of its own, and its outputs on random inputs are compared with those of its framework. The answers go to
``benchmarks/results/networks.json`` under the name of ``--run``; what is in it is not asked again. ``--table`` writes
the rows into ``docs/evidence/networks.md``.
"""

import argparse
import json
import multiprocessing
import os
import re
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import date
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests" / "frontends"))

from architectures import ARCHITECTURES, Network  # noqa: E402
from provenance import write_part  # noqa: E402
from tune_zoo import markdown  # noqa: E402

from passsearch.api.common import model_file, open_evaluator  # noqa: E402
from passsearch.core import Candidate, Failure, strict_limit  # noqa: E402
from passsearch.dialects.case_inputs import case_inputs  # noqa: E402
from passsearch.dialects.comparison import relative_deviation  # noqa: E402
from passsearch.errors import PassSearchError  # noqa: E402
from passsearch.evaluate import open_session  # noqa: E402
from passsearch.search import analyze_network  # noqa: E402

RESULTS, PAGE = ROOT / "benchmarks" / "results" / "networks.json", ROOT / "docs" / "evidence" / "networks.md"
DIALECTS = ("relax", "relay")
STEPS = ("refused", "read", "imported", "analysed", "built", "equal")
"""How far a network gets, in order."""
CASE = 1
"""Seed of the inputs on which outputs are compared."""
LONGEST = 320
"""Longest reason in characters."""
PACKAGES = ("onnx", "onnxscript", "torch", "transformers", "numpy", "tensorflow", "mxnet", "gluoncv")


def main() -> None:
    """Ask for the networks that have no answer yet, or print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="networks (all)")
    parser.add_argument("--run", default="after", help="section of the results")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--timeout", type=float, default=300.0, help="longest time of one network in seconds")
    parser.add_argument("--again", action="store_true", help="ask again for networks that are not equal on both")
    parser.add_argument("--table", action="store_true")
    arguments = parser.parse_args()
    if arguments.table:
        write_part(PAGE, "import_networks.py", table(json.loads(arguments.results.read_text())))
    else:
        for package in ("torch", "transformers"):
            with suppress(ImportError):
                import_module(package)
        for name in arguments.names or ARCHITECTURES:
            ask(name, arguments)


def ask(name: str, arguments: argparse.Namespace) -> None:
    """Try one network, unless its answer is there, and write the answer."""
    results = json.loads(arguments.results.read_text()) if arguments.results.exists() else {}
    run = results.setdefault(arguments.run, {"networks": {}})
    known = run["networks"].get(name)
    is_equal = known and all(known.get(dialect, {}).get("step") == "equal" for dialect in DIALECTS)
    if known and (is_equal or not arguments.again):
        return
    start, entry = time.monotonic(), ARCHITECTURES[name]
    answer = {"skipped": entry.missing} if entry.missing else in_own_process(name, timeout_s=arguments.timeout)
    row = {"group": entry.group, **answer, "seconds": round(time.monotonic() - start, 1)}
    packages = {package: installed(package) for package in PACKAGES}
    # Frameworks that need other versions than the rest are tried in an environment of their own.
    row |= {"packages": packages} if run.setdefault("packages", packages) != packages else {}
    run["networks"][name], run["date"] = row, date.today().isoformat()
    arguments.results.parent.mkdir(parents=True, exist_ok=True)
    arguments.results.write_text(json.dumps(results, indent=1) + "\n")
    print(name, json.dumps(answer), flush=True)


def installed(package: str) -> str | None:
    """Return the version of a package, ``None`` if it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def in_own_process(name: str, *, timeout_s: float, dialects: Sequence[str] = DIALECTS) -> dict[str, Any]:
    """Return the answers about one network by dialect; a process that takes too long is ended with its children."""
    with tempfile.TemporaryDirectory() as folder:
        lines = Path(folder) / "answers"
        # A fork, because importing the frameworks takes longer than most networks do.
        process = multiprocessing.get_context("fork").Process(target=write_answers, args=(name, lines, dialects))
        process.start()
        process.join(timeout_s)
        reason = f"the process ended with {process.exitcode}"
        if process.is_alive():
            os.killpg(process.pid or 0, signal.SIGKILL)
            process.join()
            reason = f"no answer within {timeout_s:g} s"
        answers = [json.loads(line) for line in lines.read_text().splitlines()] if lines.exists() else []
    by_dialect = {answer.pop("dialect"): answer for answer in answers}
    return {dialect: by_dialect.get(dialect, {"step": "refused", "reason": reason}) for dialect in dialects}


def write_answers(name: str, lines: Path, dialects: Sequence[str]) -> None:
    """Append one line of JSON for each dialect to a file."""
    os.setsid()
    os.environ["XDG_CACHE_HOME"] = str(lines.parent)
    warnings.simplefilter("ignore")
    folder = lines.with_name("network")
    folder.mkdir()
    try:
        network = ARCHITECTURES[name].make(folder)
    except (ValueError, RuntimeError, TypeError, LookupError, AttributeError, ImportError) as error:
        sys.exit(f"{name}: {type(error).__name__}: {error}")
    for dialect in dialects:
        answer = {"dialect": dialect, "step": "refused"}
        try:
            for found in answers(network, dialect):
                answer |= found
        except PassSearchError as error:
            answer["reason"] = str(error).replace(str(lines.parent), "FOLDER")[:LONGEST]
        with lines.open("a") as file:
            file.write(json.dumps(answer) + "\n")


def answers(network: Network, dialect: str) -> Any:
    """Yield what is known after each step."""
    file = model_file(network.model, network.example_inputs, inputs=network.inputs, batch=None, toolchain=dialect)
    yield {"step": "read", "route": file.format}
    session = open_session(file, toolchain=dialect, target=None, reference="import")
    session = replace(session, output_cases=(CASE,))
    with tempfile.TemporaryDirectory() as folder, open_evaluator(session, folder=Path(folder), remember=False) as own:
        yield {"step": "imported"}
        classes = analyze_network(session, own.network.summary).classes
        yield {"step": "analysed", "classes": [each.name for each in classes]}
        plain = next(each for each in session.dialect.baselines if each.build.opt_level == 0)
        built = own.build(own.graph.root, Candidate(plain.pipeline, plain.build))
        if isinstance(built, Failure):
            yield {"reason": f"{built.kind} in {built.stage}: {built.reason}"[:LONGEST]}
            return
        yield {"step": "built"}
        with np.load(own.builder.reference) as arrays:
            count = sum(name.startswith(f"{CASE}_") for name in arrays.files)
            actual = [arrays[f"{CASE}_{index}"] for index in range(count)]
        expected, other = (network.outputs(case_inputs(own.network.check, seed)) for seed in (CASE, CASE + 1))
        summary = own.network.summary
        limit = strict_limit(summary.computed_types, quantizes=summary.quantizes)
        if max(map(relative_deviation, other, expected), default=0.0) <= 10 * limit:
            yield {"reason": "the framework's outputs hardly depend on the inputs, so equal ones would say nothing"}
            return
        yield judge(actual, expected, limit=limit)


def judge(actual: Sequence[Any], expected: Sequence[Any], *, limit: float) -> dict[str, Any]:
    """Return the answer of the last step."""
    shapes = [[f"{each.dtype}{list(each.shape)}" for each in outputs] for outputs in (actual, expected)]
    if shapes[0] != shapes[1]:
        mine, framework = (", ".join(texts) for texts in shapes)
        return {"reason": f"outputs are {mine}; the framework's are {framework}"[:LONGEST]}
    deviation = max(map(relative_deviation, actual, expected), default=0.0)
    if deviation > limit:
        return {"reason": f"outputs deviate by {deviation:.2g}, the limit is {limit:.2g}"}
    return {"step": "equal", "deviation": deviation}


def table(results: Mapping[str, Any]) -> str:
    """Return what the last run took and refused, in Markdown."""
    content = list(results.values())[-1]
    last = content["networks"]
    rows = [[content["date"], *(share(last, dialect) for dialect in DIALECTS)]]
    parts = [markdown(("date", *DIALECTS), rows)]
    taken = {name for name, row in last.items() if all(cell(row, dialect).startswith("yes") for dialect in DIALECTS)}
    groups: dict[str, list[str]] = {}
    for name, row in last.items():
        groups.setdefault(row["group"], []).extend([name] if name in taken else [])
    rows = [[group, str(len(names)), ", ".join(names)] for group, names in groups.items() if names]
    parts += ["Taken by both:", markdown(("group", "number", "networks"), rows), "Refused by one or by both:"]
    rows = [[name, *(cell(row, dialect) for dialect in DIALECTS)] for name, row in last.items() if name not in taken]
    parts.append(markdown(("network", *DIALECTS), rows))
    return "\n\n".join(parts)


def share(networks: Mapping[str, Any], dialect: str) -> str:
    """Return the share of networks whose outputs are equal; those that were skipped do not count."""
    tried = [row[dialect] for row in networks.values() if "skipped" not in row]
    equal = sum(answer["step"] == "equal" for answer in tried)
    return f"{equal} of {len(tried)} ({100 * equal / len(tried):.0f} %)"


def cell(row: Mapping[str, Any], dialect: str) -> str:
    """Return the answer of one dialect in words."""
    if "skipped" in row:
        return f"skipped: {row['skipped']}"
    answer = row[dialect]
    if answer["step"] == "equal":
        return f"yes ({answer['route']})"
    reason = answer.get("reason", "")
    if len(reason) >= LONGEST:
        # The record ends in the middle of a sentence, which says nothing: leave it out.
        reason = f"{reason.rsplit(';', 1)[0]}; …"
    reason = re.sub(r"Cannot import `[^`]*`: ", "", reason)
    return f"{answer['step']}: {reason}".replace("|", "\\|")


if __name__ == "__main__":
    main()
