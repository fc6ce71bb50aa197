"""The compiler processes: the parent's side, the child's side, and the IRs that the child caches.

``client`` runs in the user's interpreter, ``server`` and ``state_cache`` run in the toolchain's. Both interpreters
import this package, so it must not import anything but the standard library.
"""

from passsearch.worker.bootstrap import bootstrap_code
from passsearch.worker.client import MOST_LOG_BYTES, OWN_SIGNALS, Worker, shorten_log
from passsearch.worker.device_turn import DEVICE_WAIT_S
from passsearch.worker.failure_log import last_failure
from passsearch.worker.limits import free_disk_bytes, machine_memory_bytes
from passsearch.worker.peaks import MOST_THREADS, Peaks, best_peaks, measure_peaks
from passsearch.worker.scratch import ScratchFolder, is_temporary
from passsearch.worker.script import ScriptServer, WatchedRun, run_script

__all__ = [
    "DEVICE_WAIT_S",
    "MOST_LOG_BYTES",
    "MOST_THREADS",
    "OWN_SIGNALS",
    "Peaks",
    "ScratchFolder",
    "ScriptServer",
    "WatchedRun",
    "Worker",
    "best_peaks",
    "bootstrap_code",
    "free_disk_bytes",
    "is_temporary",
    "last_failure",
    "machine_memory_bytes",
    "measure_peaks",
    "run_script",
    "shorten_log",
]
