"""The clock of the host.

Readings are recorded. A repeated attempt gets the recorded ones.
"""

from __future__ import annotations

from datetime import datetime, timezone

from ._host import current


def unix_time() -> float:
    """Return the seconds since 1970-01-01T00:00:00Z, with a resolution of one millisecond."""
    return current().clock_unix_time_ms() / 1000


def now() -> datetime:
    """Return the current date and time in UTC."""
    return datetime.fromtimestamp(unix_time(), timezone.utc)


def sleep(seconds: float) -> None:
    """Suspend the action for a number of seconds. This counts toward its `timeout` limit, not toward `cpu`."""
    current().clock_sleep(round(seconds * 1000))
