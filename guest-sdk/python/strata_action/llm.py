"""Language models, as granted by `allow.llm`.

Replies are recorded. A repeated attempt gets the recorded ones and is not charged again.

    reply = llm.ask("Name two letters.", system="You answer with a list.", max_tokens=100)
    plan = llm.ask("Plan it.", schema=Plan).parse(Plan)

A conversation is continued with the reply as it was received:

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
    """A tool call that the model requests."""

    id: str
    """The id that connects the call with its result."""
    name: str
    """The name of the tool."""
    arguments: str = "{}"
    """The arguments as the model wrote them. They should be JSON that matches the tool's schema, but they may be
    any text."""

    def parse(self, wanted: type[T] = object) -> T:
        """Return the arguments as a value of `wanted`: a dataclass or another type.

        Raises ValueError if they are not JSON or do not match the type. Its text can be returned to the model as the
        result of the call.
        """
        return typed.decode(wanted, json.loads(self.arguments), f"the arguments of tool `{self.name}`")

    def result(self, content: Any, *, is_error: bool = False) -> ToolResult:
        """Return a result of the call.

        `content` is a string, an image, a file, or a list of these. Any other value is converted to JSON.
        """
        parts = content if isinstance(content, list) and all(map(_is_part, content)) else [content]
        return ToolResult(
            self.id, self.name, [part if _is_part(part) else typed.dumps(part) for part in parts], is_error
        )


@dataclass
class ToolResult:
    """The result of a tool call."""

    call: str
    """The id of the tool call."""
    tool: str
    """The name of the tool."""
    content: list[Part]
    """The parts of the result. If the provider accepts only text, images and files are replaced by descriptions."""
    is_error: bool = False
    """Whether the tool call failed."""


@dataclass
class Opaque:
    """Data that only the provider understands and that must be sent back unchanged, such as signed reasoning."""

    provider: str
    """The protocol of the provider, e.g. `anthropic`."""
    model: str
    """The id of the model at the provider."""
    data: Any
    """The value. It must not be changed."""
    reasoning: str = ""
    """The readable part of the reasoning; may be empty."""


def _is_part(value: Any) -> bool:
    return isinstance(value, (str, Media))


@dataclass
class ChatMessage:
    """A message of a conversation."""

    speaker: str
    """`system`, `user`, `assistant` or `tool`."""
    parts: list[Any]
    """The parts: strings for `system`; strings, images and files for `user`; the parts of a reply for `assistant`; for
    `tool`, a `ToolResult` for each tool call of the previous reply, in the same order."""

    @property
    def text(self) -> str:
        """The concatenated strings of the parts, including those of tool results."""
        within = [part.content if isinstance(part, ToolResult) else [part] for part in self.parts]
        return "".join(part for parts in within for part in parts if isinstance(part, str))


def user(*parts: Part) -> ChatMessage:
    """Return a message of the user. The parts are strings, images and files."""
    return ChatMessage("user", list(parts))


def results(*found: ToolResult) -> ChatMessage:
    """Return a message with the results of the tool calls of a reply."""
    return ChatMessage("tool", list(found))


@dataclass
class Tool:
    """A tool that the model may call. The action carries out the calls itself."""

    name: str
    """The name: 1 to 64 letters, digits, `_` or `-`."""
    description: str
    """The description that the model reads."""
    parameters: Any
    """The type of the arguments, or their JSON Schema as a dictionary."""


@dataclass
class Request:
    """A request to a language model."""

    prompt: str | list[Part] | list[ChatMessage]
    """The message of the user: a string, or a list of strings, images and files. Or a conversation: a list of
    `ChatMessage`, oldest first."""
    system: str | None = None
    """The system prompt, or None."""
    model: str | None = None
    """The model: a name in the team file, or an id of the provider. None means the role's model."""
    schema: Any = None
    """The type of the reply, or its JSON Schema as a dictionary. None means text."""
    tools: Iterable[Tool] = ()
    """The tools that the model may call."""
    temperature: float | None = None
    """The sampling temperature, as defined by the provider."""
    max_tokens: int | None = None
    """The maximum number of output tokens."""
    stop: Iterable[str] = ()
    """Strings that end the reply when the model writes them."""
    seed: int | None = None
    """A sampling seed, if the provider supports one."""
    tool_choice: str = "auto"
    """Whether the model calls tools: `auto`, `required` (at least one), `none`, or the name of the tool to call."""
    effort: str | None = None
    """The reasoning effort, as named by the provider, e.g. `low`."""

    def send(self) -> Reply:
        """Send the request, and return the reply.

        Raises Denied if the model is not granted or the granted calls are used up, Upstream if the provider fails or
        the reply does not match the schema, OutOfBudget if the action's budget is used up, and Invalid if the request
        is not valid.
        """
        return current().llm_complete(self)

    @property
    def messages(self) -> list[ChatMessage]:
        """The conversation, with the system prompt as its first message."""
        messages = [self.prompt] if isinstance(self.prompt, str) else list(self.prompt)
        if not all(isinstance(item, ChatMessage) for item in messages):
            messages = [ChatMessage("user", messages)]
        return messages if self.system is None else [ChatMessage("system", [self.system]), *messages]


@dataclass
class Usage:
    """The numbers of tokens of a request."""

    input_tokens: int = 0
    """The tokens of the request, including `cache_read_tokens` and `cache_write_tokens`."""
    output_tokens: int = 0
    """The tokens of the reply, including `reasoning_tokens`."""
    cache_read_tokens: int = 0
    """The tokens of the request that the provider read from its cache."""
    cache_write_tokens: int = 0
    """The tokens of the request that the provider wrote to its cache."""
    reasoning_tokens: int = 0
    """The tokens of the reply that were used for reasoning."""


@dataclass
class CodeBlock:
    """A fenced code block in a reply."""

    language: str
    """The text after the opening fence, usually a language; may be empty."""
    text: str
    """The text between the fences."""
    closed: bool = False
    """Whether there is a closing fence. If not, the reply was probably truncated."""


@dataclass
class Reply:
    """The reply of a language model."""

    text: str = ""
    """The text: the concatenated strings of `parts`."""
    data: Any = None
    """The structured reply, if the request had a schema; otherwise None."""
    parts: list[Any] | None = None
    """The parts as they were received: strings, images, files, `ToolCall` and `Opaque`."""
    finish: str = ""
    """The finish reason: `stop`, `length` (the reply was truncated), `tool-calls`, `refusal` or `other`."""
    model: str = ""
    """The model that replied, as named in the reply."""
    usage: Usage = field(default_factory=Usage)
    """The numbers of tokens."""

    def __post_init__(self) -> None:
        if self.parts is None:
            self.parts = [self.text] if self.text else []
        self.text = self.text or "".join(part for part in self.parts if isinstance(part, str))
        self.finish = self.finish or ("tool-calls" if self.tool_calls else "stop")

    @property
    def tool_calls(self) -> list[ToolCall]:
        """The tool calls that the model requests."""
        return [part for part in self.parts if isinstance(part, ToolCall)]

    @property
    def message(self) -> ChatMessage:
        """The reply as a message of the conversation."""
        return ChatMessage("assistant", self.parts)

    def parse(self, wanted: type[T]) -> T:
        """Return the structured reply as a value of `wanted`: a dataclass or another type.

        Uses `data` if it is set, otherwise the JSON in the first code block, otherwise the text as JSON. Raises
        ValueError if that is not JSON or does not match the type.
        """
        block = next(_code_blocks(self.text), None)
        value = json.loads(block.text if block else self.text) if self.data is None else self.data
        return typed.decode(wanted, value, "the model's reply")

    @property
    def code_blocks(self) -> list[CodeBlock]:
        """The fenced code blocks in the text, in order."""
        return list(_code_blocks(self.text))


def _code_blocks(text: str) -> Iterator[CodeBlock]:
    fence, block, indent = "", CodeBlock("", ""), 0
    lines = text.split("\n")
    # `str.splitlines` would also split at characters that may occur within a line of a program.
    for line in lines if lines[-1] else lines[:-1]:
        line = line.removesuffix("\r")
        bare = line.strip()
        if fence and len(bare) >= len(fence) and set(bare) == {fence[0]}:
            yield CodeBlock(block.language, block.text, closed=True)
            fence = ""
        elif fence:
            # A block in a list is indented like its fence.
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
    """Send a request. The arguments are the fields of `Request`; the errors are those of `Request.send`."""
    return Request(
        prompt, system, model, schema, tools, temperature, max_tokens, stop, seed, tool_choice, effort
    ).send()


def ask_many(requests: Iterable[Request]) -> list[Reply | HostError]:
    """Send several requests in parallel, at most 64. The replies are in the order of the requests.

    A request that fails has its exception as the result; it is not raised.
    """
    return current().llm_complete_many(requests)


@dataclass
class Embeddings:
    """The vectors of texts."""

    vectors: list[list[float]]
    """One vector per text, in the same order. All have the same length."""
    model: str = ""
    """The model that replied, as named in the reply."""
    input_tokens: int = 0
    """The number of tokens of the texts."""


def embed(texts: Iterable[str], *, model: str | None = None, dimensions: int | None = None) -> Embeddings:
    """Return a vector for each text. At most 2048 texts are allowed.

    `dimensions` is the length of the vectors, if the provider lets it be chosen. Raises the errors of
    `Request.send`, and Invalid if the provider has no embeddings.
    """
    return current().llm_embed(texts, model, dimensions)
