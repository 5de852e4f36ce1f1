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


def replace(up_to: int, summary: str) -> None:
    """Replace the oldest `up_to` messages of the conversation in which this action is a tool call by a text.

    This changes what the model is sent from its next request on, if the action succeeds. The first news and the newest
    reply with its results stay, and a reply and the results of its calls are replaced together or not at all. Raises
    `Invalid` if this is no tool call, `up_to` is 0, or the text is empty or has more than 64 KiB.
    """
    current().memory_replace(up_to, summary)
