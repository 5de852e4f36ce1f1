"""Lines for the operator. `print` and the standard library's `logging` end there as well."""

from __future__ import annotations

from ._host import current


def debug(message: object) -> None:
    """Of use to the action's author only."""
    current().log_write("debug", str(message))


def info(message: object) -> None:
    """What a curious operator wants to see."""
    current().log_write("info", str(message))


def warn(message: object) -> None:
    """Something is wrong and the action goes on."""
    current().log_write("warn", str(message))


def error(message: object) -> None:
    """Something is wrong and the action is about to fail."""
    current().log_write("error", str(message))
