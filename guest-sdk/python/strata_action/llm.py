"""Language models, granted by `allow.llm`. Replies are recorded as they arrive and are not paid for twice.

    reply = llm.ask("Name two letters.", system="You answer with a list.", max_tokens=100)
    plan = llm.ask("Plan it.", schema=Plan).parse(Plan)
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

from . import typed
from ._host import current
from .errors import HostError

T = TypeVar("T")


@dataclass
class ToolCall:
    """A call of a tool that the model asks for."""

    id: str
    """Ties the call to its result."""
    name: str
    """The tool's name."""
    arguments: Any = field(default_factory=dict)
    """The arguments, as the tool's schema describes them."""


@dataclass
class Turn:
    """One turn of a conversation."""

    speaker: str
    """`system`, `user`, `assistant` or `tool`."""
    content: str
    """The text."""
    tool_calls: list[ToolCall] = field(default_factory=list)
    """For `assistant`: the tool calls it made."""
    tool_call_id: str | None = None
    """For `tool`: the call this is the result of."""


@dataclass
class Tool:
    """A tool that the model may ask for. The action carries the call out itself."""

    name: str
    """The name."""
    description: str
    """What it does, for the model."""
    parameters: Any
    """What its arguments are: a type, or a JSON Schema as a dictionary."""


@dataclass
class Request:
    """What is asked of a model."""

    prompt: str | list[Turn]
    """What the user says, or a whole conversation, oldest turn first."""
    system: str | None = None
    """Instructions that stand above the conversation."""
    model: str | None = None
    """The model; none takes the team's."""
    schema: Any = None
    """What the reply shall be: a type, or a JSON Schema as a dictionary."""
    tools: Iterable[Tool] = ()
    """Tools the model may ask for."""
    temperature: float | None = None
    """Sampling temperature, as the provider defines it."""
    max_tokens: int | None = None
    """Upper bound of output tokens."""
    stop: Iterable[str] = ()
    """Texts that end the reply."""
    seed: int | None = None
    """A seed, where the provider honours one."""

    def send(self) -> Reply:
        """Asks. Raises Denied, Upstream or OutOfBudget."""
        return current().llm_complete(self)

    @property
    def turns(self) -> list[Turn]:
        """The conversation with the system's instructions."""
        turns = [Turn("user", self.prompt)] if isinstance(self.prompt, str) else list(self.prompt)
        return turns if self.system is None else [Turn("system", self.system), *turns]


@dataclass
class Usage:
    """What a call consumed, in tokens."""

    input_tokens: int = 0
    output_tokens: int = 0


@dataclass
class CodeBlock:
    """A fenced block of a reply."""

    language: str
    """What stands after the fence; often empty."""
    text: str
    """The code."""
    closed: bool = False
    """Whether there is a closing fence. Where there is none the reply was probably cut off."""


@dataclass
class Reply:
    """What the model answered."""

    text: str
    """The text."""
    data: Any = None
    """The structured reply, when a schema was asked for or the provider gave one."""
    tool_calls: list[ToolCall] = field(default_factory=list)
    """Tools it wants called."""
    model: str = ""
    """The model that answered."""
    usage: Usage = field(default_factory=Usage)
    """What the call consumed."""

    def parse(self, wanted: type[T]) -> T:
        """The structured reply as a dataclass or another type: what the provider gave as data, else the first code
        block or the text as JSON."""
        block = next(_code_blocks(self.text), None)
        value = json.loads(block.text if block else self.text) if self.data is None else self.data
        return typed.decode(wanted, value, "the model's reply")

    @property
    def code_blocks(self) -> list[CodeBlock]:
        """The fenced blocks of the text, in order."""
        return list(_code_blocks(self.text))


def _code_blocks(text: str) -> Iterator[CodeBlock]:
    fence, block, indent = "", CodeBlock("", ""), 0
    lines = text.split("\n")
    # What follows the last end of a line is a line only if there is something. Python knows more ends of lines, which
    # may stand within the text of a program.
    for line in lines if lines[-1] else lines[:-1]:
        line = line.removesuffix("\r")
        bare = line.strip()
        if fence and len(bare) >= len(fence) and set(bare) == {fence[0]}:
            yield CodeBlock(block.language, block.text, closed=True)
            fence = ""
        elif fence:
            # What stands in a list is as far in as its fence.
            block.text += line[min(indent, len(line) - len(line.lstrip(" "))):] + "\n"
        elif found := re.fullmatch(r"(`{3,})([^`]*)|(~{3,})([^~]*)", bare):
            fence, indent = found[1] or found[3], len(line) - len(line.lstrip(" "))
            block = CodeBlock((found[2] or found[4] or "").strip(), "")
    if fence:
        yield block


def ask(
    prompt: str | list[Turn],
    system: str | None = None,
    *,
    model: str | None = None,
    schema: Any = None,
    tools: Iterable[Tool] = (),
    temperature: float | None = None,
    max_tokens: int | None = None,
    stop: Iterable[str] = (),
    seed: int | None = None,
) -> Reply:
    """Asks once; the arguments are the fields of `Request`. Raises Denied, Upstream or OutOfBudget."""
    return Request(prompt, system, model, schema, tools, temperature, max_tokens, stop, seed).send()


def ask_many(requests: Iterable[Request]) -> list[Reply | HostError]:
    """Asks several times at once, at most 64; the results come in the order of the requests."""
    return current().llm_complete_many(requests)
