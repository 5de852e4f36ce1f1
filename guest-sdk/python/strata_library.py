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
_LEFT_OUT = set("""
    _aix_support _android_support _apple_support _ios_support _osx_support _pydatetime _pydecimal _pyio
    _pyrepl.windows_console antigravity asyncio.proactor_events asyncio.windows_events asyncio.windows_utils bz2 ctypes curses
    ensurepip idlelib lzma pydoc_data ssl tkinter turtle turtledemo venv
""".split())
"""Modules that cannot work in a component, because they need windows, a terminal, another system or libraries in C, tools
of Python itself, and modules that are used only if a module in C is missing."""

adapt: dict[str, Callable[[ModuleType], None]] = {}
"""Functions that change a module after it was loaded, by the name of the module."""


class _Library:
    """Finds and loads the stored modules."""

    def __init__(self, compiled: bool) -> None:
        """Store the modules that are not loaded: their code, which takes seconds to compile, or only their source.

        Code is not compressed, because the whole memory is compressed where it is stored, and then becomes smaller.
        """
        self.compiled = compiled
        self.stored: dict[str, tuple[bytearray, str, bool]] = {}
        for name, path, is_package in _modules():
            with open(path, "rb") as file:
                content = file.read()
            if compiled:
                content = marshal.dumps(compile(content, path, "exec", dont_inherit=True))
            else:
                content = zlib.compress(content, 1)
            self.stored[name] = bytearray(content), path, is_package

    def forget_loaded(self) -> None:
        """Remove the modules that have been loaded. Their memory is set to zero, because it becomes part of the component."""
        for name in self.stored.keys() & sys.modules.keys():
            content, _, _ = self.stored.pop(name)
            content[:] = bytes(len(content))

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
        content, path, _ = self.stored[name]
        if self.compiled:
            return marshal.loads(content)
        return compile(zlib.decompress(content), path, "exec", dont_inherit=True)

    def is_package(self, name: str) -> bool:
        return self.stored[name][2]


_library: _Library | None = None


def _modules() -> Iterator[tuple[str, str, bool]]:
    """Return the names and paths of the modules that are not loaded, and whether each is a package."""
    for directory, names, files in os.walk(_ROOT):
        package = os.path.relpath(directory, _ROOT).replace(os.sep, ".").removeprefix(".")

        def dotted(name: str) -> str:
            return ".".join(filter(None, (package, name)))

        names[:] = sorted(
            name for name in names if name.isidentifier() and name != "__pycache__" and dotted(name) not in _LEFT_OUT
        )
        for file in sorted(files):
            stem, extension = os.path.splitext(file)
            is_package = stem == "__init__"
            name = package if is_package else dotted(stem)
            if extension == ".py" and name and name not in sys.modules and name not in _LEFT_OUT:
                yield name, os.path.join(directory, file), is_package


def keep(*, compiled: bool) -> None:
    """Make all modules of the standard library available to calls.

    If `compiled` is true, the modules are compiled now, and not in each call that imports them.
    """
    global _library
    _library = _Library(compiled)
    # While the component is built, the finder for files comes first.
    sys.meta_path.append(_library)


def forget_loaded() -> None:
    """Forget the modules that have been loaded since `keep`, which are not loaded again."""
    if _library is not None:
        _library.forget_loaded()
