"""The host that the functions of the SDK call. Not part of the public API.

It is the real host in a component, and `testing.Host` in tests.
"""

from __future__ import annotations

from typing import Any

from ._validate import CheckedHost

_current: Any = None


def current() -> Any:
    """Return the current host, which checks the arguments of its calls. Raises RuntimeError if there is none."""
    if _current is None:
        raise RuntimeError("there is no host here: in tests, run the action by `strata_action.testing.Host().run(…)`")
    return CheckedHost(_current)


def use(host: Any) -> Any:
    """Make `host` the current host, and return the previous one."""
    global _current
    before, _current = _current, host
    return before
