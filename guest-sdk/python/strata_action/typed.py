"""Conversion between JSON and Python types, and the JSON Schema of a type.

The types are dataclasses, typed dictionaries, enums, literals, lists, tuples, sets, dictionaries, unions and scalars.
`Annotated[T, "…"]` is the type `T` with a description.
"""

from __future__ import annotations

import collections
import collections.abc
import dataclasses
import datetime
import enum
import functools
import inspect
import json
import math
import re
import sys
import types
import typing
from typing import Annotated, Any, NewType

from ._validate import well_formed

_KEY_MARKS = tuple(getattr(typing, name) for name in ("Required", "NotRequired", "ReadOnly") if hasattr(typing, name))
_NAMED = (NewType, *(getattr(typing, name) for name in ("TypeAliasType",) if hasattr(typing, name)))
"""The types of names of other types, as far as this version of Python has them."""
_SCALARS = {bool: "boolean", int: "integer", float: "number", str: "string"}
_LISTS = (list, tuple, set, frozenset)
_LARGE_INTEGER = re.compile(r"(?<![\d.])\d{19,}(?![\d.eE])")
"""What may be an integer that does not fit into 64 bits, in a JSON text."""
_VALUES_OF_MODULES = {"decimal": ("Decimal",), "fractions": ("Fraction",), "pathlib": ("PurePath",), "uuid": ("UUID",)}
"""Types whose values become their text, by their modules, which need not be loaded."""
_ITERABLE = (
    collections.abc.KeysView, collections.abc.ValuesView, collections.abc.ItemsView, collections.deque, range,
)
_NAMES = {**_SCALARS, list: "list", dict: "object", type(None): "null"}


@dataclasses.dataclass(frozen=True)
class Member:
    """A value with a name: a field of a dataclass, a key of a typed dictionary, or a parameter of a function."""

    type: Any
    required: bool
    default: Any = inspect.Parameter.empty
    """The value that is used if there is none, as far as it is known and the same in each call; otherwise `empty`."""


@dataclasses.dataclass(frozen=True, eq=False)
class Parameters:
    """The type of the keyword arguments of a function: an object with these members. They are decoded to a dict."""

    members: dict[str, Member]


def dumps(value: Any) -> str:
    """Return the value as compact JSON. Dataclasses become objects, enums their values.

    Dates, times, decimals, fractions, paths and UUIDs become their texts, and so do integers that do not fit into 64 bits,
    which many readers of JSON would round. Raises TypeError if JSON cannot represent the value. The message names the part of the value.
    """
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_to_json)
    except (TypeError, ValueError) as problem:
        raise TypeError(_problem(value, "value") or str(problem)) from None
    if _LARGE_INTEGER.search(text):
        text = json.dumps(_without_large(json.loads(text)), ensure_ascii=False, separators=(",", ":"))
    return well_formed(text)


def _without_large(value: Any) -> Any:
    """Return a JSON value in which the integers that do not fit into 64 bits are texts."""
    if isinstance(value, int) and not -(1 << 63) <= value < 1 << 64:
        return str(value)
    if isinstance(value, dict):
        return {key: _without_large(part) for key, part in value.items()}
    return [_without_large(part) for part in value] if isinstance(value, list) else value


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
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, datetime.timedelta) or _is_value_of_module(value):
        return str(value)
    if isinstance(value, _ITERABLE):
        return list(value)
    raise TypeError(f"a value of the type `{type(value).__name__}` cannot be represented in JSON")


def _is_value_of_module(value: Any) -> bool:
    modules = ((sys.modules.get(module), names) for module, names in _VALUES_OF_MODULES.items())
    return any(isinstance(value, getattr(module, name)) for module, names in modules if module for name in names)


def decode(wanted: Any, value: Any, where: str, *, strict: bool = False) -> Any:
    """Return the JSON value as a value of the type `wanted`.

    `where` is the name of the value in errors. If `strict` is true, unknown keys of dataclasses are errors. Raises
    ValueError if the value does not match the type, and TypeError if the type is not supported.
    """
    wanted, _ = _without_annotations(wanted)
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
    if is_record(wanted):
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
    known = members(wanted)
    unknown = [key for key in items if key not in known]
    if strict and unknown:
        raise ValueError(f"{where}: unknown key `{unknown[0]}`; known are {', '.join(known) or 'none'}")
    missing = [name for name, member in known.items() if member.required and name not in items]
    if missing:
        raise ValueError(f"{where}: `{missing[0]}` is missing")
    decoded = {
        name: decode(member.type, items[name], f"{where}.{name}", strict=strict)
        for name, member in known.items()
        if name in items
    }
    return decoded if isinstance(wanted, Parameters) else wanted(**decoded)


def is_record(wanted: Any) -> bool:
    """Return whether the values of a type are objects with known keys."""
    return isinstance(wanted, Parameters) or typing.is_typeddict(wanted) or (
        isinstance(wanted, type) and dataclasses.is_dataclass(wanted)
    )


def is_object(wanted: Any) -> bool:
    """Return whether the values of a type may be objects."""
    wanted, _ = _without_annotations(wanted)
    origin = typing.get_origin(wanted)
    if origin in (typing.Union, types.UnionType):
        return any(is_object(choice) for choice in typing.get_args(wanted))
    return wanted in (Any, object) or (origin or wanted) is dict or is_record(wanted)


def members(wanted: Any) -> dict[str, Member]:
    """Return the members of a type for which `is_record` is true."""
    return wanted.members if isinstance(wanted, Parameters) else _members_of_class(wanted)


@functools.cache
def _members_of_class(wanted: type) -> dict[str, Member]:
    hints = typing.get_type_hints(wanted, include_extras=True)
    if typing.is_typeddict(wanted):
        return {name: Member(hint, name in wanted.__required_keys__) for name, hint in hints.items()}
    fields = {field.name: field for field in dataclasses.fields(wanted) if field.init}
    return {name: Member(hints[name], not _has_default(field), _default(field)) for name, field in fields.items()}


def _has_default(field: dataclasses.Field) -> bool:
    return field.default is not dataclasses.MISSING or field.default_factory is not dataclasses.MISSING


def _default(field: dataclasses.Field) -> Any:
    if field.default_factory in (list, dict, set):
        # Another factory might return a different value in each call.
        return field.default_factory()
    return inspect.Parameter.empty if field.default is dataclasses.MISSING else field.default


def _without_annotations(wanted: Any) -> tuple[Any, str | None]:
    """Return a type without `Annotated`, without its name, and without what is said of it as a key of a typed dictionary,
    and its outermost description.
    """
    description = None
    while True:
        if typing.get_origin(wanted) is Annotated:
            wanted, *notes = typing.get_args(wanted)
            texts = (note if isinstance(note, str) else getattr(note, "documentation", None) for note in notes)
            description = description or next((inspect.cleandoc(text) for text in texts if isinstance(text, str)), None)
        elif typing.get_origin(wanted) in _KEY_MARKS:
            wanted = typing.get_args(wanted)[0]
        elif isinstance(wanted, _NAMED):
            wanted = getattr(wanted, "__value__", None) or wanted.__supertype__
        else:
            return wanted, description


def schema(wanted: Any, *, strict: bool = False, within: tuple[Any, ...] = ()) -> dict[str, Any]:
    """Return the JSON Schema of a type, or `{}`, which accepts anything, for an unknown type.

    `within` lists the enclosing dataclasses. Where a dataclass contains itself, the schema accepts any object;
    `decode` checks it nevertheless.
    """
    wanted, description = _without_annotations(wanted)
    found = _schema(wanted, strict, within)
    return {"description": description, **found} if description else found


def _schema(wanted: Any, strict: bool, within: tuple[Any, ...]) -> dict[str, Any]:
    """Return the JSON Schema of a type without annotations."""
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
    if is_record(wanted):
        known = members(wanted)
        within = within if isinstance(wanted, Parameters) else (*within, wanted)
        found: dict[str, Any] = {
            "type": "object",
            "properties": {name: _member_schema(member, strict, within) for name, member in known.items()},
            "required": [name for name, member in known.items() if member.required],
        }
        return {**found, "additionalProperties": False} if strict else found
    return {}


def _member_schema(member: Member, strict: bool, within: tuple[Any, ...]) -> dict[str, Any]:
    found = schema(member.type, strict=strict, within=within)
    if member.default is inspect.Parameter.empty:
        return found
    try:
        return {**found, "default": json.loads(dumps(member.default))}
    except TypeError:
        # JSON cannot represent it.
        return found


def schema_text(wanted: Any) -> str | None:
    """Return the JSON Schema of a type as text. A dictionary is taken as a schema. Returns None for None."""
    if wanted is None:
        return None
    return dumps(wanted if isinstance(wanted, dict) else schema(wanted))
