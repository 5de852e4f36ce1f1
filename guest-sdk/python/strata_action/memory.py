"""What the acting role remembers: everything it handled and everything its actions returned."""

from __future__ import annotations

from ._host import current
from .message import Message


def recent(limit: int) -> list[Message]:
    """The newest messages, oldest of them first. At most 1000."""
    return current().memory_recent(limit)


def by_label(label: str, limit: int) -> list[Message]:
    """The newest messages with this `cause_by`, oldest of them first. At most 1000."""
    return current().memory_by_label(label, limit)
