"""Build a network with exactly the passes of pipeline.json; check the IR after each pass, then the outputs.

Needs the files beside this one, unchanged, TVM and numpy. Once every check has passed, --out gets the network, which
run_model.py loads. Whatever fails ends in one line and the exit status 1.
"""

import sys
from pathlib import Path

try:
    from checked_files import run_script

    run_script("build_steps", "")
except Exception as error:  # noqa: BLE001 - a damaged file may raise anything
    folder = Path(__file__).resolve().parent
    fault = f"{type(error).__name__}: {error}"
    sys.exit(f"A file of {folder} is missing or damaged ({fault}); copy the exported folder again, whole.")
