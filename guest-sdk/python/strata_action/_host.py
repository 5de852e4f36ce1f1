"""Who answers the calls of an action: the real host inside a component, a fake one in tests. Which one, is set once."""

from __future__ import annotations

from typing import Any

from ._border import Checked

_current: Any = None


def current() -> Any:
    """The host of this call, which looks at what it is given."""
    if _current is None:
        raise RuntimeError("there is no host here: in tests, run the action by `strata_action.testing.Host().run(…)`")
    return Checked(_current)


def use(host: Any) -> Any:
    """Sets the host; returns the one there was."""
    global _current
    before, _current = _current, host
    return before
