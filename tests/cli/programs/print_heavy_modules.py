"""Runs ``passsearch --help`` and prints to standard error which slow libraries that has loaded."""

import sys

from passsearch.cli import main

SLOW = {"numpy", "optuna", "rich", "onnx", "scipy", "networkx", "yaml"}

main(["--help"])
print(*sorted(SLOW & set(sys.modules)), file=sys.stderr)
