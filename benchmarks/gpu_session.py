"""Everything worth doing on a GPU machine, in ten minutes: ``python benchmarks/gpu_session.py --wheels FOLDER``.

Tunes networks and keeps, of TVM's default pipeline and of what was found, throughput, latency, compile time, power,
energy, memory and temperature with the noise floor they were read at; then runs the tests marked ``gpu``, while it
writes down what the device's meter reads. The JSON is written after every step: where time runs out it has what was
read by then.

Needs a checkout, an NVIDIA driver and ``nvcc``, and no network: with ``--wheels`` an environment is made of the wheels
in that folder and of what this interpreter has installed; without, this interpreter has TVM. ``--target host`` does the
same on the processor.
"""

import argparse
import json
import os
import re
import site
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
NETWORKS = ("resnet18", "mobilenet_v2", "bert_base")
READ = ("latency_s", "throughput_per_s", "compile_s", "power_w", "energy_j", "memory_bytes", "temperature_c")
SEARCH = 0.35
"""Share of a network's time that is searched in; importing, the baselines and confirming take the rest."""
TESTS_S = 90.0
"""Kept for the tests."""


def main() -> None:
    """Make the environment where wheels are given, and measure in it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("networks", nargs="*", default=NETWORKS, help="of the zoo (%(default)s)")
    parser.add_argument("--wheels", type=Path, help="folder with the wheels of TVM and of what is missing here")
    parser.add_argument("--toolchain", help="name of an installed toolchain (this interpreter)")
    parser.add_argument("--target", default="cuda", help="TVM's target, or `host` (%(default)s)")
    parser.add_argument("--minutes", type=float, default=10.0, help="for all of it (%(default)s)")
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results" / "gpu_session.json")
    options = parser.parse_args()
    end_s = time.monotonic() + 60 * options.minutes
    if options.wheels:
        sys.exit(elsewhere(options))
    sys.path.insert(0, str(ROOT))  # passsearch of this checkout, whatever is installed
    document: dict[str, Any] = {"networks": {}, "tests": None}
    for place, name in enumerate(options.networks):
        left_s = (end_s - TESTS_S - time.monotonic()) / (len(options.networks) - place)
        told = measured(name, options, seconds=left_s)
        document |= told.pop("machine", {})
        document["networks"][name] = told
        write(options.out, document)
    document["tests"] = recorded(options, seconds=end_s - time.monotonic())
    write(options.out, document)
    print(json.dumps(document, indent=1))


def elsewhere(options: argparse.Namespace) -> int:
    """The same command in an environment with the wheels, which does not outlast it."""
    began_s = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="passsearch-") as folder:
        python = Path(folder) / "bin" / "python"
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        packages = "import sysconfig; print(sysconfig.get_path('purelib'))"
        own = Path(subprocess.check_output([str(python), "-c", packages], text=True).strip())
        # As --system-site-packages, but of this interpreter, which may be a virtual environment itself.
        (own / "beside.pth").write_text("\n".join([*site.getsitepackages(), str(ROOT)]) + "\n")
        wheels = sorted(map(str, options.wheels.glob("*.whl")))
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", *wheels], check=True)
        minutes = options.minutes - (time.monotonic() - began_s) / 60
        asked = ["--target", options.target, "--minutes", str(minutes), "--out", str(options.out.absolute())]
        where = {"PASSSEARCH_DATA_DIR": f"{folder}/data", "XDG_CACHE_HOME": f"{folder}/cache"}
        command = [str(python), __file__, *options.networks, *asked]
        return subprocess.run(command, env={**os.environ, **where}).returncode


def measured(name: str, options: argparse.Namespace, *, seconds: float) -> dict[str, Any]:
    """One network, tuned; what was read of its baseline and of its best, or why nothing was."""
    import passsearch
    from passsearch.errors import PassSearchError

    if seconds < TESTS_S:
        return {"unavailable": f"{seconds:.0f} s were left for it"}
    target = None if options.target == "host" else options.target
    with tempfile.TemporaryDirectory(prefix="passsearch-") as folder:
        try:
            result = passsearch.tune(
                f"zoo:{name}",
                toolchain=options.toolchain or "this",
                target=target,
                timeout=SEARCH * seconds,
                out=Path(folder) / "run",
                progress=lambda text, done, total: print(f"{name}: {text} {done}/{total}", file=sys.stderr, flush=True),
            )
        except PassSearchError as error:
            return {"unavailable": str(error)}
    found = result.document
    machine = {key: found[key] for key in ("device", "target", "toolchain")}
    kept = {key: found[key] for key in ("verdict", "ratios", "space", "failures", "seconds")}
    kept["space"] = {key: value for key, value in kept["space"].items() if not isinstance(value, list)}
    rows = {"default": read(found["baseline"]), "tuned": read(found["best"])}
    return {"machine": {"date": time.strftime("%Y-%m-%d"), **machine}, **rows, **kept}


def read(row: dict[str, Any]) -> dict[str, Any]:
    """What one build was read at, without the raw samples; what could not be read is null beside its reason."""
    values = {key: row[key] for key in READ}
    if values["latency_s"]:
        values["latency_s"] = {key: value for key, value in values["latency_s"].items() if key != "samples"}
    return {"pipeline": row["pipeline"], **values, "unavailable": row["unavailable"], "conditions": row["conditions"]}


def recorded(options: argparse.Namespace, *, seconds: float) -> dict[str, Any]:
    """The tests, and beside the JSON the readings of the device's meter meanwhile, where it has one."""
    from passsearch.measure import probe, recording

    meter = probe("cpu" if options.target == "host" else "cuda:0").meter
    if meter is None:
        return tested(seconds=seconds)
    with recording(meter) as trace:
        told = tested(seconds=seconds)
    trace.write(options.out.with_suffix(".trace.jsonl"))
    return told


def tested(*, seconds: float) -> dict[str, Any]:
    """How the tests marked ``gpu`` ended, each that did not pass with its reason."""
    command: Sequence[str] = [sys.executable, "-m", "pytest", "-q", "-rsfE", "-p", "no:cacheprovider", "-m", "gpu"]
    try:
        done = subprocess.run([*command, "tests"], cwd=ROOT, capture_output=True, text=True, timeout=max(0.0, seconds))
    except subprocess.TimeoutExpired:
        return {"unavailable": f"they did not end within {seconds:.0f} s"}
    lines = done.stdout.splitlines()
    if not lines:
        return {"unavailable": done.stderr[-500:]}
    counts = {kind: int(count) for count, kind in re.findall(r"(\d+) (passed|failed|skipped|error)", lines[-1])}
    return {**counts, "told": [line for line in lines if line.startswith(("SKIPPED", "FAILED", "ERROR"))]}


def write(file: Path, document: dict[str, Any]) -> None:
    """What is known by now."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
