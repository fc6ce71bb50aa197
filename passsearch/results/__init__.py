"""Typed records of every document: what commands print with ``--json``, and what the files of a run hold."""

from passsearch.results.audit import Audit, Check, SequenceGain
from passsearch.results.parts import Compiler, Device, Ratios, StatedRatio

__all__ = ["Audit", "Check", "Compiler", "Device", "Ratios", "SequenceGain", "StatedRatio"]
