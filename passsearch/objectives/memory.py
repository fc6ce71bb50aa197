"""Memory: what an artifact adds to the process that runs it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from passsearch.objectives.objective import ConfirmedReadings, Objective, SearchReadings

if TYPE_CHECKING:
    from passsearch.measure import Ratio

LEAST_BYTES = 1 << 20
"""Smallest memory that counts; an artifact that fits into memory that its process had already reads 0."""


class Memory(Objective):
    """Peak memory in bytes. It is read when outputs are compared, which a confirmation does not repeat."""

    name, unit = "memory", "bytes"
    place = ("memory_bytes", "peak_rss")
    unread_reason = "peak memory is read once, when outputs are compared, and a confirmation compares none"

    def gain(self, baseline: SearchReadings, candidate: SearchReadings) -> float | None:
        """Return how many times less peak memory the candidate needs."""
        first, second = (max(each.built.peak_rss or 0, LEAST_BYTES) for each in (baseline, candidate))
        return first / second

    def ratio(self, confirmation: ConfirmedReadings) -> Ratio | None:
        """Return nothing: memory is not read again."""
        return None

    def twin_ratio(self, confirmation: ConfirmedReadings) -> Ratio | None:
        """Return nothing: memory is not read again."""
        return None
