"""Tools of the team's MCP servers, which `allow.mcp` grants.

    from strata_action import mcp

    result = mcp.call("files", "read_file", {"path": "notes.md"})
    print(result.text)

Results are recorded: a repeated attempt gets the recorded ones. A tool that the server does not declare as read-only may
change something. If the answer of such a call is lost, it is repeated only if that is harmless; otherwise the run stops
until the operator has decided what to do.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from . import typed
from ._host import current


@dataclass(frozen=True)
class Result:
    """The result of a tool."""

    text: str
    """All of it as text: the texts in their order, and the structured data as JSON unless a text says the same. Images
    and other bytes are named by their type and size."""
    data: Any = None
    """The structured data; None if there is none."""
    content: tuple[Any, ...] = ()
    """The blocks as the server sent them. Bytes are in Base64."""
    is_error: bool = False
    """Whether the tool says that it failed."""


def call(server: str, tool: str, arguments: dict[str, Any] | None = None) -> Result:
    """Call a tool of a server.

    Raises Denied if the tool is not granted, NotFound if the server has no such tool, Invalid if the server refuses the
    call, and Upstream if there is no answer. A result that says that the tool failed is no exception.
    """
    written = typed.dumps({} if arguments is None else arguments)
    text, data, content, is_error = current().mcp_call(server, tool, written)
    return Result(text, None if data is None else json.loads(data), tuple(json.loads(content)), is_error)
