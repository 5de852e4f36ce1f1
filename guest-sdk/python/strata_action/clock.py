"""Time, from the host. Readings are recorded: a repeated attempt is served the recorded ones."""

from __future__ import annotations

from datetime import datetime, timezone

from ._host import current


def unix_time() -> float:
    """Seconds since 1970-01-01T00:00:00Z, to the millisecond."""
    return current().clock_unix_time_ms() / 1000


def now() -> datetime:
    """The date and time, in UTC."""
    return datetime.fromtimestamp(unix_time(), timezone.utc)


def sleep(seconds: float) -> None:
    """Waits. That counts as the action's wall time, not as its CPU time."""
    current().clock_sleep(round(seconds * 1000))
