"""Loading of scripts.

A script either marks a function with `@action`, like the source of an action, or it is a program or the body of such a
function: it uses the variable `cx`, and returns a string, an `Output` or any data at the top level, or prints its
result. `program` describes how it is compiled and which result it has.
"""

from __future__ import annotations

import asyncio
import base64
import builtins
import inspect
import linecache
import marshal
import sys
import warnings
from collections.abc import Callable
from types import CodeType, ModuleType
from typing import Any

import printed
import program
from program import RETURN, VALUE, Returned
from strata_action import Failure, exports, faults, tools, typed
from strata_snapshot import rehearse

MODULE = "__main__"
"""The module name of a script, which is a program of its own."""

faults.hide(__file__)


class _Body(exports.Export):
    """The export of a script that is the body of an action. Its function takes any config, and no arguments."""

    config_type = Any
    arguments_type = None


def translate(name: str, text: str) -> dict[str, Any]:
    """Return the compiled code of a script, with the warnings of the compiler, in a form that JSON can represent.

    `name` is its file name in tracebacks. Raises SyntaxError if it cannot be compiled.
    """
    return compile_with_warnings(lambda: program.compiled(name, _without_mark(text)))


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


def _without_mark(text: str) -> str:
    """Return a script without a byte order mark, which is not part of it."""
    return text.removeprefix("\ufeff")


def load(
    name: str, text: str, cx: Any, watch: Callable[[CodeType], None] | None = None,
    translation: dict[str, Any] | None = None,
) -> dict[str, exports.Export]:
    """Run a script, and return its exports by the names of their decorators.

    `name` is its file name in tracebacks. `watch` is called with the compiled code before it runs. `translation` is
    what `translate` returned for the same script; with None, the script is compiled. Raises Failure if the script only
    defines something or ends with an exit code, and any exception that the script raises.
    """
    text = _without_mark(text)
    # Tracebacks show lines of the script, and there is no file from which to read them.
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    code = program.compiled(name, text) if translation is None else restore(name, translation)
    if watch is not None:
        watch(code)
    module = sys.modules[MODULE] = ModuleType(MODULE)
    module.__dict__.update({"__file__": name, "cx": cx, "tools": tools, RETURN: Returned, VALUE: None})
    sys.argv = [name]
    exports.registered.clear()
    with printed.collect() as collected:
        value = _value(code, module, collected)
    if exports.registered and value is None:
        return dict(exports.registered)
    if value is None:
        value = collected.output() or _shown(module.__dict__[VALUE])
    if value is None:
        if program.only_defines(text, name):
            raise Failure(f"the script `{name}` defines something and does not use it: call a function, and print or "
                          "`return` its result, or mark it with `@action`")
        value = ""

    def run(cx: Any) -> Any:
        return value

    return {"action": _Body(run)}


def _value(code: CodeType, module: ModuleType, collected: printed.Collected) -> Any:
    """Run a script, and return the value that it returned; None if it returned nothing.

    Raises Failure if it ended with an exit code other than 0.
    """
    try:
        if code.co_flags & inspect.CO_COROUTINE:
            asyncio.run(eval(code, module.__dict__))
        else:
            exec(code, module.__dict__)
        return None
    except Returned as returned:
        value = returned.args[0]
    except SystemExit as ended:
        if ended.code is None or ended.code == 0:
            return None
        told = ended.code if isinstance(ended.code, str) else f"the script ended with exit code {ended.code}"
        raise Failure(f"{told}\n{collected.errors()}".rstrip()) from None
    return asyncio.run(value) if inspect.iscoroutine(value) else value


def _shown(value: Any) -> Any:
    """Return the value of a script's last line as a result, as notebooks show it, even if JSON cannot represent it."""
    if inspect.iscoroutine(value):
        value = asyncio.run(value)
    try:
        typed.dumps(value)
    except TypeError:
        return repr(value)
    return value


def rehearse_loading() -> None:
    """Load a script, until the interpreter has adapted its code to it. Leaves no trace of the script."""
    registered, main, name = dict(exports.registered), sys.modules.get(MODULE), "rehearsal.py"
    for text in ("return cx\n", "cx\n"):
        translation = translate(name, text)
        rehearse(lambda: load(name, text, "", translation=translation))
    del linecache.cache[name], sys.modules[MODULE]
    if main is not None:
        sys.modules[MODULE] = main
    exports.registered.update(registered)
