"""Formatting of exceptions for fault reports: a summary in the first line, then a traceback.

The traceback contains only the author's frames.
"""

from __future__ import annotations

import json
import linecache
import os
import sys
import traceback
from types import ModuleType

from .errors import Failure, HostError

_FRAMES = 32
"""The maximum number of frames per exception."""

_root = ""
_hidden = [os.path.dirname(__file__)]
"""Prefixes of the files whose frames are left out of tracebacks."""


def hide(file: str) -> None:
    """Leave the frames of a file out of tracebacks."""
    _hidden.append(file)


def prepare(author: ModuleType) -> None:
    """Record the directory of the author's files, and load their lines for tracebacks.

    A component cannot read the files when it runs.
    """
    global _root
    path = author.__file__ or ""
    _root = next((entry + "/" for entry in sys.path if entry and path.startswith(entry + "/")), "")
    for module in [module for module in sys.modules.values() if is_authors(module)]:
        lines = linecache.getlines(module.__file__)
        linecache.cache[module.__file__] = (sum(map(len, lines)), None, lines, module.__file__)


def is_authors(module: ModuleType) -> bool:
    """Return whether a module belongs to neither the standard library nor the SDK, and is not generated."""
    path = getattr(module, "__file__", None) or ""
    if module.__name__.startswith(("wit_world", "componentize_py", "strata_library", "strata_snapshot")):
        return False
    here, library = os.path.dirname(__file__), os.path.dirname(os.path.dirname(json.__file__))
    return path.endswith(".py") and not path.startswith((here, library))


def describe(problem: BaseException) -> tuple[str, str]:
    """Return the kind of the fault for an exception, and its message."""
    if isinstance(problem, Failure):
        return problem.kind, str(problem)
    kind = problem.failure if isinstance(problem, HostError) else "error"
    report = traceback.TracebackException.from_exception(problem, limit=-_FRAMES)
    _remove_hidden_frames(report)
    summary = _summary(problem)
    if report.stack or report.__cause__ or report.__context__ or isinstance(problem, SyntaxError):
        # A script that cannot be compiled has a place, and no frames.
        has_frames = report.stack or report.__cause__ or report.__context__
        shown = "".join(report.format() if has_frames else report.format_exception_only()).rstrip()
        if shown != summary:
            return kind, f"{summary}\n" + (shown.replace(f'File "{_root}', 'File "') if _root else shown)
    return kind, summary


def _summary(problem: BaseException) -> str:
    message = str(problem).strip().split("\n")[0]
    if isinstance(problem, HostError):
        return message
    name = type(problem).__name__
    return f"{name}: {message}" if message else name


def _remove_hidden_frames(report: traceback.TracebackException | None) -> None:
    while report is not None:
        hidden = [frame.filename.startswith(tuple(_hidden)) for frame in report.stack]
        # The generated `__init__` of a dataclass has no file. It is left out if it calls the SDK.
        generated = [frame.filename == "<string>" and inner for frame, inner in zip(report.stack, [*hidden[1:], False])]
        report.stack[:] = [frame for frame, *flags in zip(report.stack, hidden, generated) if not any(flags)]
        report = report.__cause__ or report.__context__
