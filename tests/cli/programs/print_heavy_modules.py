"""Runs the command of its arguments and prints to standard error which slow libraries that has loaded."""

import sys

from passsearch.cli import main

SLOW = {"numpy", "optuna", "rich", "onnx", "scipy", "networkx", "yaml", "plotly", "pandas"}

status = main(sys.argv[1:])
print(*sorted(SLOW & set(sys.modules)), file=sys.stderr)
sys.exit(status)
