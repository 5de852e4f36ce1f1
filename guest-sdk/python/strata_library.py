"""The modules of the standard library that are not loaded when a component is built. Not part of the public API.

A component has no file system to load modules from. Those that are loaded when it is built are part of its memory. This
module stores the others there as well, and loads them when they are imported in a call. It is not in the package
`strata_action`, because it stores them before that is loaded: compiling them needs memory, which is used again when more
modules are loaded, and would otherwise be needed in addition.
"""

from __future__ import annotations

import json
import marshal
import os
import sys
import zlib
from collections.abc import Callable, Iterator
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

_ROOT = os.path.dirname(os.path.dirname(json.__file__))
_LEFT_OUT = {
    "__pycache__", "_pydatetime", "_pydecimal", "_pyio", "ctypes", "curses", "ensurepip", "idlelib", "pydoc_data", "tkinter",
    "turtle", "turtledemo", "venv",
}
"""Modules that cannot work in a component, because they need windows, a terminal or libraries in C, tools of Python
itself, and modules that are used only if a module in C is missing."""

adapt: dict[str, Callable[[ModuleType], None]] = {}
"""Functions that change a module after it was loaded, by the name of the module."""


class _Library:
    """Finds and loads the stored modules."""

    def __init__(self, compiled: bool) -> None:
        """Store the modules that are not loaded: their code, which takes seconds to compile, or only their source."""
        self.compiled = compiled
        self.stored: dict[str, tuple[bytes, str, bool]] = {}
        for name, path, is_package in _modules():
            with open(path, "rb") as file:
                content = file.read()
            if compiled:
                content = marshal.dumps(compile(content, path, "exec", dont_inherit=True))
            self.stored[name] = zlib.compress(content, 6 if compiled else 1), path, is_package

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name not in self.stored:
            return None
        _, origin, is_package = self.stored[name]
        spec = ModuleSpec(name, self, origin=origin, is_package=is_package)
        spec.has_location = True
        if is_package:
            spec.submodule_search_locations = [os.path.dirname(origin)]
        return spec

    def create_module(self, spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        exec(self.get_code(module.__name__), module.__dict__)
        if change := adapt.get(module.__name__):
            change(module)

    def get_code(self, name: str) -> Any:
        stored, path, _ = self.stored[name]
        content = zlib.decompress(stored)
        return marshal.loads(content) if self.compiled else compile(content, path, "exec", dont_inherit=True)

    def is_package(self, name: str) -> bool:
        return self.stored[name][2]


def _modules() -> Iterator[tuple[str, str, bool]]:
    """Return the names and paths of the modules that are not loaded, and whether each is a package."""
    for directory, names, files in os.walk(_ROOT):
        names[:] = sorted(name for name in names if name.isidentifier() and name not in _LEFT_OUT)
        package = os.path.relpath(directory, _ROOT).replace(os.sep, ".").removeprefix(".")
        for file in sorted(files):
            stem, extension = os.path.splitext(file)
            is_package = stem == "__init__"
            name = package if is_package else ".".join(filter(None, (package, stem)))
            if extension == ".py" and name and name not in sys.modules and name not in _LEFT_OUT:
                yield name, os.path.join(directory, file), is_package


def keep(*, compiled: bool) -> None:
    """Make all modules of the standard library available to calls.

    If `compiled` is true, the modules are compiled now, and not in each call that imports them.
    """
    # While the component is built, the finder for files comes first.
    sys.meta_path.append(_Library(compiled))
