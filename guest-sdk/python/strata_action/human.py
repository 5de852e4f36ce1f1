"""People. Asking them needs no grant.

    answer = human.ask("What shall become of the release?", choices=["ship it", "hold it"])

A call that asks ends there and is made again once there is an answer: what it got from the host before is served
again, and what it does by itself before the question must come out the same.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

from . import typed
from ._host import current

T = TypeVar("T")


@dataclass
class Question:
    """What a person is asked."""

    text: str
    """The question, in plain text."""
    schema: Any = None
    """What the answer must be: a type, or a JSON Schema as a dictionary; none takes any answer."""
    choices: Iterable[str] = ()
    """Texts one of which must be the answer; empty does not restrict it."""
    expires: float | timedelta | None = None
    """How many seconds there are for an answer; none waits for ever."""
    default: Any = None
    """The answer that is taken when the time is over."""

    def ask(self) -> Answer:
        """Asks, and returns with the answer. Raises Expired if nobody answered in time and there is no default."""
        expires = self.expires.total_seconds() if isinstance(self.expires, timedelta) else self.expires
        value, by_default = current().ask(
            self.text,
            typed.schema_text(self.schema),
            self.choices,
            # A part of a second is not no time at all.
            None if expires is None else math.ceil(expires),
            None if self.default is None else typed.dumps(self.default),
        )
        return Answer(json.loads(value), by_default)


@dataclass
class Answer:
    """An answer."""

    value: Any
    """What the schema asks for, or one of the choices."""
    by_default: bool = False
    """Whether nobody answered in time, and the question's default stands in."""

    def parse(self, wanted: type[T]) -> T:
        """The answer as a dataclass or another type."""
        return typed.decode(wanted, self.value, "the answer")


def ask(
    text: str,
    *,
    schema: Any = None,
    choices: Iterable[str] = (),
    expires: float | timedelta | None = None,
    default: Any = None,
) -> Answer:
    """Asks a question; the arguments are the fields of `Question`. Raises Expired."""
    return Question(text, schema, choices, expires, default).ask()
