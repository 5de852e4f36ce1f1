"""Loading of the modules of a directory, which contains the source of an action.

A directory is `{name, module, files, translation}`: `module` is the name of the module with the action, and `files` are
`{name, text}`, with the names relative to the directory.
"""

from __future__ import annotations

import linecache
import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from types import CodeType, ModuleType
from typing import Any

from script import compile_with_warnings, restore
from strata_action import Failure, exports, faults

faults.hide(__file__)


class Unmarked(Failure):
    """No function is marked with `@action`. `file` is the entry point."""

    def __init__(self, module: str, file: str) -> None:
        super().__init__(f"no function of the module `{module}` is marked with `@action`")
        self.file = file


def translate(directory: dict[str, Any]) -> dict[str, Any]:
    """Return the compiled code of each file, in a form that JSON can represent. Raises SyntaxError."""
    return {
        file["name"]: compile_with_warnings(lambda: compile(file["text"], file["name"], "exec", dont_inherit=True))
        for file in directory["files"]
    }


def load(directory: dict[str, Any], watch: Callable[[CodeType, int], None] | None = None) -> dict[str, exports.Export]:
    """Import the module with the action, and return its exports by the names of their decorators.

    `watch` is called with the code of each module before it runs, and with the number of lines in the files before it.
    Raises Failure if no function is marked with `@action`, and any exception that the modules raise.
    """
    finder = _Finder(directory, watch)
    for name in list(sys.modules):
        # Names of modules of the interpreter, or of the standard library, may be those of the author's modules.
        if finder.has(name.partition(".")[0]):
            del sys.modules[name]
    sys.meta_path.insert(0, finder)
    exports.registered.clear()
    module = directory["module"]
    __import__(module)
    if "action" not in exports.registered:
        raise Unmarked(module, entry(directory)["name"])
    return dict(exports.registered)


def entry(directory: dict[str, Any]) -> dict[str, Any]:
    """Return the file of the module with the action."""
    base = directory["module"].replace(".", "/")
    names = (f"{base}/__init__.py", f"{base}.py")
    missing = {"name": names[1], "text": ""}
    return next((file for file in directory["files"] if file["name"] in names), missing)


class _Finder:
    """Finds and loads the modules of a directory."""

    def __init__(self, directory: dict[str, Any], watch: Callable[[CodeType, int], None] | None) -> None:
        self._texts = {file["name"]: file["text"] for file in directory["files"]}
        self._translation = directory.get("translation") or translate(directory)
        self._watch = watch

    def has(self, name: str) -> bool:
        """Return whether a module or package with this name is in the directory."""
        return self.find_spec(name) is not None

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        base = name.replace(".", "/")
        for file, is_package in ((f"{base}/__init__.py", True), (f"{base}.py", False)):
            if file in self._texts:
                spec = ModuleSpec(name, self, origin=file, is_package=is_package)
                spec.has_location = True
                return spec
        if any(file.startswith(f"{base}/") for file in self._texts):
            package = ModuleSpec(name, None, is_package=True)
            package.submodule_search_locations = [base]
            return package
        return None

    def create_module(self, spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        file = module.__spec__.origin
        text = self._texts[file]
        # Tracebacks show lines of the file, which cannot be read.
        linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
        code = restore(file, self._translation[file])
        if self._watch is not None:
            self._watch(code, self._lines_before(file))
        exec(code, module.__dict__)

    def _lines_before(self, file: str) -> int:
        names = list(self._texts)
        return sum(self._texts[name].count("\n") + 1 for name in names[:names.index(file)])
