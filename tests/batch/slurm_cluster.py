"""A Slurm cluster of one node, this machine, from Debian's packages slurmctld, slurmd, slurm-client and munge."""

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "squeue", "scontrol", "sinfo")

_CONFIGURATION = """\
ClusterName=one
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
SlurmctldPort={controller_port}
SlurmdPort={node_port}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SchedulerType=sched/builtin
SelectType=select/cons_tres
ReturnToService=2
KillWait=20
JobRequeue=1
NodeName={host} NodeAddr=127.0.0.1 CPUs={cores} State=UNKNOWN
PartitionName=short Nodes={host} Default=YES MaxTime=INFINITE State=UP
"""


@contextmanager
def slurm_cluster(folder: Path) -> Iterator[Mapping[str, str]]:
    """Start a cluster, yield the environment in which its commands find it, and end its own processes.

    Skips the test with the reason where a cluster cannot start.
    """
    missing = [name for name in PROGRAMS if _find(name) is None]
    if missing:
        pytest.skip(f"needs Slurm: apt-get install slurmctld slurmd slurm-client munge; missing: {', '.join(missing)}")
    if os.geteuid():
        pytest.skip("needs root, because slurmd starts jobs as other users")
    environment = {**os.environ, "SLURM_CONF": str(folder / "slurm.conf")}
    _configure(folder)
    daemons: list[subprocess.Popen[bytes]] = []

    def start(*words: str) -> None:
        with (folder / f"{words[0]}.out").open("wb") as output:
            command = [str(_find(words[0])), *words[1:]]
            daemons.append(subprocess.Popen(command, env=environment, stdout=output, stderr=subprocess.STDOUT))

    try:
        start("munged", "--foreground", "--force", *_munge_options(folder))
        _wait_for((folder / "munge.socket").exists, folder)
        start("slurmctld", "-D", "-i")
        start("slurmd", "-D", "-N", socket.gethostname())
        _wait_for(lambda: _node_state(environment) == "idle", folder)
        yield environment
    finally:
        for daemon in reversed(daemons):
            daemon.terminate()
            daemon.wait(timeout=60)


def _find(name: str) -> str | None:
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")


def _configure(folder: Path) -> None:
    for name in ("state", "spool"):
        (folder / name).mkdir(parents=True)
    values = {"folder": folder, "host": socket.gethostname(), "cores": os.cpu_count()}
    ports = {"controller_port": _free_port(), "node_port": _free_port()}
    (folder / "slurm.conf").write_text(_CONFIGURATION.format(**values, **ports))
    key = folder / "munge.key"
    key.write_bytes(os.urandom(128))
    key.chmod(0o400)
    # munged wants that nobody else can write to the folders of its files; the last one must be open to all.
    folder.chmod(0o755)


def _munge_options(folder: Path) -> list[str]:
    files = {"key-file": "key", "socket": "socket", "pid-file": "pid", "log-file": "log", "seed-file": "seed"}
    return [f"--{option}={folder}/munge.{ending}" for option, ending in files.items()]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _node_state(environment: Mapping[str, str]) -> str:
    done = subprocess.run(["sinfo", "-h", "-o", "%T"], env=environment, capture_output=True, text=True, check=False)
    return done.stdout.strip()


def _wait_for(condition: Callable[[], bool], folder: Path, *, limit_s: float = 120) -> None:
    end = time.monotonic() + limit_s
    while not condition():
        if time.monotonic() > end:
            logs = {path.name: path.read_text()[-1500:] for path in folder.iterdir() if path.suffix in (".log", ".out")}
            pytest.skip(f"Slurm does not start here: {logs}")
        time.sleep(0.5)
