"""Reports to the host the paths that a script looks for and does not find.

The C library reports a path outside of the granted directories as missing, without calling the host. A script that expects
an absent file, e.g. with `glob` or `os.path.exists`, would go on as if it were not there. The host warns of it.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from typing import Any

from strata_action import faults
from wit_world.imports import script

faults.hide(__file__)

_MAX_REPORTED = 64
"""How many paths are reported in a call: the host warns of the first few that are not granted."""
_OWN_LOOKUPS = {"linecache", "mimetypes", "pkgutil", "sysconfig", "tempfile", "traceback", "zoneinfo._tzpath"}
"""Modules that look for files of their own accord. What imports modules does not use the functions of `os`."""
_MAX_FRAMES = 8
"""How many callers are examined: those modules call these functions through one or two others."""

_reported: set[str] | None = None
"""The paths that were reported in this call; None while a component is built, when there is no host."""


def begin() -> None:
    """Report from now on what is not found."""
    global _reported
    _reported = set()


def _report(path: Any) -> None:
    if _reported is None or len(_reported) >= _MAX_REPORTED or not isinstance(path, (str, os.PathLike)):
        return
    path = os.fspath(path)
    if not isinstance(path, str) or path in _reported or _is_own_lookup():
        return
    _reported.add(path)
    script.path_missing(path)


def _is_own_lookup() -> bool:
    """Return whether the standard library looks for a path of its own."""
    frame = sys._getframe(3)
    for _ in range(_MAX_FRAMES):
        if frame is None:
            break
        if frame.f_globals.get("__name__") in _OWN_LOOKUPS:
            return True
        frame = frame.f_back
    return False


def _reporting(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that reports the path if it is not found, and otherwise does the same."""

    @functools.wraps(function)
    def look_up(path: Any = ".", *arguments: Any, **named: Any) -> Any:
        try:
            found = function(path, *arguments, **named)
        except OSError:
            _report(path)
            raise
        # `os.access` returns it.
        if found is False:
            _report(path)
        return found

    return look_up


def _replace_functions() -> None:
    """Replace the functions of `os` with which scripts look for files."""
    for name in ("stat", "lstat", "access", "scandir", "listdir"):
        function = getattr(os, name)
        replacement = _reporting(function)
        setattr(os, name, replacement)
        for features in (os.supports_dir_fd, os.supports_effective_ids, os.supports_fd, os.supports_follow_symlinks):
            if function in features:
                features.add(replacement)


_replace_functions()
