"""Publishing messages beside the action's output."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from . import typed
from ._host import current
from .media import Media
from .message import Hop, recipients


def emit(
    content: str,
    *,
    data: Any = None,
    parts: Iterable[Media] = (),
    to: Iterable[str] | None = None,
    cause_by: str | None = None,
    route: Iterable[Hop] = (),
) -> None:
    """Publish a message. Its recipients receive it in the next step. It is discarded if this attempt fails.

    `data` is structured content; anything that JSON can represent. `parts` are images and files. `to` lists
    the recipients: names, aliases, groups, `<all>` or `<self>`. If it is absent, routes and watched labels
    decide; if it is empty, nobody receives the message. `cause_by` is the label, by default the name of the action. `route` is an itinerary that travels
    with the message. Raises Invalid in a thinker, which cannot emit.
    """
    text = None if data is None else typed.dumps(data)
    current().emit(content, text, parts, recipients(to), cause_by, route)
