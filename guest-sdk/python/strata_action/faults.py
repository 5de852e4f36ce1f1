"""How an exception is told to the operator: a summary in the first line, then the traceback of the author's part."""

from __future__ import annotations

import json
import linecache
import os
import sys
import traceback
from types import ModuleType

from .errors import Failure, HostError

_FRAMES = 32
"""Frames that are shown of each exception: the first and the last ones matter most."""

_root = ""
_hidden = [os.path.dirname(__file__)]
"""Where the frames are that say nothing to an author: the SDK's."""


def hide(file: str) -> None:
    """Leaves the frames of one more file out of tracebacks: of one that runs an author's code."""
    _hidden.append(file)


def prepare(author: ModuleType) -> None:
    """Notes where the author's files are, and keeps their lines: tracebacks show them, and later there are no files."""
    global _root
    path = author.__file__ or ""
    _root = next((entry + "/" for entry in sys.path if entry and path.startswith(entry + "/")), "")
    for module in [module for module in sys.modules.values() if is_authors(module)]:
        lines = linecache.getlines(module.__file__)
        linecache.cache[module.__file__] = (sum(map(len, lines)), None, lines, module.__file__)


def is_authors(module: ModuleType) -> bool:
    """Whether a module is neither of the standard library's nor of the SDK's nor a generated one."""
    path = getattr(module, "__file__", None) or ""
    if module.__name__.startswith(("wit_world", "componentize_py")):
        return False
    here, library = os.path.dirname(__file__), os.path.dirname(os.path.dirname(json.__file__))
    return path.endswith(".py") and not path.startswith((here, library))


def describe(problem: BaseException) -> tuple[str, str]:
    """The kind of fault that an exception becomes, and what is said of it."""
    if isinstance(problem, Failure):
        return problem.kind, str(problem)
    kind = problem.failure if isinstance(problem, HostError) else "error"
    told = traceback.TracebackException.from_exception(problem, limit=-_FRAMES)
    _leave_out_own_frames(told)
    if told.stack or told.__cause__ or told.__context__ or isinstance(problem, SyntaxError):
        shown = "".join(told.format()).rstrip()
        return kind, f"{_summary(problem)}\n" + (shown.replace(f'File "{_root}', 'File "') if _root else shown)
    return kind, _summary(problem)


def _summary(problem: BaseException) -> str:
    said = str(problem).strip().split("\n")[0]
    if isinstance(problem, HostError):
        return said
    name = type(problem).__name__
    return f"{name}: {said}" if said else name


def _leave_out_own_frames(told: traceback.TracebackException | None) -> None:
    while told is not None:
        # What a dataclass is made by is code without a file, and says no more than what it calls.
        own = [frame.filename.startswith(tuple(_hidden)) for frame in told.stack]
        made = [frame.filename == "<string>" and inner for frame, inner in zip(told.stack, [*own[1:], False])]
        told.stack[:] = [frame for frame, *out in zip(told.stack, own, made) if not any(out)]
        told = told.__cause__ or told.__context__
