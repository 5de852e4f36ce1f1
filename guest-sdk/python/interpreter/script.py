"""A script, and how it becomes an action. A script is either like an action's source, with a function that is marked with
`@action`; or it returns at its top, and is then what such a function would hold: it finds `cx`, and returns a text, an
`Output` or any data.
"""

from __future__ import annotations

import ast
import linecache
import sys
from collections.abc import Callable
from types import CodeType, ModuleType
from typing import Any

from strata_action import Failure, exports, faults

MODULE = "script"
"""What a script is called by itself: no name that another module has."""
ENDS = "__returned__"
"""By what name a script finds what ends it."""

faults.hide(__file__)


class Returned(BaseException):
    """A script's return. No script catches it that catches exceptions only."""


def load(name: str, text: str, cx: Any, watch: Callable[[CodeType], None] | None = None) -> dict[str, exports.Export]:
    """What a script can do, by what its functions are marked as. `name` is what tracebacks call its file. `watch` is given
    the script's code before it runs."""
    # A byte order mark before the script is no part of it.
    text = text.removeprefix("\ufeff")
    # Tracebacks show lines of it, and there is no file to read them from.
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    code = compile(translated(text, name), name, "exec", dont_inherit=True)
    if watch is not None:
        watch(code)
    module = sys.modules[MODULE] = ModuleType(MODULE)
    module.__dict__.update({"__file__": name, "cx": cx, ENDS: Returned})
    exports.registered.clear()
    try:
        exec(code, module.__dict__)
    except Returned as returned:
        value = returned.args[0]

        def run(cx: Any) -> Any:
            return value

        return {"action": exports.Export(run)}
    if not exports.registered:
        raise Failure(f"the script `{name}` has neither a top-level `return` nor an `@action` function")
    return dict(exports.registered)


def translated(text: str, name: str) -> ast.Module:
    """The script's tree, in which returns at the top are exceptions: what stands around them is a module's, whose names
    its functions see, also those that say `global`."""
    return ast.fix_missing_locations(_Returns().visit(ast.parse(text, name)))


class _Returns(ast.NodeTransformer):
    """Replaces the returns that are in no function."""

    def visit_Return(self, node: ast.Return) -> ast.AST:
        raised = ast.Call(ast.Name(ENDS, ast.Load()), [node.value or ast.Constant(None)], [])
        return ast.copy_location(ast.Raise(raised), node)

    def _leave(self, node: ast.AST) -> ast.AST:
        return node

    visit_FunctionDef = visit_AsyncFunctionDef = visit_ClassDef = visit_Lambda = _leave
