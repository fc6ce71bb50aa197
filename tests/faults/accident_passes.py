"""A pass that meets accidents: it ends its process by the signals in a file beside it, one at a time; 0 is none."""

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
        time.sleep(60 if int(numbers[0]) else 0)
    return module


def accident():
    return _accident
