"""A pass that meets accidents: it ends its process by the signals that a file beside it lists, one at a time."""

import os
import time
from pathlib import Path

import tvm

SIGNALS = Path(__file__).with_name("signals.txt")


@tvm.transform.module_pass(opt_level=0, name="Accident")
def _accident(module, _context):
    numbers = SIGNALS.read_text().split()
    if numbers:
        SIGNALS.write_text(" ".join(numbers[1:]))
        os.kill(os.getpid(), int(numbers[0]))
        time.sleep(60)
    return module


def accident():
    return _accident
