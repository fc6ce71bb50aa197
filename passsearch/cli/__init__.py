"""The command line: prints text or JSON, and returns an exit status."""

from passsearch.cli.app import main

__all__ = ["main"]
