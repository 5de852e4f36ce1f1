"""What a script says of itself to the host: what it does, and the types of its config, arguments and data."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from typing import Any

from strata_action import exports, faults

_SDK = "strata_action"
_MARKS = ("action", "planner", "thinker")
_NO_COMMENT = re.compile(r"!|.*\bcoding[:=]")
"""What the comments in the first lines say that are for other programs than this one: the one that runs the script, and
the encoding."""


def describe(text: str, load: Callable[[], dict[str, exports.Export]]) -> dict[str, Any]:
    """Return the description of a script with this text.

    `load` runs the script and returns its exports. It is called only if the script marks functions with decorators of
    the SDK. If it fails, the description has the reason as `problem`, and only contains what the text shows.
    """
    tree = ast.parse(text)
    comment = ast.get_docstring(tree) or _first_comment(text)
    shown = {"description": exports.summary(comment), "needs": [], "exports": ["action"]}
    if not _marks_functions(tree):
        return shown
    try:
        marked = load()
        action = marked.get("action")
        schemas = {} if action is None else {
            "config_schema": action.config_schema,
            "input_schema": action.input_schema,
            "output_schema": action.output_schema,
            "needs": action.needs,
            "description": exports.summary(action.function.__doc__, comment),
        }
    except (Exception, SystemExit) as problem:
        return {**shown, "exports": None, "problem": faults.describe(problem)[1].partition("\n")[0]}
    return {**shown, **schemas, "exports": list(marked)}


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


def _marks_functions(tree: ast.Module) -> bool:
    """Return whether a script marks functions with decorators of the SDK. Other scripts act when they are run."""
    marks = {
        alias.asname or alias.name: alias.name
        for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module == _SDK
        for alias in node.names
    }
    if "*" in marks:
        marks |= {name: name for name in _MARKS}
    functions = (node for node in tree.body if isinstance(node, ast.FunctionDef))
    return any(_is_mark(decorator, marks) for function in functions for decorator in function.decorator_list)


def _is_mark(decorator: ast.expr, marks: dict[str, str]) -> bool:
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    if isinstance(called, ast.Attribute):
        # Of the imported SDK.
        return called.attr in _MARKS
    return isinstance(called, ast.Name) and marks.get(called.id) in _MARKS
