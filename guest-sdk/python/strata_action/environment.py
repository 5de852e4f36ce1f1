"""Publishing beyond the action's own output."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from . import typed
from ._host import current
from .media import Media
from .message import Hop


def emit(
    content: str,
    *,
    data: Any = None,
    parts: Iterable[Media] = (),
    to: Iterable[str] = (),
    cause_by: str | None = None,
    route: Iterable[Hop] = (),
) -> None:
    """Publishes one more message: its recipients see it in the next step, if this attempt succeeds.

    `parts` are images and files. `to` lists explicit recipients (names, aliases, groups, `<all>`, `<self>`); `cause_by` is the label, by default
    the action's name.
    """
    text = None if data is None else typed.dumps(data)
    current().emit(content, text, parts, to, cause_by, route)
