"""Lines for the operator. `print` and the standard library's `logging` end there as well."""

from __future__ import annotations

import sys

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


def forward() -> None:
    """Leads what the standard library's `logging` is told to the operator, if the author uses it and has not led it
    elsewhere. Lines below INFO stay out, unless the author says otherwise.
    """
    logging = sys.modules.get("logging")
    if logging is None or logging.root.handlers:
        return

    class Lines(logging.Handler):
        def emit(self, record):
            levels = [(logging.ERROR, error), (logging.WARNING, warn), (logging.INFO, info)]
            write = next((write for level, write in levels if record.levelno >= level), debug)
            write(self.format(record))

    logging.root.addHandler(Lines())
    if logging.root.level == logging.WARNING:
        logging.root.setLevel(logging.INFO)
