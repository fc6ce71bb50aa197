"""Prints the working folder and whether the caller's PYTHONPATH has arrived."""

import sys
from pathlib import Path

print(Path.cwd(), "/somewhere" in sys.path)
