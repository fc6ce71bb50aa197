"""The command line: argv in, text or JSON out, and an exit code that says who is at fault."""

from passsearch.cli.app import main

__all__ = ["main"]
