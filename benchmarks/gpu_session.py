"""Makes all measurements on a GPU machine in ten minutes: ``python benchmarks/gpu_session.py --wheels FOLDER``.

Tunes networks and writes, for TVM's default pipeline and for the result, throughput, latency, compile time, power,
energy, memory and temperature, with the noise floor. Then it runs the tests marked ``gpu`` and records the readings of
the device's meter meanwhile. The JSON is written after every step, so it is complete up to the point where time ends.

Needs a checkout, an NVIDIA driver and ``nvcc``, and no internet. With ``--wheels`` it makes an environment from the
wheels in that folder and the packages of this interpreter; without, this interpreter must have TVM. ``--target host``
does the same on the CPU.
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
METRICS = ("latency_s", "throughput_per_s", "compile_s", "power_w", "energy_j", "memory_bytes", "temperature_c")
SEARCH_SHARE = 0.35
"""Share of a network's time for the search; importing, the baselines and the confirmation take the rest."""
TESTS_S = 90.0
"""Time for the tests."""


def main() -> None:
    """Measure everything, in a new environment if there are wheels."""
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
        sys.exit(run_in_environment(options))
    sys.path.insert(0, str(ROOT))  # passsearch of this checkout, whatever is installed
    document: dict[str, Any] = {"networks": {}, "tests": None}
    for place, name in enumerate(options.networks):
        seconds = (end_s - TESTS_S - time.monotonic()) / (len(options.networks) - place)
        row = tune_network(name, options, seconds=seconds)
        document |= row.pop("machine", {})
        document["networks"][name] = row
        write(options.out, document)
    document["tests"] = run_tests_recorded(options, seconds=end_s - time.monotonic())
    write(options.out, document)
    print(json.dumps(document, indent=1))


def run_in_environment(options: argparse.Namespace) -> int:
    """Run the same command in a temporary environment with the wheels; return its exit code."""
    start_s = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="passsearch-") as folder:
        python = Path(folder) / "bin" / "python"
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        query = "import sysconfig; print(sysconfig.get_path('purelib'))"
        packages = Path(subprocess.check_output([str(python), "-c", query], text=True).strip())
        # Like --system-site-packages, but with the packages of this interpreter, which may be a virtual environment.
        (packages / "beside.pth").write_text("\n".join([*site.getsitepackages(), str(ROOT)]) + "\n")
        wheels = sorted(map(str, options.wheels.glob("*.whl")))
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", *wheels], check=True)
        minutes = options.minutes - (time.monotonic() - start_s) / 60
        arguments = ["--target", options.target, "--minutes", str(minutes), "--out", str(options.out.absolute())]
        folders = {"PASSSEARCH_DATA_DIR": f"{folder}/data", "XDG_CACHE_HOME": f"{folder}/cache"}
        command = [str(python), __file__, *options.networks, *arguments]
        return subprocess.run(command, env={**os.environ, **folders}).returncode


def tune_network(name: str, options: argparse.Namespace, *, seconds: float) -> dict[str, Any]:
    """Tune one network and return the measurements of its baseline and its best, or the reason why there are none."""
    # Imported here, because the interpreter that makes the environment may lack its packages.
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
                timeout=SEARCH_SHARE * seconds,
                out=Path(folder) / "run",
                progress=lambda text, done, total: print(f"{name}: {text} {done}/{total}", file=sys.stderr, flush=True),
            )
        except PassSearchError as error:
            return {"unavailable": str(error)}
    document = result.document
    machine = {key: document[key] for key in ("device", "target", "toolchain")}
    numbers = {key: document[key] for key in ("verdict", "ratios", "space", "failures", "seconds")}
    numbers["space"] = {key: value for key, value in numbers["space"].items() if not isinstance(value, list)}
    rows = {"default": measurement_row(document["baseline"]), "tuned": measurement_row(document["best"])}
    return {"machine": {"date": time.strftime("%Y-%m-%d"), **machine}, **rows, **numbers}


def measurement_row(row: dict[str, Any]) -> dict[str, Any]:
    """Return the metrics of one build without the raw samples; a metric without value is null beside its reason."""
    values = {key: row[key] for key in METRICS}
    if values["latency_s"]:
        values["latency_s"] = {key: value for key, value in values["latency_s"].items() if key != "samples"}
    return {"pipeline": row["pipeline"], **values, "unavailable": row["unavailable"], "conditions": row["conditions"]}


def run_tests_recorded(options: argparse.Namespace, *, seconds: float) -> dict[str, Any]:
    """Run the tests and, if the device has a meter, write its readings beside the JSON."""
    from passsearch.measure import probe, recording

    meter = probe("cpu" if options.target == "host" else "cuda:0").meter
    if meter is None:
        return run_tests(seconds=seconds)
    with recording(meter) as trace:
        outcome = run_tests(seconds=seconds)
    trace.write(options.out.with_suffix(".trace.jsonl"))
    return outcome


def run_tests(*, seconds: float) -> dict[str, Any]:
    """Run the tests marked ``gpu`` and return their counts, and the reason of every test that did not pass."""
    seconds = max(0.0, seconds)  # a network may have taken longer than its share
    command: Sequence[str] = [sys.executable, "-m", "pytest", "-q", "-rsfE", "-p", "no:cacheprovider", "-m", "gpu"]
    try:
        tests = subprocess.run([*command, "tests"], cwd=ROOT, capture_output=True, text=True, timeout=seconds)
    except subprocess.TimeoutExpired:
        return {"unavailable": f"they did not end within {seconds:.0f} s"}
    lines = tests.stdout.splitlines()
    if not lines:
        return {"unavailable": tests.stderr[-500:]}
    counts = {kind: int(count) for count, kind in re.findall(r"(\d+) (passed|failed|skipped|error)", lines[-1])}
    return {**counts, "reasons": [line for line in lines if line.startswith(("SKIPPED", "FAILED", "ERROR"))]}


def write(file: Path, document: dict[str, Any]) -> None:
    """Write the results so far."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
