"""What crosses to the host, as the types that its interfaces ask for. Not for authors.

The engine ends a call at a value of another type: no `except` sees that, and nothing says where it came from. So every
argument and every result passes here first, with every host, and what does not fit is a TypeError in the author's call.
"""

from __future__ import annotations

import codecs
import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import Any

Take = Callable[[Any, str], Any]
"""Takes a value in the place of that name, or raises a TypeError."""


def _misfit(at: str, expected: str, value: Any, hint: str = "") -> TypeError:
    found = "None" if value is None else f"the {type(value).__name__}"
    if isinstance(value, (str, int, float)):
        shown = repr(value)
        found += f" `{shown if len(shown) <= 40 else shown[:40] + '…'}`"
    return TypeError(f"{at}: expected {expected}, found {found}{hint}")


def text(value: Any, at: str) -> str:
    """A text. Half a character, as other programs' JSON can hold it, is no text to the host and becomes U+FFFD."""
    if not isinstance(value, str):
        raise _misfit(at, "a text", value)
    return well_formed(value)


def well_formed(value: str) -> str:
    """The text with U+FFFD in place of each surrogate that has no other half."""
    try:
        value.encode()
    except UnicodeEncodeError:
        # By these functions and not by name: within a component no further encoding can be loaded.
        halves, _ = codecs.utf_16_le_encode(value, "surrogatepass")
        return codecs.utf_16_le_decode(halves, "replace", True)[0]
    return value


def _whole(least: int, most: int) -> Take:
    def take(value: Any, at: str) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise _misfit(at, f"a whole number from {least} to {most}", value)
        return value

    return take


_count = _whole(0, 2**32 - 1)
index = _whole(-(2**31), 2**31 - 1)
"""What a thinker chooses."""


def _number(value: Any, at: str) -> float:
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        raise _misfit(at, "a number", value)
    return value


def _bytes(value: Any, at: str) -> bytes:
    if isinstance(value, str):
        return well_formed(value).encode()
    if not isinstance(value, (bytes, bytearray, memoryview)):
        raise _misfit(at, "a text or bytes", value)
    return bytes(value)


def _anything(value: Any, at: str) -> Any:
    return value


def optional(take: Take) -> Take:
    """What may be absent."""
    return lambda value, at: None if value is None else take(value, at)


def _one_of(*names: str) -> Take:
    def take(value: Any, at: str) -> str:
        if value not in names:
            raise _misfit(at, " or ".join(map(repr, names)), value)
        return value

    return take


def _list(take: Take) -> Take:
    def all_of(value: Any, at: str) -> list[Any]:
        # A text is a row of letters to Python: one name would become as many.
        if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Iterable):
            raise _misfit(at, "a list", value, f"; write `[{value!r}]`" if isinstance(value, str) else "")
        return [take(part, f"{at}[{index}]") for index, part in enumerate(value)]

    return all_of


def _table(take: Take) -> Take:
    def all_of(value: Any, at: str) -> dict[str, Any]:
        if not isinstance(value, Mapping):
            raise _misfit(at, "a dictionary", value)
        return {text(key, f"a key of {at}"): take(part, f"{at}[{key!r}]") for key, part in value.items()}

    return all_of


def _record(kind: str, **fields: Take) -> Take:
    """A dataclass of this name. Its own module imports this one, so the type itself is not at hand."""

    def take(value: Any, at: str) -> Any:
        if not dataclasses.is_dataclass(value) or not all(hasattr(value, name) for name in fields):
            raise _misfit(at, f"a `{kind}`", value)
        taken = {name: take(getattr(value, name), f"{at}.{name}") for name, take in fields.items()}
        return dataclasses.replace(value, **taken)

    return take


def fields(value: Any, **takes: Take) -> None:
    """Takes the fields of a dataclass that is being made, in its `__post_init__`."""
    for name, take in takes.items():
        setattr(value, name, take(getattr(value, name), f"{type(value).__name__}.{name}"))


texts = _list(text)
_MEDIA_FIELDS: dict[str, Take] = {
    "media_type": text,
    "data": optional(_bytes),
    "url": optional(text),
    "name": optional(text),
    "digest": optional(text),
    "size": _count,
}


def media_fields(value: Any) -> None:
    """Takes the fields of an image or a file that is being made. It has one source."""
    fields(value, **_MEDIA_FIELDS)
    if [value.data, value.url, value.digest].count(None) != 2:
        kind = type(value).__name__
        raise TypeError(f"{kind}: expected exactly one of `data`, `url` and `digest`")


_media = _record("Image` or `File", **_MEDIA_FIELDS)
media_list = _list(_media)
"""Images and files, without texts."""


def _part(value: Any, at: str) -> Any:
    return text(value, at) if isinstance(value, str) else _media(value, at)


part_list = _list(_part)
"""Texts, images and files."""
tasks = _list(lambda value, at: text(value, at) if isinstance(value, str) else _task(value, at))
_task = _record("Task", text=text, action=optional(text))
route = _list(_record("Hop", from_=text, to=texts))
_secret = _record("Secret", name=text, placeholder=text)
_ASSISTANT_PARTS = {
    "ToolCall": _record("ToolCall", id=text, name=text, arguments=text),
    "Opaque": _record("Opaque", provider=text, model=text, data=_anything, reasoning=text),
}


def _assistant_part(value: Any, at: str) -> Any:
    return _ASSISTANT_PARTS.get(type(value).__name__, _part)(value, at)


_tool_result = _record("ToolResult", call=text, tool=text, content=part_list, is_error=_anything)
_SPEAKERS = {
    "system": texts,
    "user": part_list,
    "assistant": _list(_assistant_part),
    "tool": _list(_tool_result),
}


def _chat_message(value: Any, at: str) -> Any:
    taken = _record("ChatMessage", speaker=_one_of(*_SPEAKERS), parts=_anything)(value, at)
    return dataclasses.replace(taken, parts=_SPEAKERS[taken.speaker](taken.parts, f"{at}.parts"))


def _prompt(value: Any, at: str) -> Any:
    if isinstance(value, str):
        return text(value, at)
    items = _list(_anything)(value, at)
    is_conversation = all(hasattr(item, "speaker") for item in items)
    return _list(_chat_message if is_conversation else _part)(items, at)


_llm_request = _record(
    "Request",
    prompt=_prompt,
    system=optional(text),
    model=optional(text),
    tools=_list(_record("Tool", name=text, description=text, parameters=_anything)),
    tool_choice=text,
    effort=optional(text),
    temperature=optional(_number),
    max_tokens=optional(_count),
    stop=texts,
    seed=optional(_count),
)


def _seconds(value: Any, at: str) -> float:
    _count(round(_number(value, at) * 1000), f"{at} in milliseconds")
    return value


_http_request = _record(
    "Request",
    method=text,
    url=text,
    headers=_table(text),
    body=optional(_bytes),
    secrets=_list(_secret),
    timeout=optional(_seconds),
    idempotency_key=optional(text),
)

CALLS: dict[str, tuple[str, dict[str, Take]]] = {
    "ask": (
        "human.ask",
        {
            "text": text,
            "schema": optional(text),
            "choices": texts,
            "expires": optional(_count),
            "default": optional(text),
        },
    ),
    "clock_sleep": ("clock.sleep", {"milliseconds": _count}),
    "clock_unix_time_ms": ("clock.unix_time", {}),
    "emit": (
        "environment.emit",
        {
            "content": text,
            "data": optional(text),
            "parts": media_list,
            "to": texts,
            "cause_by": optional(text),
            "route": route,
        },
    ),
    "env_get": ("env.get", {"name": text}),
    "files_list": ("files.list", {"path": text}),
    "files_read": ("files.read", {"path": text}),
    "files_remove": ("files.remove", {"path": text}),
    "files_write": ("files.write", {"path": text, "content": _bytes}),
    "http_fetch": ("http.request", {"request": _http_request}),
    "http_fetch_many": ("http.fetch_many", {"requests": _list(_http_request)}),
    "llm_complete": ("llm.ask", {"request": _llm_request}),
    "llm_complete_many": ("llm.ask_many", {"requests": _list(_llm_request)}),
    "llm_embed": (
        "llm.embed",
        {"texts": texts, "model": optional(text), "dimensions": optional(_count)},
    ),
    "log_write": ("log", {"level": _one_of("debug", "info", "warn", "error"), "text": text}),
    "media_load": ("media.load", {"digest": text}),
    "memory_by_label": ("memory.by_label", {"label": text, "limit": _count, "max_bytes": _count}),
    "memory_recent": ("memory.recent", {"limit": _count, "max_bytes": _count}),
    "random_bytes": ("random.bytes", {"length": _count}),
    "secrets_placeholder": ("secrets.named", {"name": text}),
    "state_delete": ("state", {"scope": text, "key": text}),
    "state_get": ("state", {"scope": text, "key": text}),
    "state_keys": ("state", {"scope": text}),
    "state_set": ("state", {"scope": text, "key": text, "value": text}),
}
"""What hosts are asked: how authors know it, and what its arguments are."""


class Checked:
    """A host whose arguments are looked at first."""

    def __init__(self, host: Any):
        self._host = host

    def __getattr__(self, name: str) -> Any:
        known_as, takes = CALLS[name]
        call = getattr(self._host, name)

        def checked(*arguments: Any) -> Any:
            taken = zip(takes.items(), arguments, strict=True)
            return call(*[take(argument, f"{known_as}: {field}") for (field, take), argument in taken])

        return checked
