"""Language models, granted by `allow.llm`. Replies are recorded as they arrive and are not paid for twice.

    reply = llm.ask("Name two letters.", system="You answer with a list.", max_tokens=100)
    plan = llm.ask("Plan it.", schema=Plan).parse(Plan)

A conversation goes on with the reply as it was received:

    talk = [llm.user("What is in the box?")]
    reply = llm.ask(talk, tools=[look])
    talk += [reply.message, llm.results(*[call.result(open_box()) for call in reply.tool_calls])]
    reply = llm.ask(talk, tools=[look])
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
from .media import Media, Part

T = TypeVar("T")


@dataclass
class ToolCall:
    """A call of a tool that the model asks for."""

    id: str
    """Ties the call to its result."""
    name: str
    """The tool's name."""
    arguments: str = "{}"
    """The arguments as the model wrote them: usually JSON that follows the tool's schema, but it may be anything."""

    def parse(self, wanted: type[T] = object) -> T:
        """The arguments as a dataclass or another type. Raises ValueError if the model wrote something else, whose text
        can be returned to it as the result of the call."""
        return typed.decode(wanted, json.loads(self.arguments), f"the arguments of tool `{self.name}`")

    def result(self, content: Any, *, is_error: bool = False) -> ToolResult:
        """The result of the call: a text, an image, a file, a list of these, or any data, which becomes JSON."""
        parts = content if isinstance(content, list) and all(map(_is_part, content)) else [content]
        return ToolResult(
            self.id, self.name, [part if _is_part(part) else typed.dumps(part) for part in parts], is_error
        )


@dataclass
class ToolResult:
    """The result of a tool call."""

    call: str
    """The id of the call."""
    tool: str
    """The tool's name."""
    content: list[Part]
    """The result. Where the provider accepts only text, images and files are described in words."""
    is_error: bool = False
    """Whether the call failed."""


@dataclass
class Opaque:
    """Something that only the provider understands and that it expects back unchanged, such as signed reasoning."""

    provider: str
    """The protocol of the provider."""
    model: str
    """The provider's id of the model."""
    data: Any
    """The value. It is not to be changed."""
    reasoning: str = ""
    """The reasoning in it that people can read."""


def _is_part(value: Any) -> bool:
    return isinstance(value, (str, Media))


@dataclass
class ChatMessage:
    """One message of a conversation."""

    speaker: str
    """`system`, `user`, `assistant` or `tool`."""
    parts: list[Any]
    """Texts; for `user` also images and files; for `assistant` the parts of a reply; for `tool` the results of the calls
    of the reply before, in the order of the calls."""

    @property
    def text(self) -> str:
        """The texts in it, one after the other."""
        within = [part.content if isinstance(part, ToolResult) else [part] for part in self.parts]
        return "".join(part for parts in within for part in parts if isinstance(part, str))


def user(*parts: Part) -> ChatMessage:
    """A message of the user: texts, images and files."""
    return ChatMessage("user", list(parts))


def results(*found: ToolResult) -> ChatMessage:
    """The message with the results of the tool calls of a reply."""
    return ChatMessage("tool", list(found))


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

    prompt: str | list[Part] | list[ChatMessage]
    """What the user says: a text, or texts, images and files; or a whole conversation, oldest message first."""
    system: str | None = None
    """Instructions that stand above the conversation."""
    model: str | None = None
    """The model: a name of the team file, or an id of the provider. None takes the role's model."""
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
    tool_choice: str = "auto"
    """Whether the model calls tools: `auto`, `required`, `none`, or the name of the tool that it calls."""
    effort: str | None = None
    """How much the model thinks: a word that the provider knows, e.g. `low`."""

    def send(self) -> Reply:
        """Asks. Raises Denied, Upstream or OutOfBudget."""
        return current().llm_complete(self)

    @property
    def messages(self) -> list[ChatMessage]:
        """The conversation with the system's instructions."""
        said = [self.prompt] if isinstance(self.prompt, str) else list(self.prompt)
        if not all(isinstance(part, ChatMessage) for part in said):
            said = [ChatMessage("user", said)]
        return said if self.system is None else [ChatMessage("system", [self.system]), *said]


@dataclass
class Usage:
    """What a call consumed, in tokens."""

    input_tokens: int = 0
    """Tokens of the request, including those read from a cache or written to one."""
    output_tokens: int = 0
    """Tokens of the reply, including those of reasoning."""
    cache_read_tokens: int = 0
    """The part of `input_tokens` that the provider read from its cache."""
    cache_write_tokens: int = 0
    """The part of `input_tokens` that it wrote to its cache."""
    reasoning_tokens: int = 0
    """The part of `output_tokens` that was reasoning."""


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

    text: str = ""
    """Its text: the texts of `parts`, one after the other."""
    data: Any = None
    """The structured reply, when a schema was asked for."""
    parts: list[Any] | None = None
    """The reply as it was received: texts, images, files, `ToolCall`s and `Opaque`s."""
    finish: str = ""
    """Why it ended: `stop`, `length` (it was truncated), `tool-calls`, `refusal` or `other`."""
    model: str = ""
    """The model that answered."""
    usage: Usage = field(default_factory=Usage)
    """What the call consumed."""

    def __post_init__(self) -> None:
        if self.parts is None:
            self.parts = [self.text] if self.text else []
        self.text = self.text or "".join(part for part in self.parts if isinstance(part, str))
        self.finish = self.finish or ("tool-calls" if self.tool_calls else "stop")

    @property
    def tool_calls(self) -> list[ToolCall]:
        """The tool calls that the model asks for."""
        return [part for part in self.parts if isinstance(part, ToolCall)]

    @property
    def message(self) -> ChatMessage:
        """The reply as a message, with which the conversation goes on."""
        return ChatMessage("assistant", self.parts)

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
    prompt: str | list[Part] | list[ChatMessage],
    system: str | None = None,
    *,
    model: str | None = None,
    schema: Any = None,
    tools: Iterable[Tool] = (),
    temperature: float | None = None,
    max_tokens: int | None = None,
    stop: Iterable[str] = (),
    seed: int | None = None,
    tool_choice: str = "auto",
    effort: str | None = None,
) -> Reply:
    """Asks once; the arguments are the fields of `Request`. Raises Denied, Upstream or OutOfBudget."""
    return Request(
        prompt, system, model, schema, tools, temperature, max_tokens, stop, seed, tool_choice, effort
    ).send()


def ask_many(requests: Iterable[Request]) -> list[Reply | HostError]:
    """Asks several times at once, at most 64; the results come in the order of the requests."""
    return current().llm_complete_many(requests)


@dataclass
class Embeddings:
    """Vectors that stand for texts."""

    vectors: list[list[float]]
    """One vector per text, in order, all of the same length."""
    model: str = ""
    """The model that answered."""
    input_tokens: int = 0
    """The tokens of the texts."""


def embed(texts: Iterable[str], *, model: str | None = None, dimensions: int | None = None) -> Embeddings:
    """A vector for each text. `dimensions` is the number of components, where the provider lets one choose. Raises Denied,
    Upstream or OutOfBudget, and Invalid if the provider has no embeddings."""
    return current().llm_embed(texts, model, dimensions)
