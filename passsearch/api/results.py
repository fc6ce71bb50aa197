"""Results of API functions: JSON documents that print as their tables."""

from typing import Any

from passsearch.core import printable
from passsearch.report import ablation_text, audit_text, comparison_text, engines_text, space_text


class Comparison(dict[str, Any]):
    """The result of ``compare``; its items are those of ``passsearch compare --json``."""

    def __repr__(self) -> str:
        return printable(comparison_text(self), keep="\n")


class EngineBenchmark(dict[str, Any]):
    """The result of ``bench``; its items are those of ``passsearch bench --json``."""

    def __repr__(self) -> str:
        return printable(engines_text(self), keep="\n")


class Ablation(dict[str, Any]):
    """The result of ``ablate``; its items are those of ``ablation.json`` in the run folder."""

    def __repr__(self) -> str:
        return printable(ablation_text(self), keep="\n")


class Audit(dict[str, Any]):
    """The result of ``audit``; its items are those of ``passsearch audit --json``."""

    def __repr__(self) -> str:
        return printable(audit_text(self), keep="\n")


class ExploredSpace(dict[str, Any]):
    """The result of ``explore``; its items are those that ``passsearch explore --out`` writes."""

    def __repr__(self) -> str:
        return printable(space_text(self), keep="\n")
