"""What a script says of itself to the host: what it does, and the types of its config, arguments and data."""

from __future__ import annotations

import ast
import re
import traceback
from collections.abc import Callable
from typing import Any

from modules import Unmarked
from strata_action import exports, faults

_SDK = "strata_action"
_MARKS = ("action", "planner", "thinker")
_Marked = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
_NO_COMMENT = re.compile(r"!|.*\bcoding[:=]")
"""What the comments in the first lines say that are for other programs than this one: the one that runs the script, and
the encoding."""


def describe(text: str, load: Callable[[], dict[str, exports.Export]], is_entry: bool = False) -> dict[str, Any]:
    """Return the description of a script with this text, or of a directory whose entry point has it.

    `load` runs the script and returns its exports. For a script, it is called only if that marks functions with
    decorators of the SDK. If it fails, the description has the reason as `problem`, and only contains what the text shows.
    If every call will fail for this reason, it is the `error`, like that of a translation.
    """
    tree = ast.parse(text)
    comment = ast.get_docstring(tree) or _first_comment(text)
    functions = _marked_functions(tree)
    docs = [ast.get_docstring(function) for function, mark in functions if mark == "action"]
    shown = {"description": exports.summary(*docs, comment), "needs": [], "exports": ["action"]}
    if not functions and not is_entry:
        return shown
    try:
        marked = load()
        action = marked.get("action")
        schemas = {} if action is None else {
            "config_schema": action.config_schema,
            "input_schema": action.input_schema,
            "output_schema": action.output_schema,
            "needs": action.needs,
        }
    except (Exception, SystemExit) as problem:
        message = faults.describe(problem)[1].partition("\n")[0]
        place = _place(problem)
        why = {"problem": message} if place is None else {"error": {"message": message, **place}}
        return {**shown, "exports": None, **why}
    if action is not None and not docs:
        # Another module of the directory marks it.
        shown["description"] = exports.summary(action.function.__doc__, comment)
    return {**shown, **schemas, "exports": list(marked)}


def _place(problem: BaseException) -> dict[str, Any] | None:
    """Return where a script is wrong, if what it marks, or does not mark, lets every call fail."""
    if isinstance(problem, Unmarked):
        return {"file": problem.file}
    author = None
    for frame, line in traceback.walk_tb(problem.__traceback__):
        if frame.f_code is exports.register.__code__:
            return author
        if frame.f_code.co_filename != exports.__file__:
            author = {"file": frame.f_code.co_filename, "line": line}
    return None


def _first_comment(text: str) -> str:
    """Return the text of the line comments at the beginning of a script."""
    lines: list[str] = []
    for line in text.splitlines():
        if not line.startswith("#"):
            break
        line = line[1:]
        if lines or not _NO_COMMENT.match(line):
            lines.append(line.strip())
    return "\n".join(lines)


def _marked_functions(tree: ast.Module) -> list[tuple[_Marked, str]]:
    """Return what is marked with decorators of the SDK, and the names of these. Some of it may be refused by them.

    A script without marks acts when it is run.
    """
    marks = {
        alias.asname or alias.name: alias.name
        for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module == _SDK
        for alias in node.names
    }
    if "*" in marks:
        marks |= {name: name for name in _MARKS}
    functions = (node for node in tree.body if isinstance(node, _Marked))
    found = ((function, _mark(decorator, marks)) for function in functions for decorator in function.decorator_list)
    return [(function, mark) for function, mark in found if mark in _MARKS]


def _mark(decorator: ast.expr, marks: dict[str, str]) -> str | None:
    """Return the name of a decorator in the SDK, if it is one of the SDK. `marks` has the names that a script imports."""
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    if isinstance(called, ast.Attribute):
        return called.attr
    return marks.get(called.id) if isinstance(called, ast.Name) else None
