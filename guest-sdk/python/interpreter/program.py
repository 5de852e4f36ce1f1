"""Compilation of scripts.

A script is not wrapped in a function, because its functions must see its variables as globals. It may `return` and
`await` at the top level. As in a notebook, the value of the last line is kept, in case the script has no other result.
"""

from __future__ import annotations

import ast
from types import CodeType

from strata_action import faults

faults.hide(__file__)
faults.hide(ast.__file__)

RETURN = "__returned__"
"""The name under which a script finds the exception that replaces `return`."""
VALUE = "__last_value__"
"""The variable that receives the value of the last line, if that is an expression."""


class Returned(BaseException):
    """Raised in place of a top-level `return`. Not an `Exception`, so that scripts do not catch it by accident."""


def compiled(name: str, text: str) -> CodeType:
    """Return the code of a script. If the script awaits at the top level, it is that of a coroutine.

    Raises SyntaxError if it cannot be compiled.
    """
    tree = _ReturnTransformer().visit(ast.parse(text, name))
    if tree.body and isinstance(last := tree.body[-1], ast.Expr) and not isinstance(last.value, ast.Constant):
        kept = ast.Assign([ast.Name(VALUE, ast.Store())], last.value)
        tree.body[-1] = ast.copy_location(kept, last)
    ast.fix_missing_locations(tree)
    return compile(tree, name, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)


def only_defines(text: str, name: str) -> bool:
    """Return whether a script consists of definitions, imports and assignments, so that running it does nothing."""
    defining = (
        ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom, ast.Assign, ast.AnnAssign,
    )
    return all(isinstance(each, defining) or _is_constant(each) for each in ast.parse(text, name).body)


def _is_constant(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


class _ReturnTransformer(ast.NodeTransformer):
    """Replaces the `return` statements outside of functions by exceptions."""

    def visit_Return(self, node: ast.Return) -> ast.AST:
        raised = ast.Call(ast.Name(RETURN, ast.Load()), [node.value or ast.Constant(None)], [])
        return ast.copy_location(ast.Raise(raised), node)

    def visit_Try(self, node: ast.Try) -> ast.AST:
        """Keep a handler of all exceptions from catching the one that replaces `return`."""
        self.generic_visit(node)
        if node.handlers:
            passed_on = ast.ExceptHandler(ast.Name(RETURN, ast.Load()), None, [ast.Raise()])
            node.handlers.insert(0, ast.copy_location(passed_on, node.handlers[0]))
        return node

    def _keep(self, node: ast.AST) -> ast.AST:
        return node

    visit_FunctionDef = visit_AsyncFunctionDef = visit_ClassDef = visit_Lambda = _keep
