"""The memory of the acting role: the messages it has handled and the outputs of its actions."""

from __future__ import annotations

from ._host import current
from .message import Message


MAX_BYTES = 2**32 - 1


def recent(limit: int, max_bytes: int = MAX_BYTES) -> list[Message]:
    """Return the newest messages, oldest first.

    At most `limit` messages are returned, never more than 1000, and at most `max_bytes` bytes of text and data.
    """
    return current().memory_recent(limit, max_bytes)


def by_label(label: str, limit: int, max_bytes: int = MAX_BYTES) -> list[Message]:
    """Return the newest messages whose `cause_by` is `label`, oldest first. The bounds are those of `recent`."""
    return current().memory_by_label(label, limit, max_bytes)
