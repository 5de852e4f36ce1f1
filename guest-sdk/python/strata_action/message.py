"""Messages, profiles, tasks and attempts, as an action receives them, and the output that it returns."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from . import _validate, typed
from .media import Media

T = TypeVar("T")


@dataclass
class Hop:
    """One stage of an itinerary: when `from_` has handled the message, its output is sent to each name in `to`."""

    from_: str
    """The name of the role that handles the message."""
    to: list[str]
    """The recipients of that role's output."""

    def __post_init__(self) -> None:
        _validate.check_fields(self, from_=_validate.string, to=_validate.strings)


@dataclass
class Message:
    """A message in a role's mailbox or memory."""

    content: str
    """The text."""
    cause_by: str = "UserRequirement"
    """The label: the name of the action that produced it, or `UserRequirement` for the idea."""
    data: Any = None
    """The structured content, as `json.loads` returns it, or None."""
    sent_from: str = ""
    """The name of the sending role; empty if the message comes from outside the team."""
    send_to: list[str] = field(default_factory=list)
    """The recipients that the sender named; `<all>` for a broadcast."""
    id: str = ""
    """The id, which is unique within the run."""
    parts: list[Media] = field(default_factory=list)
    """The images and files of the message, in order."""

    def parse(self, wanted: type[T]) -> T:
        """Return the data as a value of `wanted`: a dataclass or another type.

        Raises ValueError if the message has no data or its data does not match the type.
        """
        if self.data is None:
            raise ValueError(f"reading the data of message `{self.cause_by}`: it has none")
        return typed.decode(wanted, self.data, f"the data of message `{self.cause_by}`")


@dataclass
class Profile:
    """The description of a role in the team file. Texts that the file omits are empty."""

    name: str = "Role"
    profile: str = ""
    goal: str = ""
    constraints: str = ""
    desc: str = ""

    def persona(self) -> str:
        """Return the profile as the text of a system prompt."""
        text = f"You are {self.name}"
        if self.profile and self.profile != self.name:
            text += f", {self.profile}"
        parts = [("", self.desc), ("Your goal: ", self.goal), ("Your constraints: ", self.constraints)]
        return text + "." + "".join(f" {lead}{part.rstrip('.')}." for lead, part in parts if part)


@dataclass
class Task:
    """A task of a plan."""

    text: str
    """What is to be done."""
    action: str | None = None
    """The name of the action that carries it out. With None, the host assigns the
    role's actions except the first in turn."""

    def __post_init__(self) -> None:
        _validate.check_fields(self, text=_validate.string, action=_validate.optional(_validate.string))


@dataclass
class Attempt:
    """The attempt of a call that is being made."""

    number: int = 1
    """The number of the attempt, from 1. It keeps counting when the run is resumed."""
    idempotency_key: str = "run/0/Role/0"
    """A key that is the same in all attempts of the call, for services that remove duplicates by a key."""
    turn: int | None = None
    """For a tool call, the index of the model's reply in this activation, from 0; otherwise None."""
    call: int | None = None
    """For a tool call, its index in that reply, from 0; otherwise None."""
    deadline: float | None = None
    """The time at which this attempt is stopped, in seconds since 1970; None if it has no time limit."""


class _Unnamed(list[str]):
    """The recipients of an output that names none. Names can be added."""


def _named(to: Any, where: str) -> list[str]:
    """Check recipients. Whether they are those of an output that names none stays known."""
    named = _validate.strings(to, where)
    return _Unnamed(named) if isinstance(to, _Unnamed) else named


def recipients(to: Any) -> Any:
    """Return recipients as the host knows them, for which an empty list means that none are named."""
    if to is None:
        return []
    is_empty = isinstance(to, Collection) and not isinstance(to, (str, _Unnamed)) and not to
    return ["<nobody>"] if is_empty else to


@dataclass
class Output(Generic[T]):
    """The output of an action. Raises TypeError if a field has the wrong type."""

    content: str = ""
    """The text."""
    data: T | None = None
    """The structured content: a dataclass, or any value that JSON can represent."""
    to: list[str] = field(default_factory=_Unnamed)
    """The recipients. If it is absent, routes and watched labels decide; if it is empty, nobody receives the output."""
    route: list[Hop] = field(default_factory=list)
    """An itinerary that travels with the message."""
    parts: list[Media] = field(default_factory=list)
    """The images and files of the output, in order."""

    def __post_init__(self) -> None:
        _validate.check_fields(
            self, content=_validate.string, to=_named, route=_validate.route,
            parts=_validate.media_list,
        )
