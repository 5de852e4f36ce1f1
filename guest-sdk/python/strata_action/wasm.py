"""The exports of a component, which connect the author's module with the host. Not part of the public API.

This module is imported when the component is built. Modules that are loaded then are part of the component. Of the
others, only modules of the standard library can be loaded later (`strata_library`), because there is no file system to
load them from.
"""

from __future__ import annotations

import ast
import gc
import importlib.util
import json
import os
import sys
from types import ModuleType
from typing import Any

import strata_snapshot
import wit_world.exports as world
from componentize_py_types import Err
from wit_world.exports import handler
from wit_world.imports import types as wit

from . import _host, exports, faults, log, typed
from ._validate import well_formed
from ._wasm_host import Host, message, part_to_wit, task
from .context import Candidate, Context, Situation
from .errors import Denied, Failure
from .message import Attempt, Profile, recipients

_metadata = ("", "", "")
_ENCODINGS = (
    "ascii", "base64_codec", "charmap", "cp1252", "cp437", "hex_codec", "idna", "iso8859_1", "iso8859_15", "latin_1",
    "punycode", "raw_unicode_escape", "unicode_escape", "utf_16", "utf_16_be", "utf_16_le", "utf_32", "utf_32_be",
    "utf_32_le", "utf_8_sig",
)
"""The encodings that calls use most. The others are loaded at their first use."""
_CLASSES = {"action": "Handler", "thinker": "Thinker", "planner": "Planner"}


def bind(name: str, version: str, description: str, author: ModuleType) -> list[type]:
    """Return the classes that the component exports. Raises Failure if the module does not match pyproject.toml."""
    global _metadata
    if "action" not in exports.registered:
        raise Failure(f"no function of the module `{author.__name__}` is marked with `@action`")
    action = exports.registered["action"]
    _metadata = (name, version, description or exports.summary(action.function.__doc__, author.__doc__))
    for part, class_name in _CLASSES.items():
        if part in exports.registered and not hasattr(world, class_name):
            raise Failure(f"a function is marked with `@{part}`: add `{part}` to `[tool.strata] exports` of "
                          "pyproject.toml")
        if part not in exports.registered and hasattr(world, class_name):
            raise Failure(f"no function is marked with `@{part}`: remove `{part}` from `[tool.strata] exports` of "
                          "pyproject.toml")
    _load_all()
    _evaluate_types()
    _replace_makedirs()
    faults.prepare(author)
    _host.use(Host())
    log.forward()
    strata_snapshot.rehearse(_call_without_author)
    strata_snapshot.fill_gaps()
    # Otherwise a call that creates many objects would collect garbage among those of the component, and write to them.
    gc.freeze()
    return [globals()[_CLASSES[part]] for part in exports.registered]


def _call_without_author() -> None:
    """Do what a call of an action does, except for the author's function."""
    received = wit.Message("id", "text", '{"key": ["text", 1]}', [], "label", "role", ["role"])
    input = wit.Input(wit.Profile("role", "", "", "", ""), "action", 0, "null", [received], [], None, None)
    export = exports.Export(lambda cx: cx.text)
    attempt = wit.Attempt(1, "key", None, None, None)
    _guarded(lambda: _output(export.act(_context(export, attempt, input))))


def _evaluate_types() -> None:
    """Evaluate the types of the exports now, so that no call has to."""
    for export in exports.registered.values():
        try:
            export.config_schema, export.input_schema
        except Exception:
            # It is reported when the component describes itself or is called.
            pass


def _replace_makedirs() -> None:
    """Make `os.makedirs` work without a directory `/`, which is never granted."""
    original = os.makedirs

    def makedirs(name: Any, mode: int = 0o777, exist_ok: bool = False) -> None:
        # The original would search for an existing parent up to `/`.
        if not (exist_ok and os.path.isdir(name)):
            original(name, mode, exist_ok)

    os.makedirs = makedirs


def _load_all() -> None:
    """Load the encodings, and the modules that the author's modules import within functions."""
    for name in _ENCODINGS:
        importlib.import_module(f"encodings.{name}")
    seen: set[str] = set()
    while names := [name for name in sys.modules if name not in seen and faults.is_authors(sys.modules[name])]:
        for name in names:
            seen.add(name)
            module = sys.modules[name]
            with open(module.__file__, "rb") as source:
                tree = ast.parse(source.read())
            for node in ast.walk(tree):
                for wanted in _imported(node, module):
                    try:
                        importlib.import_module(wanted)
                    except Exception:
                        # The name may be one in a module. If it is a module, the import fails again at run time.
                        pass


def _imported(node: ast.AST, module: ModuleType) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        package = module.__package__ if node.level else ""
        base = importlib.util.resolve_name("." * node.level + (node.module or ""), package)
        return [base, *(f"{base}.{alias.name}" for alias in node.names)]
    return []


class Handler:
    """The exported interface `handler`."""

    def describe(self) -> Any:
        export = exports.registered["action"]
        return handler.Manifest(
            *_metadata, export.config_schema, export.input_schema, export.output_schema, export.needs
        )

    def run(self, attempt: Any, input: Any) -> Any:
        export = exports.registered["action"]
        return _guarded(lambda: _output(export.act(_context(export, attempt, input))))


class Planner:
    """The exported interface `planner`."""

    def plan(self, attempt: Any, input: Any) -> Any:
        export = exports.registered["planner"]
        tasks = _guarded(lambda: export.plan(_context(export, attempt, input)))
        return [wit.Task(task.text, task.action) for task in tasks]


class Thinker:
    """The exported interface `thinker`."""

    def choose(self, attempt: Any, situation: Any) -> int:
        export = exports.registered["thinker"]
        return _guarded(lambda: export.choose(_situation(export, attempt, situation)))


def _guarded(call: Any) -> Any:
    """Return the result of a call. An exception becomes the failure that is returned to the host."""
    _refresh()
    try:
        return call()
    except MemoryError:
        # There is no memory left to describe it. The host detects the reason by itself.
        os.abort()
    except BaseException as problem:
        kind, text = faults.describe(problem)
        if denied := _denial(problem):
            summary, _, rest = text.partition("\n")
            kind, text = denied.failure, f"{summary}\n{denied}\n{rest}".rstrip()
        kinds = wit.FailureKind.__members__
        raise Err(wit.Failure(kinds.get(kind.upper(), wit.FailureKind.ERROR), well_formed(text))) from None


def _denial(problem: BaseException) -> Denied | None:
    """Return the host's error for a path that was not found, if its directory is not granted; otherwise None.

    The C library reports such a path as missing without calling the host. An operation that moves a file has two paths.
    """
    if not isinstance(problem, FileNotFoundError):
        return None
    for name in (problem.filename, problem.filename2):
        if not isinstance(name, str):
            continue
        try:
            _host.current().files_list(os.path.normpath(os.path.join("/", name)))
        except Denied as denied:
            return denied
        except Exception:
            pass
    return None


def _refresh() -> None:
    """Replace the environment variables and the random seed, which date from the build of the component."""
    os.reload_environ()
    if "random" in sys.modules:
        sys.modules["random"].seed(os.urandom(32))


def _output(output: Any) -> Any:
    data = None if output.data is None else typed.dumps(output.data)
    route = [wit.Hop(hop.from_, list(hop.to)) for hop in output.route]
    parts = [part_to_wit(part) for part in output.parts]
    return wit.Output(output.content, data, parts, list(recipients(output.to)), route)


def _context(export: exports.Export, attempt: Any, input: Any) -> Context:
    return Context(
        config=export.config(json.loads(input.config)),
        news=[message(each) for each in input.news],
        outputs=[message(each) for each in input.outputs],
        role=_profile(input.role),
        action=input.action,
        index=input.index,
        task=None if input.task is None else task(input.task),
        attempt=_attempt(attempt),
        arguments=None if input.arguments is None else json.loads(input.arguments),
    )


def _situation(export: exports.Export, attempt: Any, situation: Any) -> Situation:
    return Situation(
        config=export.config(json.loads(situation.config)),
        candidates=[Candidate(each.name, each.description) for each in situation.candidates],
        round=situation.round,
        news=[message(each) for each in situation.news],
        outputs=[message(each) for each in situation.outputs],
        role=_profile(situation.role),
        attempt=_attempt(attempt),
    )


def _attempt(attempt: Any) -> Attempt:
    deadline = None if attempt.deadline_ms is None else attempt.deadline_ms / 1000
    return Attempt(attempt.number, attempt.idempotency_key, attempt.turn, attempt.call, deadline)


def _profile(role: Any) -> Profile:
    return Profile(role.name, role.profile, role.goal, role.constraints, role.desc)
