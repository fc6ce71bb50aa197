"""Injects faults into searches with the real compiler: ``python -m benchmarks.faults.fault_matrix``.

Every case disturbs a run on a tiny network, then gives the same command until it finishes, and once more. It counts:

* facts lost: facts that the disturbed run had on disk and that the finished run lacks, has twice, or has with another
  content, and results that differ from those of an undisturbed start with the same measurements;
* false failures: failures in the log, the fact cache or the result that an undisturbed run does not have;
* orphans: processes of the case that are left when its commands have ended;
* files left: files in the run folder, the cache folder and the folder of temporary files that an undisturbed run does
  not leave. A file ``….damaged``, which keeps what a torn log lost, does not count.

``benchmarks/results/fault_matrix.json`` gets a row for each case, and ``docs/evidence/reliability.md`` the table. Cases
that are in the JSON are not run again, unless ``--again``. Cases that mount file systems need root.
"""

import ast
import json
import os
import re
import shutil
import subprocess
import sys
import time
import traceback
import uuid
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import Any

import psutil

from benchmarks.common import RESULTS, markdown, network_session, options, provenance, read, write_part
from benchmarks.faults.disturbed_run import Place, Reference, conclusion
from benchmarks.faults.fault_cases import Case, cases, disk
from benchmarks.faults.tiny_networks import write_network
from passsearch.store import write_json

HERE, FILE = Path(__file__).parent, RESULTS / "fault_matrix.json"
SETTLE_S, HOSTILE_PER_SESSION = 5.0, 6
WRONG = ("facts_lost", "false_failures", "orphans", "files_left")


@dataclass(frozen=True)
class Row:
    """The result of one case; the last four numbers should be 0."""

    injected: str
    outcome: str
    facts_lost: int = 0
    false_failures: int = 0
    orphans: int = 0
    files_left: int = 0
    details: tuple[str, ...] = ()


def judge(name: str, case: Case, place: Place, reference: Reference) -> Row:
    """Run one case: disturb, give the same command until it finishes, and once more; count what went wrong."""
    outcome = case(place)
    orphans = _left(place)
    before = place.lines()
    starts = place.resume()
    result = place.result()
    lost, false = reference.check(place, before)
    # Another start finds everything in the log, so it decides as an undisturbed run with these measurements.
    place.resume()
    if place.rivals != "none" and (reason := place.compared()):
        lost.append(f"no comparison: {reason}")
    if conclusion(result) != conclusion(place.result()):
        lost.append("another result from the same measurements")
    orphans += _left(place)
    left = sorted(place.files() - reference.place.files())
    problems = [*lost, *false, *(f"orphan: {process}" for process in orphans), *(f"file: {file}" for file in left)]
    outcome += f"; finished by {starts} more start{'s' if starts > 1 else ''}"
    return Row(name, outcome, len(lost), len(false), len(orphans), len(left), tuple(problems))


def _left(place: Place) -> list[psutil.Process]:
    time.sleep(SETTLE_S if place.processes() else 0)
    return place.processes()


def hostile_rows(behaviours: Sequence[str], place: Place) -> Iterator[Row]:
    """Apply hostile passes in one session, and yield a row for each."""
    words = [sys.executable, str(HERE / "hostile_session.py"), str(place.network), place.toolchain, place.identity]
    try:
        done = subprocess.run(
            [*words, *behaviours], env=place.environment(), capture_output=True, text=True, check=True
        )
        left = [str(path) for path in (place.home / "tmp").iterdir()]
        for line, behaviour in zip(done.stdout.splitlines(), behaviours, strict=True):
            row = json.loads(line)
            name = f"a pass that {hostile_passes()[behaviour]}"
            yield Row(name, row["outcome"], row["lost"], row["false"], row["orphans"], len(left), tuple(left))
    except subprocess.CalledProcessError as error:
        yield Row(f"hostile passes {behaviours}", "NOT AS EXPECTED", details=(error.stdout, error.stderr[-2000:]))
    finally:
        place.end()
        shutil.rmtree(place.home, ignore_errors=True)


def hostile_passes() -> dict[str, str]:
    """Return what each hostile pass does, by its name."""
    # The file imports the compiler, which this interpreter lacks.
    tree = ast.parse((HERE / "hostile_passes.py").read_text())
    [passes] = [each.value for each in tree.body if isinstance(each, ast.Assign) and each.targets[0].id == "PASSES"]
    return {key.value: value.elts[0].value for key, value in zip(passes.keys, passes.values, strict=True)}


def main() -> None:
    arguments = options(
        __doc__,
        case=("", "only cases whose description contains this"),
        again=(False, "run cases again that are in the JSON"),
        jobs=(2, "cases that run side by side"),
        table=(False, "write the page from the JSON"),
    )
    if not arguments.table:
        run(arguments.case, again=arguments.again, jobs=arguments.jobs, results=FILE)
    write_part("reliability.md", "faults/fault_matrix.py", table(read(FILE)))


def run(text: str, *, again: bool, jobs: int, results: Path) -> dict[str, Any]:
    """Run the cases whose description contains a text, and return the document of all rows."""
    document: dict[str, Any] = {"rows": {}, **read(results)}
    rows, lock = document["rows"], Lock()
    selected = {name: case for name, case in cases().items() if text in name and (again or name not in rows)}
    texts = {behaviour: f"a pass that {what}" for behaviour, what in hostile_passes().items()}
    behaviours = [name for name, what in texts.items() if text in what and (again or what not in rows)]
    with TemporaryDirectory(prefix="faults-") as folder:
        home = Path(folder)
        network = write_network("normalisation", home)
        # Cases may run on several days and machines. Rows without an origin have that of the document.
        now = provenance(network_session(str(network), "relax"))
        document, origin = {**now, **document}, {key: now[key] for key in ("date", "target")}
        reference = Reference(Place(home / "reference", network))
        reference.place.resume()

        def keep(row: Row, seconds: float) -> None:
            with lock:
                rows[row.injected] = {**asdict(row), "seconds": round(seconds), "origin": origin}
                write_json(results, document)
                print(f"{seconds:4.0f} s  {row}", flush=True)

        def hostile(behaviours: Sequence[str]) -> None:
            begin = time.monotonic()
            for row in hostile_rows(behaviours, Place(home / uuid.uuid4().hex[:8], network)):
                keep(row, (time.monotonic() - begin) / len(behaviours))

        def one(item: tuple[str, Case]) -> None:
            begin = time.monotonic()
            keep(_judge_in_place(*item, reference, home=home), time.monotonic() - begin)

        groups = [
            behaviours[start : start + HOSTILE_PER_SESSION] for start in range(0, len(behaviours), HOSTILE_PER_SESSION)
        ]
        with ThreadPoolExecutor(jobs) as pool:
            # Those of one start first, those of one start for each write last.
            list(pool.map(one, reversed(selected.items())))
            list(pool.map(hostile, groups))
    if all(row.get("origin") == origin for row in rows.values()):
        document |= now
        write_json(results, document)
    return document


def _judge_in_place(name: str, case: Case, reference: Reference, *, home: Path) -> Row:
    place = Place(home / uuid.uuid4().hex[:8], reference.place.network, finished=reference.place.home)
    if getattr(case, "func", case) is disk and os.geteuid() != 0:
        return Row(name, "skipped: mounting a file system needs root")
    try:
        return judge(name, case, place, reference)
    except Exception:  # noqa: BLE001 -- one case must not end the others
        return Row(name, "NOT AS EXPECTED", details=(traceback.format_exc()[-1500:], place.output()[-1500:]))
    finally:
        place.end()
        for folder in place.folders():
            subprocess.run(["umount", "--lazy", folder], check=False, capture_output=True)
        shutil.rmtree(place.home, ignore_errors=True)


def table(document: Mapping[str, Any]) -> str:
    """Return the sums of what went wrong, and the cases of each outcome, as Markdown."""
    names = [*cases(), *(f"a pass that {what}" for what in hostile_passes().values())]
    ordered = [document["rows"][name] for name in names if name in document["rows"]]
    sums = [f"{key.replace('_', ' ')}: {sum(row[key] for row in ordered)}" for key in WRONG]
    groups: dict[str, list[str]] = {}
    for row in ordered:
        counts = [f"{key.replace('_', ' ')} {row[key]}" for key in WRONG if row[key]]
        # Without the place in the file of passes.
        said = re.sub(r" \(benchmarks/.*", "", row["outcome"].removesuffix("; finished by 1 more start"))
        outcome = "; ".join([said, *counts])
        groups.setdefault(outcome, []).append(re.sub(r" \(\d\)$", ", several times", row["injected"]))
    rows = [(outcome, "; ".join(dict.fromkeys(injected))) for outcome, injected in groups.items()]
    return f"{len(ordered)} cases. {'; '.join(sums)}.\n\n{markdown(('outcome', 'injected'), rows)}"


if __name__ == "__main__":
    main()
