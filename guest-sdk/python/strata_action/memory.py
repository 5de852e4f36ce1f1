"""What the acting role remembers: everything it handled and everything its actions returned."""

from __future__ import annotations

from ._host import current
from .message import Message


MAX_BYTES = 2**32 - 1


def recent(limit: int, max_bytes: int = MAX_BYTES) -> list[Message]:
    """The newest messages, oldest of them first: at most `limit` and never more than 1000, and at most `max_bytes` of text
    and data."""
    return current().memory_recent(limit, max_bytes)


def by_label(label: str, limit: int, max_bytes: int = MAX_BYTES) -> list[Message]:
    """The newest messages with this `cause_by`, oldest of them first, within the same bounds."""
    return current().memory_by_label(label, limit, max_bytes)
