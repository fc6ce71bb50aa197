"""Moments as text."""

from datetime import datetime, timezone


def timestamp(time_s: float | None = None) -> str:
    """Return a time in seconds since 1970, now by default, as text in ISO 8601 and UTC."""
    moment = datetime.now(timezone.utc) if time_s is None else datetime.fromtimestamp(time_s, timezone.utc)
    return moment.isoformat(timespec="seconds")
