"""Conversion between JSON and Python types, and the JSON Schema of a type.

The types are dataclasses, enums, literals, lists, tuples, sets, dictionaries, unions and scalars.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import json
import math
import types
import typing
from typing import Any

from ._validate import well_formed

_SCALARS = {bool: "boolean", int: "integer", float: "number", str: "string"}
_LISTS = (list, tuple, set, frozenset)
_NAMES = {**_SCALARS, list: "list", dict: "object", type(None): "null"}


def dumps(value: Any) -> str:
    """Return the value as compact JSON. Dataclasses become objects, enums their values.

    Raises TypeError if JSON cannot represent the value. The message names the part of the value.
    """
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_to_json)
    except (TypeError, ValueError) as problem:
        raise TypeError(_problem(value, "value") or str(problem)) from None
    return well_formed(text)


def _problem(value: Any, where: str) -> str | None:
    """Return why JSON cannot represent the value, or None if no reason is found."""
    if isinstance(value, float) and not math.isfinite(value):
        return f"{where}: the number `{value}` cannot be represented in JSON"
    if value is None or isinstance(value, (bool, int, float, str)):
        return None
    try:
        if isinstance(value, dict):
            keys = (key for key in value if not (key is None or isinstance(key, (bool, int, float, str))))
            for key in keys:
                return f"{where}: the key `{key!r}` of the type `{type(key).__name__}` is not a string"
            parts = ((f"{where}.{key}", part) for key, part in value.items())
        elif isinstance(value, (list, tuple)):
            parts = ((f"{where}[{index}]", part) for index, part in enumerate(value))
        else:
            parts = iter([(where, _to_json(value))])
        return next(filter(None, (_problem(part, place) for place, part in parts)), None)
    except TypeError as problem:
        return f"{where}: {problem}"
    except RecursionError:
        # The value contains itself.
        return None


def _to_json(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, (set, frozenset)):
        try:
            return sorted(value)
        except TypeError:
            # The items have several types. Their order must not depend on the process.
            return sorted(value, key=repr)
    raise TypeError(f"a value of the type `{type(value).__name__}` cannot be represented in JSON")


def decode(wanted: Any, value: Any, where: str, *, strict: bool = False) -> Any:
    """Return the JSON value as a value of the type `wanted`.

    `where` is the name of the value in errors. If `strict` is true, unknown keys of dataclasses are errors. Raises
    ValueError if the value does not match the type, and TypeError if the type is not supported.
    """
    if wanted is Any or wanted is object or isinstance(wanted, typing.TypeVar):
        return value
    if wanted is None or wanted is type(None):
        return _expect(value is None, value, where, "null")
    if wanted in _SCALARS:
        return _scalar(wanted, value, where)
    origin, arguments = typing.get_origin(wanted), typing.get_args(wanted)
    if origin in (typing.Union, types.UnionType):
        return _union(arguments, value, where, strict)
    if origin is typing.Literal:
        return _expect(value in arguments, value, where, " or ".join(map(repr, arguments)))
    if (origin or wanted) in _LISTS:
        items = _expect(isinstance(value, list), value, where, "a list")
        parts = _parts(origin, arguments)
        if isinstance(parts, list):
            _expect(len(items) == len(parts), value, where, f"a list of {len(parts)}")
        else:
            parts = [parts] * len(items)
        each = enumerate(zip(parts, items))
        decoded = [decode(part, item, f"{where}[{index}]", strict=strict) for index, (part, item) in each]
        return (origin or wanted)(decoded)
    if wanted is dict or origin is dict:
        items = _expect(isinstance(value, dict), value, where, "an object")
        item = arguments[1] if arguments else Any
        return {key: decode(item, part, f"{where}.{key}", strict=strict) for key, part in items.items()}
    if isinstance(wanted, type) and issubclass(wanted, enum.Enum):
        known = [member.value for member in wanted]
        return wanted(_expect(value in known, value, where, " or ".join(map(repr, known))))
    if dataclasses.is_dataclass(wanted):
        return _record(wanted, value, where, strict)
    raise TypeError(f"{where}: JSON cannot be converted to the type `{wanted}`")


def _parts(origin: Any, arguments: tuple[Any, ...]) -> Any:
    """Return the type of the items of a list, or a list of their types for a tuple of a fixed length."""
    if origin is tuple and arguments and arguments[-1] is not Ellipsis:
        return list(arguments)
    return arguments[0] if arguments else Any


def _expect(fits: bool, value: Any, where: str, expected: str) -> Any:
    if not fits:
        found = _NAMES.get(type(value), type(value).__name__)
        shown = f"the {found} `{dumps(value)}`" if isinstance(value, (str, int, float)) else found
        raise ValueError(f"{where}: expected {expected}, found {shown}")
    return value


def _scalar(wanted: type, value: Any, where: str) -> Any:
    if wanted is int and isinstance(value, float) and value.is_integer():
        # JSON does not distinguish 1 from 1.0.
        return int(value)
    if wanted is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    return _expect(type(value) is wanted, value, where, _SCALARS[wanted])


def _union(choices: tuple[Any, ...], value: Any, where: str, strict: bool) -> Any:
    problems = []
    for choice in choices:
        try:
            return decode(choice, value, where, strict=strict)
        except ValueError as problem:
            if choice is not type(None):
                problems.append(str(problem))
    if len(problems) == 1:
        raise ValueError(problems[0])
    raise ValueError(f"{where}: matches none of its types: " + "; ".join(problems))


def _record(wanted: Any, value: Any, where: str, strict: bool) -> Any:
    items = _expect(isinstance(value, dict), value, where, "an object")
    hints = _hints(wanted)
    fields = {field.name: field for field in dataclasses.fields(wanted) if field.init}
    unknown = [key for key in items if key not in fields]
    if strict and unknown:
        raise ValueError(f"{where}: unknown key `{unknown[0]}`; known are {', '.join(fields) or 'none'}")
    missing = [name for name, field in fields.items() if name not in items and not _has_default(field)]
    if missing:
        raise ValueError(f"{where}: `{missing[0]}` is missing")
    decoded = {
        name: decode(hints[name], items[name], f"{where}.{name}", strict=strict) for name in fields if name in items
    }
    return wanted(**decoded)


@functools.cache
def _hints(wanted: type) -> dict[str, Any]:
    """Return the types of the fields of a dataclass."""
    return typing.get_type_hints(wanted)


def _has_default(field: dataclasses.Field) -> bool:
    return field.default is not dataclasses.MISSING or field.default_factory is not dataclasses.MISSING


def schema(wanted: Any, *, strict: bool = False, within: tuple[Any, ...] = ()) -> dict[str, Any]:
    """Return the JSON Schema of a type, or `{}`, which accepts anything, for an unknown type.

    `within` lists the enclosing dataclasses. Where a dataclass contains itself, the schema accepts any object;
    `decode` checks it nevertheless.
    """
    if wanted in within:
        return {"type": "object"}
    if wanted is None or wanted is type(None):
        return {"type": "null"}
    if wanted in _SCALARS:
        return {"type": _SCALARS[wanted]}
    origin, arguments = typing.get_origin(wanted), typing.get_args(wanted)
    if origin in (typing.Union, types.UnionType):
        return {"anyOf": [schema(choice, strict=strict, within=within) for choice in arguments]}
    if origin is typing.Literal:
        return {"enum": list(arguments)}
    if (origin or wanted) in _LISTS:
        parts = _parts(origin, arguments)
        if isinstance(parts, list):
            each = [schema(part, strict=strict, within=within) for part in parts]
            return {"type": "array", "prefixItems": each, "minItems": len(parts), "maxItems": len(parts)}
        return {"type": "array", "items": schema(parts, strict=strict, within=within)}
    if wanted is dict or origin is dict:
        item = arguments[1] if arguments else Any
        return {"type": "object", "additionalProperties": schema(item, strict=strict, within=within)}
    if isinstance(wanted, type) and issubclass(wanted, enum.Enum):
        return {"enum": [member.value for member in wanted]}
    if dataclasses.is_dataclass(wanted):
        hints = _hints(wanted)
        fields = [field for field in dataclasses.fields(wanted) if field.init]
        found: dict[str, Any] = {
            "type": "object",
            "properties": {
                field.name: schema(hints[field.name], strict=strict, within=(*within, wanted)) for field in fields
            },
            "required": [field.name for field in fields if not _has_default(field)],
        }
        return {**found, "additionalProperties": False} if strict else found
    return {}


def schema_text(wanted: Any) -> str | None:
    """Return the JSON Schema of a type as text. A dictionary is taken as a schema. Returns None for None."""
    if wanted is None:
        return None
    return dumps(wanted if isinstance(wanted, dict) else schema(wanted))
