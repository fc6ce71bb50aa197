"""Which architectures passsearch takes, by dialect: ``python -m benchmarks.imports.import_networks [NAME…]``.

Each network of ``tests/frontends/architectures.py`` is imported, analysed and built without optimisation, in a process
of its own, and its outputs on random inputs are compared with those of its framework. The answers go to
``benchmarks/results/networks.json``; what is in it is not asked again, unless it is named. ``--table`` writes the rows
into ``docs/evidence/networks.md``.
"""

import json
import os
import re
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import RESULTS, ROOT, markdown, options, read, today, write, write_part
from benchmarks.common import in_own_process as run_in_own_process
from passsearch.api.common import model_file, open_evaluator
from passsearch.core import Candidate, Failure, NetworkOptions, strict_limit
from passsearch.dialects.case_inputs import case_inputs
from passsearch.dialects.comparison import relative_deviation
from passsearch.errors import PassSearchError
from passsearch.evaluate import open_session
from passsearch.search import analyze_network

sys.path.insert(0, str(ROOT / "tests" / "frontends"))

from architectures import ARCHITECTURES, Network

DIALECTS = ("relax", "relay")
CASE = 1
"""Seed of the inputs on which outputs are compared."""
LONGEST = 320
"""Longest reason in characters."""
PACKAGES = ("onnx", "onnxscript", "torch", "transformers", "numpy", "tensorflow", "mxnet", "gluoncv")


def main() -> None:
    arguments = options(
        __doc__, ("names", ()), results=RESULTS / "networks.json", timeout=(300.0, "s of a network"), table=False
    )
    results = read(arguments.results)
    run = results.setdefault("after", {"networks": {}})
    if arguments.table:
        write_part("networks.md", "imports/import_networks.py", table(run))
        return
    for package in ("torch", "transformers"):
        with suppress(ImportError):
            import_module(package)
    for name in arguments.names or [name for name in ARCHITECTURES if name not in run["networks"]]:
        start, entry = time.monotonic(), ARCHITECTURES[name]
        answer = {"skipped": entry.missing} if entry.missing else in_own_process(name, timeout_s=arguments.timeout)
        row = {"group": entry.group, **answer, "seconds": round(time.monotonic() - start, 1)}
        packages = {package: installed(package) for package in PACKAGES}
        # Frameworks that need other versions than the rest are tried in an environment of their own.
        row |= {"packages": packages} if run.setdefault("packages", packages) != packages else {}
        run["networks"][name], run["date"] = row, today()
        write(arguments.results, results)
        print(name, json.dumps(answer), flush=True)


def installed(package: str) -> str | None:
    """Return the version of a package, ``None`` if it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def in_own_process(name: str, *, timeout_s: float, dialects: Sequence[str] = DIALECTS) -> dict[str, Any]:
    """Return the answers about one network by dialect."""
    with tempfile.TemporaryDirectory() as folder:
        lines = Path(folder) / "answers"
        # A fork, because importing the frameworks takes longer than most networks do.
        reason = run_in_own_process(write_answers, name, lines, dialects, timeout_s=timeout_s)
        answers = [json.loads(line) for line in lines.read_text().splitlines()] if lines.exists() else []
    by_dialect = {answer.pop("dialect"): answer for answer in answers}
    return {dialect: by_dialect.get(dialect, {"step": "refused", "reason": reason}) for dialect in dialects}


def write_answers(name: str, lines: Path, dialects: Sequence[str]) -> None:
    """Append one line of JSON for each dialect to a file."""
    os.environ["XDG_CACHE_HOME"] = str(lines.parent)
    warnings.simplefilter("ignore")
    folder = lines.with_name("network")
    folder.mkdir()
    network = ARCHITECTURES[name].make(folder)
    for dialect in dialects:
        answer = {"dialect": dialect, "step": "refused"}
        try:
            for found in answers(network, dialect):
                answer |= found
        except PassSearchError as error:
            answer["reason"] = str(error).replace(str(lines.parent), "FOLDER")[:LONGEST]
        with lines.open("a") as file:
            file.write(json.dumps(answer) + "\n")


def answers(network: Network, dialect: str) -> Iterator[dict[str, Any]]:
    """Yield what is known after each step: read, imported, analysed, built, equal."""
    options = NetworkOptions(inputs=network.inputs, toolchain=dialect)
    file = model_file(network.model, network.example_inputs, options)
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
    mine, right = (", ".join(f"{each.dtype}{list(each.shape)}" for each in outputs) for outputs in (actual, expected))
    if mine != right:
        return {"reason": f"outputs are {mine}; the framework's are {right}"[:LONGEST]}
    deviation = max(map(relative_deviation, actual, expected), default=0.0)
    if deviation > limit:
        return {"reason": f"outputs deviate by {deviation:.2g}, the limit is {limit:.2g}"}
    return {"step": "equal", "deviation": deviation}


def table(run: Mapping[str, Any]) -> str:
    """Return what a run took and refused, in Markdown."""
    networks = run["networks"]
    cells = {name: [cell(row, dialect) for dialect in DIALECTS] for name, row in networks.items()}
    taken = {name for name, texts in cells.items() if all(text.startswith("yes") for text in texts)}
    groups: dict[str, list[str]] = {}
    for name, row in networks.items():
        groups.setdefault(row["group"], []).extend([name] if name in taken else [])
    rows = [(group, len(names), ", ".join(names)) for group, names in groups.items() if names]
    parts = [markdown(("date", *DIALECTS), [(run["date"], *(share(networks, each) for each in DIALECTS))])]
    parts += ["Taken by both:", markdown(("group", "number", "networks"), rows), "Refused by one or by both:"]
    refused = [(name, *texts) for name, texts in cells.items() if name not in taken]
    return "\n\n".join([*parts, markdown(("network", *DIALECTS), refused)])


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
