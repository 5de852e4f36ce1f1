"""The real host, from inside a component: types of the SDK to those of the interfaces and back. Not for authors."""

from __future__ import annotations

import json
from typing import Any

from componentize_py_types import Err
from wit_world.imports import (
    clock, env, environment, files, http, human, llm, log, memory, random, secrets, state, types as wit,
)

from . import http as sdk_http, llm as sdk_llm, message as sdk, typed
from .errors import HOST_ERRORS, HostError


def _error(error: Any) -> HostError:
    return HOST_ERRORS[error.kind.name.lower().replace("_", "-")](error.message)


def _call(function: Any, *arguments: Any) -> Any:
    try:
        return function(*arguments)
    except Err as refused:
        raise _error(refused.value) from None


def _each(results: list[Any], convert: Any) -> list[Any]:
    return [_error(result.value) if isinstance(result, Err) else convert(result.value) for result in results]


def message(told: Any) -> sdk.Message:
    """A message as authors see it."""
    data = None if told.data is None else json.loads(told.data)
    return sdk.Message(told.content, told.cause_by, data, told.sent_from, told.send_to, told.id)


def task(told: Any) -> sdk.Task:
    """A task as authors see it."""
    return sdk.Task(told.text, told.action)


class Host:
    """Calls the host. Its methods are those that the modules of the SDK ask for."""

    def emit(self, content: str, data: str | None, to: list[str], cause_by: str | None, route: list[Any]) -> None:
        hops = [wit.Hop(hop.from_, list(hop.to)) for hop in route]
        _call(environment.emit, environment.Emission(content, data, to, cause_by, hops))

    def state_get(self, scope: str, key: str) -> str | None:
        return _call(state.get, scope, key)

    def state_set(self, scope: str, key: str, value: str) -> None:
        _call(state.set, scope, key, value)

    def state_delete(self, scope: str, key: str) -> None:
        _call(state.delete, scope, key)

    def state_keys(self, scope: str) -> list[str]:
        return _call(state.keys, scope)

    def memory_recent(self, limit: int) -> list[Any]:
        return [message(each) for each in memory.recent(limit)]

    def memory_by_label(self, label: str, limit: int) -> list[Any]:
        return [message(each) for each in memory.by_label(label, limit)]

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
    tools = [llm.Tool(tool.name, tool.description, typed.schema_text(tool.parameters) or "{}") for tool in request.tools]
    return llm.Request(
        request.model,
        [_turn(turn) for turn in request.turns],
        tools,
        typed.schema_text(request.schema),
        request.temperature,
        request.max_tokens,
        list(request.stop),
        request.seed,
    )


def _turn(turn: sdk_llm.Turn) -> Any:
    calls = [llm.ToolCall(call.id, call.name, typed.dumps(call.arguments)) for call in turn.tool_calls]
    return llm.ChatMessage(llm.Speaker[turn.speaker.upper()], turn.content, calls, turn.tool_call_id)


def _reply(reply: Any) -> sdk_llm.Reply:
    return sdk_llm.Reply(
        reply.text,
        None if reply.data is None else json.loads(reply.data),
        [sdk_llm.ToolCall(call.id, call.name, json.loads(call.arguments)) for call in reply.tool_calls],
        reply.model,
        sdk_llm.Usage(reply.usage.input_tokens, reply.usage.output_tokens),
    )
