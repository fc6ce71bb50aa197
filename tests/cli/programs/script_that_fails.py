"""Stands for an exported script that finds a difference."""

import sys

sys.exit(1)
