"""Load the network that build_model.py has built, and run it on the example inputs.

``load(folder)`` is for your own program: it returns a function of arrays by place or name, which returns a list of
arrays and may be called by several threads. Needs TVM, numpy and the files beside this one; ``--compile FILE`` compiles
run_model.cc, which does the same in C++ for processors.
"""

import sys
from pathlib import Path

try:
    from checked_files import DeploymentError, check_export, run_script

    if __name__ == "__main__":
        run_script("network_loader", ".py")
    check_export(suffix=".py")
except Exception as error:
    if __name__ != "__main__":
        raise
    folder = Path(__file__).resolve().parent
    fault = f"{type(error).__name__}: {error}"
    sys.exit(f"A file of {folder} is missing or damaged ({fault}); copy the exported folder again, whole.")

if __name__ != "__main__":
    from machine_pool import InputError
    from network_loader import load

    __all__ = ["DeploymentError", "InputError", "load"]
