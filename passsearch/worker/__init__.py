"""The processes that hold a compiler: the parent's side, the child's side, and the IRs the child keeps.

``client`` runs in the user's interpreter, ``server`` and ``state_cache`` in the toolchain's. Both sides import this
package, so it needs the standard library only.
"""

from passsearch.worker.client import Worker
from passsearch.worker.script import run_script

__all__ = ["Worker", "run_script"]
