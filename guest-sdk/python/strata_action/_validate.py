"""Validation of the values that are passed to the host. Not part of the public API.

A component traps if it passes a value of the wrong type to one of the host's interfaces. A trap cannot be caught
and has no traceback. All arguments and results are therefore validated here first, with every host, and a value
of the wrong type raises a TypeError in the author's call.
"""

from __future__ import annotations

import codecs
import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import Any

Check = Callable[[Any, str], Any]
"""A function that returns the value in the form that the host takes. The second argument is the name of the value.
Raises TypeError if the value has the wrong type."""


def _mismatch(name: str, expected: str, value: Any, hint: str = "") -> TypeError:
    found = "None" if value is None else f"the {type(value).__name__}"
    if isinstance(value, (str, int, float)):
        shown = repr(value)
        found += f" `{shown if len(shown) <= 40 else shown[:40] + '…'}`"
    return TypeError(f"{name}: expected {expected}, found {found}{hint}")


def string(value: Any, name: str) -> str:
    """Return the string with unpaired surrogates replaced."""
    if not isinstance(value, str):
        raise _mismatch(name, "a string", value)
    return well_formed(value)


def well_formed(value: str) -> str:
    """Return the string with each unpaired surrogate replaced by U+FFFD.

    JSON of other programs may contain unpaired surrogates. The host takes only valid Unicode.
    """
    try:
        value.encode()
    except UnicodeEncodeError:
        # `str.encode` would look up the encoding by its name, which fails in a component if the
        # encoding is not loaded.
        encoded, _ = codecs.utf_16_le_encode(value, "surrogatepass")
        return codecs.utf_16_le_decode(encoded, "replace", True)[0]
    return value


def _integer(least: int, most: int) -> Check:
    def check(value: Any, name: str) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise _mismatch(name, f"an integer from {least} to {most}", value)
        return value

    return check


_count = _integer(0, 2**32 - 1)
index = _integer(-(2**31), 2**31 - 1)
"""Check the index that a thinker returns."""


def _number(value: Any, name: str) -> float:
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        raise _mismatch(name, "a number", value)
    return value


def _bytes(value: Any, name: str) -> bytes:
    if isinstance(value, str):
        return well_formed(value).encode()
    if not isinstance(value, (bytes, bytearray, memoryview)):
        raise _mismatch(name, "a string or bytes", value)
    return bytes(value)


def _anything(value: Any, name: str) -> Any:
    return value


def optional(check: Check) -> Check:
    """Return a check that also accepts None."""
    return lambda value, name: None if value is None else check(value, name)


def _one_of(*choices: str) -> Check:
    def check(value: Any, name: str) -> str:
        if value not in choices:
            raise _mismatch(name, " or ".join(map(repr, choices)), value)
        return value

    return check


def _list(check: Check) -> Check:
    def check_list(value: Any, name: str) -> list[Any]:
        # A string is iterable: without this test, one name would become a list of its letters.
        if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Iterable):
            raise _mismatch(name, "a list", value, f"; write `[{value!r}]`" if isinstance(value, str) else "")
        return [check(item, f"{name}[{index}]") for index, item in enumerate(value)]

    return check_list


def _dict(check: Check) -> Check:
    def check_dict(value: Any, name: str) -> dict[str, Any]:
        if not isinstance(value, Mapping):
            raise _mismatch(name, "a dictionary", value)
        return {string(key, f"a key of {name}"): check(item, f"{name}[{key!r}]") for key, item in value.items()}

    return check_dict


def _instance(kind: str, **fields: Check) -> Check:
    """Return a check for a dataclass with these fields. `kind` is the name shown in errors.

    The class itself cannot be imported here, because its module imports this one.
    """

    def check(value: Any, name: str) -> Any:
        if not dataclasses.is_dataclass(value) or not all(hasattr(value, field) for field in fields):
            raise _mismatch(name, f"a `{kind}`", value)
        checked = {field: check(getattr(value, field), f"{name}.{field}") for field, check in fields.items()}
        return dataclasses.replace(value, **checked)

    return check


def check_fields(value: Any, **checks: Check) -> None:
    """Check fields of a dataclass in its `__post_init__`."""
    for field, check in checks.items():
        setattr(value, field, check(getattr(value, field), f"{type(value).__name__}.{field}"))


strings = _list(string)
_MEDIA_FIELDS: dict[str, Check] = {
    "media_type": string,
    "data": optional(_bytes),
    "url": optional(string),
    "name": optional(string),
    "digest": optional(string),
    "size": _count,
}


def check_media_fields(value: Any) -> None:
    """Check the fields of an image or a file in its `__post_init__`: it must have exactly one source."""
    check_fields(value, **_MEDIA_FIELDS)
    if [value.data, value.url, value.digest].count(None) != 2:
        kind = type(value).__name__
        raise TypeError(f"{kind}: expected exactly one of `data`, `url` and `digest`")


_media = _instance("Image` or `File", **_MEDIA_FIELDS)
media_list = _list(_media)
"""Check a list of images and files."""


def _part(value: Any, name: str) -> Any:
    return string(value, name) if isinstance(value, str) else _media(value, name)


part_list = _list(_part)
"""Check a list of strings, images and files."""
tasks = _list(lambda value, name: string(value, name) if isinstance(value, str) else _task(value, name))
_task = _instance("Task", text=string, action=optional(string))
route = _list(_instance("Hop", from_=string, to=strings))
_secret = _instance("Secret", name=string, placeholder=string)
_ASSISTANT_PARTS = {
    "ToolCall": _instance("ToolCall", id=string, name=string, arguments=string),
    "Opaque": _instance("Opaque", provider=string, model=string, data=_anything, reasoning=string),
}


def _assistant_part(value: Any, name: str) -> Any:
    return _ASSISTANT_PARTS.get(type(value).__name__, _part)(value, name)


_tool_result = _instance("ToolResult", call=string, tool=string, content=part_list, is_error=_anything)
_PARTS_BY_SPEAKER = {
    "system": strings,
    "user": part_list,
    "assistant": _list(_assistant_part),
    "tool": _list(_tool_result),
}


def _chat_message(value: Any, name: str) -> Any:
    checked = _instance("ChatMessage", speaker=_one_of(*_PARTS_BY_SPEAKER), parts=_anything)(value, name)
    return dataclasses.replace(checked, parts=_PARTS_BY_SPEAKER[checked.speaker](checked.parts, f"{name}.parts"))


def _prompt(value: Any, name: str) -> Any:
    if isinstance(value, str):
        return string(value, name)
    items = _list(_anything)(value, name)
    is_conversation = all(hasattr(item, "speaker") for item in items)
    return _list(_chat_message if is_conversation else _part)(items, name)


_llm_request = _instance(
    "Request",
    prompt=_prompt,
    system=optional(string),
    model=optional(string),
    tools=_list(_instance("Tool", name=string, description=string, parameters=_anything)),
    tool_choice=string,
    effort=optional(string),
    temperature=optional(_number),
    max_tokens=optional(_count),
    stop=strings,
    seed=optional(_count),
)


def _seconds(value: Any, name: str) -> float:
    _count(round(_number(value, name) * 1000), f"{name} in milliseconds")
    return value


_http_request = _instance(
    "Request",
    method=string,
    url=string,
    headers=_dict(string),
    body=optional(_bytes),
    secrets=_list(_secret),
    timeout=optional(_seconds),
    idempotency_key=optional(string),
)


def _tool_call(value: Any, name: str) -> tuple[str, str]:
    tool, arguments = value
    return string(tool, f"{name}: the name of a tool"), string(arguments, f"{name}: the arguments")


CALLS: dict[str, tuple[str, dict[str, Check]]] = {
    "ask": (
        "human.ask",
        {
            "text": string,
            "schema": optional(string),
            "choices": strings,
            "expires": optional(_count),
            "default": optional(string),
        },
    ),
    "clock_sleep": ("clock.sleep", {"milliseconds": _count}),
    "clock_unix_time_ms": ("clock.unix_time", {}),
    "emit": (
        "environment.emit",
        {
            "content": string,
            "data": optional(string),
            "parts": media_list,
            "to": strings,
            "cause_by": optional(string),
            "route": route,
        },
    ),
    "env_get": ("env.get", {"name": string}),
    "files_list": ("files.list", {"path": string}),
    "files_read": ("files.read", {"path": string}),
    "files_remove": ("files.remove", {"path": string}),
    "files_write": ("files.write", {"path": string, "content": _bytes}),
    "http_fetch": ("http.request", {"request": _http_request}),
    "http_fetch_many": ("http.fetch_many", {"requests": _list(_http_request)}),
    "llm_complete": ("llm.ask", {"request": _llm_request}),
    "llm_complete_many": ("llm.ask_many", {"requests": _list(_llm_request)}),
    "llm_embed": (
        "llm.embed",
        {"texts": strings, "model": optional(string), "dimensions": optional(_count)},
    ),
    "log_write": ("log", {"level": _one_of("debug", "info", "warn", "error"), "text": string}),
    "mcp_call": ("mcp.call", {"server": string, "tool": string, "arguments": string}),
    "media_load": ("media.load", {"digest": string}),
    "memory_by_label": ("memory.by_label", {"label": string, "limit": _count, "max_bytes": _count}),
    "memory_recent": ("memory.recent", {"limit": _count, "max_bytes": _count}),
    "memory_replace": ("memory.replace", {"up_to": _count, "summary": string}),
    "random_bytes": ("random.bytes", {"length": _count}),
    "secrets_placeholder": ("secrets.named", {"name": string}),
    "state_delete": ("state", {"scope": string, "key": string}),
    "state_get": ("state", {"scope": string, "key": string}),
    "state_keys": ("state", {"scope": string}),
    "tools_call": ("tools.call", {"name": string, "arguments": string}),
    "tools_call_many": ("tools.call_many", {"calls": _list(_tool_call)}),
    "tools_list": ("tools.list", {}),
    "state_set": ("state", {"scope": string, "key": string, "value": string}),
}
"""The methods of a host: the public function that calls each, and the checks of its arguments in order."""


class CheckedHost:
    """A host that checks the arguments of each call before it passes them on."""

    def __init__(self, host: Any):
        self._host = host

    def __getattr__(self, name: str) -> Any:
        public_name, checks = CALLS[name]
        call = getattr(self._host, name)

        def checked(*arguments: Any) -> Any:
            pairs = zip(checks.items(), arguments, strict=True)
            return call(*[check(argument, f"{public_name}: {field}") for (field, check), argument in pairs])

        return checked
