"""The real host, as called by a component: conversion between the types of the SDK and those of its interfaces.

Not part of the public API.
"""

from __future__ import annotations

import json
from typing import Any

from componentize_py_types import Err
from wit_world.imports import (
    clock, env, environment, files, http, human, llm, log, mcp, media, memory, random, secrets, state, tools,
    types as wit,
)

from . import http as sdk_http, llm as sdk_llm, message as sdk, typed
from .errors import HOST_ERRORS, HostError
from .media import File, Image, Media


def _error(error: Any) -> HostError:
    return HOST_ERRORS[error.kind.name.lower().replace("_", "-")](error.message)


def _call(function: Any, *arguments: Any) -> Any:
    try:
        return function(*arguments)
    except Err as error:
        raise _error(error.value) from None


def _each(results: list[Any], convert: Any) -> list[Any]:
    return [_error(result.value) if isinstance(result, Err) else convert(result.value) for result in results]


def message(value: Any) -> sdk.Message:
    """Return a message of the host as one of the SDK."""
    data = None if value.data is None else json.loads(value.data)
    parts = [part_from_wit(part) for part in value.parts]
    return sdk.Message(value.content, value.cause_by, data, value.sent_from, value.send_to, value.id, parts)


def task(value: Any) -> sdk.Task:
    """Return a task of the host as one of the SDK."""
    return sdk.Task(value.text, value.action)


def part_from_wit(part: Any) -> Any:
    """Return a part of the host as a string, an image or a file."""
    if isinstance(part, wit.Part_Text):
        return part.value
    return _media_from_wit(Image if isinstance(part, wit.Part_Image) else File, part.value)


def _media_from_wit(kind: type[Media], value: Any) -> Media:
    source, name = value.source, value.name
    if isinstance(source, wit.MediaSource_Url):
        return kind(value.media_type, url=source.value, name=name)
    if isinstance(source, wit.MediaSource_Blob):
        return kind(value.media_type, name=name, digest=source.value.digest, size=source.value.size)
    return kind(value.media_type, source.value, name=name)


def part_to_wit(part: Any) -> Any:
    """Return a string, an image or a file as a part of the host."""
    if isinstance(part, str):
        return wit.Part_Text(part)
    return (wit.Part_Image if isinstance(part, Image) else wit.Part_File)(_media_to_wit(part))


def _media_to_wit(media: Media) -> Any:
    if media.data is not None:
        source = wit.MediaSource_Bytes(media.data)
    elif media.url is not None:
        source = wit.MediaSource_Url(media.url)
    else:
        source = wit.MediaSource_Blob(wit.Blob(media.digest, media.size))
    return wit.Media(media.media_type, media.name, source)


class Host:
    """The real host. The modules of the SDK call its methods."""

    def emit(
        self, content: str, data: str | None, parts: list[Any], to: list[str], cause_by: str | None, route: list[Any]
    ) -> None:
        hops = [wit.Hop(hop.from_, list(hop.to)) for hop in route]
        sent = [part_to_wit(part) for part in parts]
        _call(environment.emit, environment.Emission(content, data, sent, to, cause_by, hops))

    def state_get(self, scope: str, key: str) -> str | None:
        return _call(state.get, scope, key)

    def state_set(self, scope: str, key: str, value: str) -> None:
        _call(state.set, scope, key, value)

    def state_delete(self, scope: str, key: str) -> None:
        _call(state.delete, scope, key)

    def state_keys(self, scope: str) -> list[str]:
        return _call(state.keys, scope)

    def memory_recent(self, limit: int, max_bytes: int) -> list[Any]:
        return [message(each) for each in memory.recent(memory.Bounds(limit, max_bytes))]

    def memory_by_label(self, label: str, limit: int, max_bytes: int) -> list[Any]:
        return [message(each) for each in memory.by_label(label, memory.Bounds(limit, max_bytes))]

    def memory_replace(self, up_to: int, summary: str) -> None:
        _call(memory.replace, up_to, summary)

    def media_load(self, digest: str) -> bytes:
        return _call(media.load, digest)

    def log_write(self, level: str, text: str) -> None:
        log.write(log.Level[level.upper()], text)

    def clock_unix_time_ms(self) -> float:
        return clock.unix_time_ms()

    def clock_sleep(self, duration_ms: int) -> None:
        clock.sleep(duration_ms)

    def random_bytes(self, length: int) -> bytes:
        return _call(random.bytes, length)

    def files_read(self, path: str) -> bytes:
        return _call(files.read, path)

    def files_write(self, path: str, content: bytes) -> None:
        _call(files.write, path, content)

    def files_remove(self, path: str) -> None:
        _call(files.remove, path)

    def files_list(self, path: str) -> list[str]:
        return _call(files.list, path)

    def env_get(self, name: str) -> str | None:
        return _call(env.get, name)

    def secrets_placeholder(self, name: str) -> str:
        return _call(secrets.placeholder, name)

    def tools_list(self) -> list[tuple[str, str, str]]:
        return [(tool.name, tool.description, tool.input_schema) for tool in _call(tools.list)]

    def tools_call(self, name: str, arguments: str) -> str:
        return _call(tools.call, tools.ToolCall(name, arguments))

    def tools_call_many(self, calls: list[tuple[str, str]]) -> list[Any]:
        made = [tools.ToolCall(name, arguments) for name, arguments in calls]
        return _each(tools.call_many(made), lambda result: result)

    def mcp_call(self, server: str, tool: str, arguments: str) -> tuple[str, str | None, str, bool]:
        result = _call(mcp.call_tool, server, tool, arguments)
        return result.text, result.data, result.content, result.is_error

    def ask(self, text: str, schema: str | None, choices: list[str], expires: int | None, default: str | None) -> Any:
        answer = _call(human.ask, human.Question(text, schema, choices, expires, default))
        return answer.value, answer.source is human.Source.DEFAULT

    def http_fetch(self, request: Any) -> Any:
        return _response(_call(http.fetch, _request(request)))

    def http_fetch_many(self, requests: list[Any]) -> list[Any]:
        return _each(http.fetch_many([_request(request) for request in requests]), _response)

    def llm_complete(self, request: Any) -> Any:
        return _reply(_call(llm.complete, _prompt(request)))

    def llm_complete_many(self, requests: list[Any]) -> list[Any]:
        return _each(llm.complete_many([_prompt(request) for request in requests]), _reply)

    def llm_embed(self, texts: list[str], model: str | None, dimensions: int | None) -> Any:
        found = _call(llm.embed, llm.EmbedRequest(model, texts, dimensions))
        return sdk_llm.Embeddings(found.vectors, found.model, found.input_tokens)


def _request(request: sdk_http.Request) -> Any:
    return http.Request(
        request.method,
        request.url,
        [http.Header(name, value) for name, value in request.headers.items()],
        request.body,
        [secret.name for secret in request.secrets],
        None if request.timeout is None else round(request.timeout * 1000),
        request.idempotency_key,
    )


def _response(response: Any) -> sdk_http.Response:
    headers: dict[str, str] = {}
    for header in response.headers:
        before = headers.get(header.name)
        headers[header.name] = header.value if before is None else f"{before}, {header.value}"
    return sdk_http.Response(response.status, headers, response.body)


def _prompt(request: sdk_llm.Request) -> Any:
    tools = [
        llm.Tool(tool.name, tool.description, typed.schema_text(tool.parameters) or "{}") for tool in request.tools
    ]
    choices = {"auto": llm.ToolChoice_Auto, "required": llm.ToolChoice_Required, "none": llm.ToolChoice_None_}
    choice = choices.get(request.tool_choice)
    return llm.Request(
        request.model,
        [_chat_message(message) for message in request.messages],
        tools,
        llm.ToolChoice_Tool(request.tool_choice) if choice is None else choice(),
        typed.schema_text(request.schema),
        request.effort,
        request.temperature,
        request.max_tokens,
        list(request.stop),
        request.seed,
    )


def _chat_message(message: sdk_llm.ChatMessage) -> Any:
    match message.speaker:
        case "system":
            return llm.ChatMessage_System("".join(message.parts))
        case "user":
            return llm.ChatMessage_User([part_to_wit(part) for part in message.parts])
        case "assistant":
            return llm.ChatMessage_Assistant([_assistant_part_to_wit(part) for part in message.parts])
    return llm.ChatMessage_ToolResults([
        llm.ToolResult(found.call, found.tool, [part_to_wit(part) for part in found.content], bool(found.is_error))
        for found in message.parts
    ])


def _assistant_part_to_wit(part: Any) -> Any:
    match part:
        case str():
            return llm.AssistantPart_Text(part)
        case Media():
            return llm.AssistantPart_Media(_media_to_wit(part))
        case sdk_llm.ToolCall():
            return llm.AssistantPart_ToolCall(llm.ToolCall(part.id, part.name, part.arguments))
    opaque = llm.OpaquePart(part.provider, part.model, typed.dumps(part.data), part.reasoning)
    return llm.AssistantPart_Opaque(opaque)


def _assistant_part_from_wit(part: Any) -> Any:
    value = part.value
    match part:
        case llm.AssistantPart_Text():
            return value
        case llm.AssistantPart_Media():
            return _media_from_wit(Image if value.media_type.startswith("image/") else File, value)
        case llm.AssistantPart_ToolCall():
            return sdk_llm.ToolCall(value.id, value.name, value.arguments)
    return sdk_llm.Opaque(value.provider, value.model, json.loads(value.data), value.reasoning)


def _reply(reply: Any) -> sdk_llm.Reply:
    used = reply.usage
    return sdk_llm.Reply(
        reply.text,
        None if reply.data is None else json.loads(reply.data),
        [_assistant_part_from_wit(part) for part in reply.parts],
        reply.finish.name.lower().replace("_", "-"),
        reply.model,
        sdk_llm.Usage(
            used.input_tokens, used.output_tokens, used.cache_read_tokens, used.cache_write_tokens,
            used.reasoning_tokens,
        ),
    )
