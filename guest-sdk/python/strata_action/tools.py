"""Tools of the acting role, which `allow.tools` grants: its other actions, tools of MCP servers, and other roles.

    from strata_action import tools

    found = tools.call("search", {"q": "x"})
    same = tools.search(q="x")
    first, second = tools.call_many([("search", {"q": "x"}), ("search", {"q": "y"})])

Each call is an attempt of its own, and is recorded. A repeated attempt of the action is served what has ended if it
makes the same calls.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from . import typed
from ._host import current
from .errors import HostError


@dataclass(frozen=True)
class Tool:
    """A tool that is granted."""

    name: str
    """The name."""
    description: str
    """What it does; empty if that is not known."""
    input_schema: dict[str, Any]
    """The JSON Schema of its arguments."""


def list_all() -> list[Tool]:
    """Return the tools that are granted, in the order of the team file. Raises Denied if there are none."""
    return [Tool(name, description, json.loads(schema)) for name, description, schema in current().tools_list()]


def call(name: str, arguments: dict[str, Any] | None = None) -> Any:
    """Call a tool, and return the data of its result, or else its text.

    Raises Failed if the tool reports an error, the call is rejected, or a person does not approve it, and Denied if the
    tool is not granted.
    """
    return json.loads(current().tools_call(name, _written(arguments)))


def call_many(calls: Iterable[tuple[str, dict[str, Any]]]) -> list[Any]:
    """Make several calls at the same time, at most 64, and return their results in the order of the calls.

    Raises the error of the first call that failed, once all have ended.
    """
    results = current().tools_call_many([(name, _written(arguments)) for name, arguments in calls])
    for result in results:
        if isinstance(result, HostError):
            raise result
    return [json.loads(result) for result in results]


def _written(arguments: dict[str, Any] | None) -> str:
    return typed.dumps({} if arguments is None else arguments)


def __getattr__(name: str) -> Callable[..., Any]:
    """Return a function that calls the tool with this name: `tools.search(q="x")`."""
    if name == "list":
        return list_all
    if name.startswith("__"):
        raise AttributeError(name)

    def call_tool(**arguments: Any) -> Any:
        return call(name, arguments)

    call_tool.__name__ = name
    return call_tool
