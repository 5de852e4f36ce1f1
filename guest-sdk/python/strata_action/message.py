"""The vocabulary of messages: what an action is told, and what it returns."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from . import _border, typed
from .media import Media

T = TypeVar("T")


@dataclass
class Hop:
    """One leg of an itinerary: after `from_` has handled the message, its output goes to each name in `to`."""

    from_: str
    to: list[str]

    def __post_init__(self) -> None:
        _border.fields(self, from_=_border.text, to=_border.texts)


@dataclass
class Message:
    """A message as a role sees it in its mailbox or memory."""

    content: str
    """The text."""
    cause_by: str = "UserRequirement"
    """The label: the name of the action that produced it, `UserRequirement` for the idea."""
    data: Any = None
    """Structured content, as JSON gives it; none where the sender attached none."""
    sent_from: str = ""
    """The name of the sending role; empty when it came from outside the team."""
    send_to: list[str] = field(default_factory=list)
    """The recipients the sender named; `<all>` for a broadcast."""
    id: str = ""
    """Unique within the run."""
    parts: list[Media] = field(default_factory=list)
    """Images and files that belong to it, in order."""

    def parse(self, wanted: type[T]) -> T:
        """The data as a dataclass or another type."""
        if self.data is None:
            raise ValueError(f"reading the data of message `{self.cause_by}`: it carries none")
        return typed.decode(wanted, self.data, f"the data of message `{self.cause_by}`")


@dataclass
class Profile:
    """Who is acting, as written in the team file. Absent texts are empty."""

    name: str = "Role"
    profile: str = ""
    goal: str = ""
    constraints: str = ""
    desc: str = ""

    def persona(self) -> str:
        """It in the words of a system prompt."""
        text = f"You are {self.name}"
        if self.profile and self.profile != self.name:
            text += f", {self.profile}"
        parts = [("", self.desc), ("Your goal: ", self.goal), ("Your constraints: ", self.constraints)]
        return text + "." + "".join(f" {lead}{part.rstrip('.')}." for lead, part in parts if part)


@dataclass
class Task:
    """One piece of planned work: what is to be done, and the action that shall do it; none takes them in turn."""

    text: str
    action: str | None = None

    def __post_init__(self) -> None:
        _border.fields(self, text=_border.text, action=_border.optional(_border.text))


@dataclass
class Attempt:
    """What tells one try of a call from another."""

    number: int = 1
    """Counts tries of this call from 1, across resumes of the run."""
    idempotency_key: str = "run/0/Role/0"
    """The same in all attempts of the call; pass it on to services that remove duplicates by key."""
    turn: int | None = None
    """For a tool call, the number of the model's reply that asks for it, from 0 in each activation."""
    call: int | None = None
    """For a tool call, its position in that reply, from 0."""
    deadline: float | None = None
    """When the time of this attempt is over, in seconds since 1970; none if it has no such limit."""


@dataclass
class Output(Generic[T]):
    """What an action returns."""

    content: str
    """The text."""
    data: T | None = None
    """Structured content: a dataclass, or what JSON can hold."""
    to: list[str] = field(default_factory=list)
    """Explicit recipients; empty leaves the choice to the environment."""
    route: list[Hop] = field(default_factory=list)
    """An itinerary that travels with the message."""
    parts: list[Media] = field(default_factory=list)
    """Images and files, in order."""

    def __post_init__(self) -> None:
        _border.fields(
            self, content=_border.text, to=_border.texts, route=_border.route, parts=_border.media_list
        )
