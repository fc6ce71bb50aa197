"""Records the run folders of ``tests/data/run_folders``: ``python tests/cli/record_runs.py [NAME…]``.

Run it after the format of logs changes, and keep one of the earlier runs under a name that says its format. Artifacts
are left out: they are large, and only for the processor that made them.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tarfile
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from passsearch.cli.output import UNCONFIRMED_STATUS, UNDECIDED_STATUS

FOLDERS = Path(__file__).parents[1] / "data" / "run_folders"
NETWORK = "residual.onnx"
CONFIRMED = ("--trials", "4", "--confirm", "2", "--timeout", "60", "--fresh")
KILLED = ("--objective", "compile_time", "--trials", "2", "--confirm", "0", "--passes", "LegalizeOps,FoldConstant")
RUNS = {
    "relay-finished": ("--toolchain", "relay", *CONFIRMED),
    "relax-finished": ("--toolchain", "relax", *CONFIRMED),
    "relax-killed": ("--toolchain", "relax", *KILLED, "--fresh"),
}
"""Options of ``tune`` that make each run; those whose names end in ``killed`` are killed while they measure."""
FACTS_BEFORE_KILL = 6


def main() -> None:
    """Record the runs that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", choices=[*RUNS, []], help="runs (all)")
    for name in parser.parse_args().names or RUNS:
        record(name)


def command(name: str) -> list[str]:
    """Return the command that makes a run, and continues it."""
    return [
        sys.executable,
        "-m",
        "passsearch",
        "tune",
        NETWORK,
        *RUNS[name],
        "--rivals",
        "none",
        "--out",
        name,
        "--json",
    ]


def record(name: str) -> None:
    """Make one run and pack its folder."""
    with TemporaryDirectory() as folder:
        shutil.copy(FOLDERS / NETWORK, folder)
        run = Path(folder) / name
        # An empty cache, so that the log has what was measured and not what an earlier run knew.
        environment = {**os.environ, "XDG_CACHE_HOME": str(Path(folder) / "cache")}
        process = subprocess.Popen(command(name), cwd=folder, env=environment, stdout=subprocess.DEVNULL)
        if name.endswith("killed"):
            while process.poll() is None and facts(run) < FACTS_BEFORE_KILL:
                time.sleep(0.02)
            process.kill()
            process.wait()
        elif process.wait() not in (0, UNDECIDED_STATUS, UNCONFIRMED_STATUS):
            sys.exit(f"The run {name} ended with {process.returncode}.")
        else:
            ablate = [sys.executable, "-m", "passsearch", "ablate", name]
            subprocess.run(ablate, cwd=folder, env=environment, stdout=subprocess.DEVNULL, check=True)
        with tarfile.open(FOLDERS / f"{name}.tar.xz", "w:xz") as archive:
            for file in sorted(run.rglob("*.json*")):
                if not file.is_relative_to(run / "artifacts"):
                    archive.add(file, f"{name}/{file.relative_to(run)}")
        print(f"{name}: {facts(run)} facts")


def facts(run: Path) -> int:
    """Return the number of lines in the log of a run."""
    log = run / "log.jsonl"
    return len(log.read_bytes().splitlines()) if log.exists() else 0


if __name__ == "__main__":
    main()
