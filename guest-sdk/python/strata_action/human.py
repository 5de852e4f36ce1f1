"""Questions to people. They need no grant.

    answer = human.ask("What shall become of the release?", choices=["ship it", "hold it"])

The attempt ends at the question. When it is answered, the action is run again and gets the recorded results of its
earlier host calls. What it computes before the question must give the same result each time.
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
    """A question to a person."""

    text: str
    """The question, in plain text."""
    schema: Any = None
    """The type of the answer, or its JSON Schema as a dictionary. None accepts any answer."""
    choices: Iterable[str] = ()
    """The allowed answers, at most 100. If it is empty, any answer is allowed."""
    expires: float | timedelta | None = None
    """The time limit, in seconds. None means that the question does not expire."""
    default: Any = None
    """The answer to use when the question expires."""

    def ask(self) -> Answer:
        """Ask the question, and return the answer.

        Raises Expired if the question expires without a default, and Invalid if no answer could be valid.
        """
        expires = self.expires.total_seconds() if isinstance(self.expires, timedelta) else self.expires
        value, by_default = current().ask(
            self.text,
            typed.schema_text(self.schema),
            self.choices,
            # Rounded up, so that less than a second does not become 0.
            None if expires is None else math.ceil(expires),
            None if self.default is None else typed.dumps(self.default),
        )
        return Answer(json.loads(value), by_default)


@dataclass
class Answer:
    """The answer to a question."""

    value: Any
    """The answer, as `json.loads` returns it. It matches the schema and is one of the choices."""
    by_default: bool = False
    """Whether the question expired, and this is its default."""

    def parse(self, wanted: type[T]) -> T:
        """Return the answer as a value of `wanted`: a dataclass or another type.

        Raises ValueError if it does not match the type.
        """
        return typed.decode(wanted, self.value, "the answer")


def ask(
    text: str,
    *,
    schema: Any = None,
    choices: Iterable[str] = (),
    expires: float | timedelta | None = None,
    default: Any = None,
) -> Answer:
    """Ask a question. The arguments are the fields of `Question`; the errors are those of `Question.ask`."""
    return Question(text, schema, choices, expires, default).ask()
