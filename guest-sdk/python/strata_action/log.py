"""The log of the action, which the operator reads. `print` and the module `logging` write to it as well."""

from __future__ import annotations

import sys

from ._host import current


def debug(message: object) -> None:
    """Log a message for the action's author."""
    current().log_write("debug", str(message))


def info(message: object) -> None:
    """Log a message about the normal course of the action."""
    current().log_write("info", str(message))


def warn(message: object) -> None:
    """Log a problem that does not stop the action."""
    current().log_write("warn", str(message))


def error(message: object) -> None:
    """Log a problem that makes the action fail."""
    current().log_write("error", str(message))


def forward() -> None:
    """Add a handler to the root logger of `logging` that writes to the action's log.

    Does nothing if `logging` is not imported or its root logger has a handler. Unless the author sets another
    level, records below INFO are dropped.
    """
    logging = sys.modules.get("logging")
    if logging is None or logging.root.handlers:
        return

    class LogHandler(logging.Handler):
        def emit(self, record):
            levels = [(logging.ERROR, error), (logging.WARNING, warn), (logging.INFO, info)]
            write = next((write for level, write in levels if record.levelno >= level), debug)
            write(self.format(record))

    logging.root.addHandler(LogHandler())
    if logging.root.level == logging.WARNING:
        logging.root.setLevel(logging.INFO)
