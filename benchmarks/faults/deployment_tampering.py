"""Tampers with exported deployments in many ways, and records whether each is refused in one line.

``python -m benchmarks.faults.deployment_tampering relay=DEPLOY:PYTHON relax=DEPLOY:PYTHON --out FILE``: each DEPLOY is
a folder of `passsearch export`, and PYTHON an interpreter with its TVM. Copies of the folders are built, tampered with,
and used by `build_model.py`, `run_model.py` and the compiled `run_model.cc`. ``--kind`` runs some kinds only and keeps
the rows of the others.
"""

import json
import platform
import random
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.common import RESULTS, note, options, read, today, write
from passsearch.standalone.deployment.checked_files import PIPELINE, own_digest, sha256, write_sums
from passsearch.toolchain import data_folder

SCRIPT, LOADER, PROGRAM = "build_model.py", "run_model.py", "run_model"

WEIGHTS = "constants/*.npy"
"""Large weights in a built folder."""

Change = Callable[[Path], object]


class Kind(NamedTuple):
    """One kind of tampering: a change of a deployment's folder, and the programs that must refuse it then."""

    name: str
    change: Change
    programs: tuple[str, ...]
    options: tuple[str, ...] = ()
    foreign: bool = False
    """True to run it by the other dialect's interpreter, which is given then."""


def flip(name: str, seed: int, *, within: tuple[float, float] = (0, 1)) -> Change:
    """Return a change of one bit of a file, at a random place within a part of it."""

    def change(folder: Path) -> None:
        content, rng = bytearray((folder / name).read_bytes()), random.Random(seed)
        place = rng.randrange(int(len(content) * within[0]), int(len(content) * within[1]))
        content[place] ^= 1 << rng.randrange(7)
        (folder / name).write_bytes(content)

    return change


def cut(name: str, share: float) -> Change:
    """Return a change that keeps only the beginning of a file."""

    def change(folder: Path) -> None:
        content = (folder / name).read_bytes()
        (folder / name).write_bytes(content[: int(len(content) * share)])

    return change


def remove(name: str) -> Change:
    """Return a change that removes a file or folder."""
    return lambda folder: shutil.rmtree(folder / name) if (folder / name).is_dir() else (folder / name).unlink()


def edit(change: Callable[[dict[str, Any]], object], *, forged: bool = False) -> Change:
    """Return a change of the pipeline file's content; ``forged`` also writes its own digest anew."""

    def apply(folder: Path) -> None:
        path = folder / PIPELINE
        record = json.loads(path.read_text())
        change(record)
        path.write_text(json.dumps(record, indent=1) + "\n")
        written = record.get("sha256", {}).get(PIPELINE, "")
        if forged:
            content = path.read_bytes()
            path.write_bytes(content.replace(written.encode(), own_digest(content, written).encode()))

    return apply


def condition(old: str, new: str) -> Change:
    """Return a change of what a build needs, with right digests: a build from another machine."""

    def change(folder: Path) -> None:
        path = folder / "built" / "conditions.txt"
        assert old in path.read_text()
        path.write_text(path.read_text().replace(old, new))
        write_sums(folder / "built")

    return change


def copy_from(other: Path, name: str) -> Change:
    """Return a change that takes a file or folder from another deployment."""

    def change(folder: Path) -> None:
        if (other / name).is_dir():
            shutil.rmtree(folder / name)
            shutil.copytree(other / name, folder / name)
        else:
            shutil.copyfile(other / name, folder / name)

    return change


def name_weight(name: str) -> Change:
    """Return a change of the table of weights, which then names one other file."""
    return lambda folder: (folder / "built" / "weights.json").write_text(json.dumps({"main": [name]}))


def nothing(folder: Path) -> None:
    pass


def kinds(folder: Path, other: Path) -> Iterator[Kind]:
    """Yield the kinds of tampering for a built deployment; ``other`` is one of another network."""
    build, check = (SCRIPT,), ("--check-only",)
    sources = sorted(file.relative_to(folder).as_posix() for file in folder.rglob("*.py"))
    yield from (Kind(f"a bit of {name}", flip(name, 7), build, check) for name in sources)
    others = [PIPELINE, "network.json", "README.md", "requirements.txt", "run_model.cc", "network.h"]
    for name in (name for name in others if (folder / name).exists()):
        for seed in range(2):
            yield Kind(f"a bit of {name}, place {seed}", flip(name, seed), build, check)
    packages = sorted(file.relative_to(folder).as_posix() for file in folder.rglob("*/__init__.py"))
    code = (PIPELINE, "network.json", "linker.py", "checked_files.py", "build_steps.py", "loader_examples.h")
    for name in (*code, *packages[:1]):
        yield Kind(f"{name} is missing", remove(name), build, check)
    for name in (PIPELINE, "network.json", "checked_files.py", "rebuild_checks.py"):
        yield Kind(f"{name} is cut in half", cut(name, 0.5), build, check)
        yield Kind(f"{name} is empty", cut(name, 0), build, check)
    yield from (Kind(name, change, build, check) for name, change in _edits())
    yield Kind("network.json is another network's", copy_from(other, "network.json"), build, check)
    yield Kind("pipeline.json is another network's", copy_from(other, PIPELINE), (SCRIPT, LOADER))
    yield Kind("another TVM", nothing, (SCRIPT, LOADER), foreign=True)
    for target in ("nonsense", "llvm -mcpu=nonsense", "llvm -mcpu=sapphirerapids", "cuda -arch=sm_80"):
        yield Kind(f"--target {target}", nothing, build, (*check, "--target", target))
    yield Kind("--out where nothing can be written", nothing, build, ("--out", "/proc/deployment"))
    yield from _of_the_loaders(folder, other)


def _edits() -> Iterator[tuple[str, Change]]:
    def first_digit(states: list[str]) -> None:
        states[-1] = ("0" if states[-1][0] != "0" else "1") + states[-1][1:]

    yield "the opt level is another one", edit(lambda record: record["build"].update(opt_level=2))
    yield "the tolerance is another one", edit(lambda record: record.update(tolerance=9.0))
    yield "no outputs are expected", edit(lambda record: record.update(expected=[]))
    yield "a pass is left out", edit(lambda record: (record["passes"].pop(), record["states"].pop()))
    yield "no digests", edit(lambda record: record.pop("sha256"))
    yield "a file without digest", edit(lambda record: record["sha256"].pop("linker.py"))
    yield "another IR, forged digest", edit(lambda record: first_digit(record["states"]), forged=True)


def _of_the_loaders(folder: Path, other: Path) -> Iterator[Kind]:
    both = (LOADER, PROGRAM)
    built = folder / "built"
    names = sorted(file.name for file in built.iterdir() if file.suffix in (".so", ".json", ".bin"))
    weights = sorted(file.relative_to(built).as_posix() for file in built.glob(WEIGHTS))
    for name in (*names, *weights[:1]):
        for seed in range(6 if name.endswith(".so") else 1):
            yield Kind(f"a bit of built/{name}, place {seed}", flip(f"built/{name}", seed), both)
        for share in (0.0, 0.3, 0.9):
            yield Kind(f"built/{name} is cut to {share:.0%}", cut(f"built/{name}", share), both)
        yield Kind(f"built/{name} is missing", remove(f"built/{name}"), both)
        yield Kind(f"built/{name} is another network's", copy_from(other, f"built/{name}"), both)
    if (built / "network.so").exists():
        yield Kind("weights.json names a file outside of its folder", name_weight("../network"), both)
    for name in ("SHA256SUMS", "conditions.txt", "examples/input-0.npy", "examples/output-0.npy", "examples/index.txt"):
        # Of the digests, the first line: all loaders need it.
        yield Kind(f"a bit of built/{name}", flip(f"built/{name}", 1, within=(0, 0.1)), both)
        yield Kind(f"built/{name} is cut in half", cut(f"built/{name}", 0.5), both)
        yield Kind(f"built/{name} is missing", remove(f"built/{name}"), both)
    yield Kind("built is missing", remove("built"), both)
    yield Kind("built is another deployment's", copy_from(other, "built"), (LOADER,))
    yield Kind("built by another TVM", condition("tvm 0.", "tvm 9."), both)
    yield Kind("built for another processor", condition("processor ", "processor riscv64 "), both)
    architecture = platform.machine()
    lacking = condition(f"processor {architecture}", f"processor {architecture} no_such_feature")
    yield Kind("built for a processor with more features", lacking, both)
    yield Kind("built for another device", condition("device cpu", "device cuda"), both)
    for name in ("checked_files.py", "network_loader.py", "machine_pool.py", "loader_command.py", "processor.py"):
        yield Kind(f"a bit of {name} under the loader", flip(name, 3), (LOADER,))
        yield Kind(f"{name} is missing under the loader", remove(name), (LOADER,))


def run(folder: Path, program: str, options: tuple[str, ...], python: str) -> dict[str, Any]:
    """Run a program of a folder; return its status and what it wrote to standard error."""
    command = [python, str(folder / program)] if program.endswith(".py") else [str(folder / program)]
    built = [str(folder / "built")] if program != SCRIPT else []
    done = subprocess.run(
        [*command, *built, *options], capture_output=True, text=True, timeout=600, cwd="/", check=False
    )
    lines = done.stderr.strip().splitlines()
    return {
        "program": program,
        "status": done.returncode,
        "stderr_lines": len(lines),
        "line": _without_places(lines[-1], folder) if lines else "",
        "refused": done.returncode in (1, 2),
        "one_line": len(lines) == 1,
    }


def _without_places(line: str, folder: Path) -> str:
    """Return a line without folders of this machine."""
    return line.replace(str(folder), "DEPLOY").replace(str(data_folder()), "DATA")


def tamper(deploy: Path, python: str, foreign: str, *, only: str) -> list[dict[str, Any]]:
    """Return the results of tampering with one deployment, by the kinds whose names match an expression."""
    with tempfile.TemporaryDirectory() as scratch:
        folder, other, copy = (Path(scratch) / name for name in ("folder", "other", "copy"))
        shutil.copytree(deploy, folder, ignore=shutil.ignore_patterns("built", "__pycache__"))
        for command in ([SCRIPT], [LOADER, "--compile", str(folder / PROGRAM)]):
            subprocess.run([python, str(folder / command[0]), *command[1:]], check=True, stdout=subprocess.DEVNULL)
        shutil.rmtree(folder / "__pycache__", ignore_errors=True)
        shutil.copytree(folder, other)
        _make_another(other)
        rows = []
        for program in (LOADER, PROGRAM):
            accepted = run(folder, program, (), python)
            assert accepted["status"] == 0, accepted
        for kind in (each for each in kinds(folder, other) if re.search(only, each.name)):
            for program in kind.programs:
                shutil.rmtree(copy, ignore_errors=True)
                shutil.copytree(folder, copy)
                kind.change(copy)
                row = {"kind": kind.name, **run(copy, program, kind.options, foreign if kind.foreign else python)}
                note(f"{kind.name}: {row['status']} {row['line']}")
                rows.append(row)
        return rows


def _make_another(folder: Path) -> None:
    """Change a copy to a deployment of another network, with right digests."""
    built = [file for file in (folder / "built").iterdir() if file.is_file()]
    files = [*built, *(folder / "built").glob(WEIGHTS)]
    for name in ("network.json", *(file.relative_to(folder).as_posix() for file in files)):
        if not name.endswith(("conditions.txt", "SHA256SUMS")):
            (folder / name).write_bytes((folder / name).read_bytes() + b"\n")
    digest = sha256(folder / "network.json")
    edit(lambda record: record["sha256"].update({"network.json": digest}), forged=True)(folder)
    # A build says from which pipeline file it was made, by the digest in that file.
    conditions = folder / "built" / "conditions.txt"
    lines = conditions.read_text().splitlines()
    made = f"pipeline {json.loads((folder / PIPELINE).read_text())['sha256'][PIPELINE]}"
    conditions.write_text("\n".join(made if line.startswith("pipeline ") else line for line in lines) + "\n")
    write_sums(folder / "built")


def main() -> None:
    kind = "", "only kinds whose names match this expression"
    arguments = options(__doc__, ("deployments", ()), kind=kind, out=RESULTS / "deployment_tampering.json")
    places = {text.partition("=")[0]: text.partition("=")[2].split(":") for text in arguments.deployments}
    earlier = read(arguments.out)["rows"] if arguments.kind else {}
    rows = {**earlier}
    for dialect, (deploy, python) in places.items():
        foreign = next((other for name, (_, other) in places.items() if name != dialect), python)
        done = tamper(Path(deploy), python, foreign, only=arguments.kind)
        again = {(row["kind"], row["program"]) for row in done}
        kept = [row for row in earlier.get(dialect, ()) if (row["kind"], row["program"]) not in again]
        rows[dialect] = [*kept, *done]
    summary = {dialect: summarize(own) for dialect, own in rows.items()}
    print(json.dumps(summary, indent=1))
    write(arguments.out, {"date": today(), "machine": platform.platform(), "summary": summary, "rows": rows})


def summarize(rows: list[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the numbers of kinds and refusals, and what was accepted or not refused in one line."""
    return {
        "kinds": len({row["kind"] for row in rows}),
        "runs": len(rows),
        "refused": sum(row["refused"] for row in rows),
        "in_one_line": sum(row["refused"] and row["one_line"] for row in rows),
        "not_in_one_line": [f"{row['kind']}: {row['program']}" for row in rows if not row["one_line"]],
        "accepted": [f"{row['kind']}: {row['program']}" for row in rows if not row["refused"]],
    }


if __name__ == "__main__":
    main()
