"""Loading of scripts.

A script either marks a function with `@action`, like the source of an action, or it contains only the body of such a
function: it uses the variable `cx` and returns a string, an `Output` or any data at the top level.
"""

from __future__ import annotations

import ast
import base64
import builtins
import linecache
import marshal
import sys
import warnings
from collections.abc import Callable
from types import CodeType, ModuleType
from typing import Any

from strata_action import Failure, exports, faults
from strata_snapshot import rehearse

MODULE = "script"
"""The module name of a script. No other module has this name."""
RETURN = "__returned__"
"""The name under which a script finds the exception that replaces `return`."""

faults.hide(__file__)


class Returned(BaseException):
    """Raised in place of a top-level `return`. Not an `Exception`, so that scripts do not catch it by accident."""


class _Body(exports.Export):
    """The export of a script that is the body of an action. Its function takes any config, and no arguments."""

    config_type = Any
    arguments_type = None


def translate(name: str, text: str) -> dict[str, Any]:
    """Return the compiled code of a script, with the warnings of the compiler, in a form that JSON can represent.

    `name` is its file name in tracebacks. Raises SyntaxError if it cannot be compiled.
    """
    return compile_with_warnings(lambda: _compile(name, _without_mark(text)))


def compile_with_warnings(compiled: Callable[[], CodeType]) -> dict[str, Any]:
    """Return the result of a compilation, with the warnings of the compiler, in a form that JSON can represent."""
    with warnings.catch_warnings(record=True) as caught:
        # Whether they are shown is decided when the script is loaded.
        warnings.simplefilter("always")
        code = compiled()
    return {
        "code": base64.b64encode(marshal.dumps(code)).decode(),
        "warnings": [[str(each.message), each.category.__name__, each.lineno] for each in caught],
    }


def restore(name: str, translation: dict[str, Any]) -> CodeType:
    """Return the code of a translation, and show the warnings as when it was compiled."""
    for message, category, line in translation["warnings"]:
        warnings.warn_explicit(message, getattr(builtins, category), name, line)
    return marshal.loads(base64.b64decode(translation["code"]))


def _compile(name: str, text: str) -> CodeType:
    return compile(replace_returns(text, name), name, "exec", dont_inherit=True)


def _without_mark(text: str) -> str:
    """Return a script without a byte order mark, which is not part of it."""
    return text.removeprefix("\ufeff")


def load(
    name: str, text: str, cx: Any, watch: Callable[[CodeType], None] | None = None,
    translation: dict[str, Any] | None = None,
) -> dict[str, exports.Export]:
    """Run a script, and return its exports by the names of their decorators.

    `name` is its file name in tracebacks. `watch` is called with the compiled code before it runs. `translation` is
    what `translate` returned for the same script; with None, the script is compiled. Raises Failure if the script has
    neither a top-level `return` nor a function marked with `@action`, and any exception that the script raises.
    """
    text = _without_mark(text)
    # Tracebacks show lines of the script, and there is no file from which to read them.
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    code = _compile(name, text) if translation is None else restore(name, translation)
    if watch is not None:
        watch(code)
    module = sys.modules[MODULE] = ModuleType(MODULE)
    module.__dict__.update({"__file__": name, "cx": cx, RETURN: Returned})
    exports.registered.clear()
    try:
        exec(code, module.__dict__)
    except Returned as returned:
        value = returned.args[0]

        def run(cx: Any) -> Any:
            return value

        return {"action": _Body(run)}
    if not exports.registered:
        raise Failure(f"the script `{name}` has neither a top-level `return` nor an `@action` function")
    return dict(exports.registered)


def rehearse_loading() -> None:
    """Load a script, until the interpreter has adapted its code to it. Leaves no trace of the script."""
    registered, name, text = dict(exports.registered), "rehearsal.py", "return cx\n"
    translation = translate(name, text)
    rehearse(lambda: load(name, text, None, translation=translation))
    del linecache.cache[name], sys.modules[MODULE]
    exports.registered.update(registered)


def replace_returns(text: str, name: str) -> ast.Module:
    """Return the syntax tree of a script in which each top-level `return` raises an exception.

    The script is not wrapped in a function, because its functions must see its variables as globals.
    """
    return ast.fix_missing_locations(_ReturnTransformer().visit(ast.parse(text, name)))


class _ReturnTransformer(ast.NodeTransformer):
    """Replaces the `return` statements outside of functions."""

    def visit_Return(self, node: ast.Return) -> ast.AST:
        raised = ast.Call(ast.Name(RETURN, ast.Load()), [node.value or ast.Constant(None)], [])
        return ast.copy_location(ast.Raise(raised), node)

    def _keep(self, node: ast.AST) -> ast.AST:
        return node

    visit_FunctionDef = visit_AsyncFunctionDef = visit_ClassDef = visit_Lambda = _keep
