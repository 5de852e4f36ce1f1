"""The parameters of actions, planners and thinkers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from .message import Attempt, Message, Profile, Task

C = TypeVar("C")
T = TypeVar("T")


@dataclass
class Context(Generic[C]):
    """The input of an action or a planner. Except for `attempt`, it is the same in all attempts of a call."""

    config: C
    """The action's `config` from the team file, as the type `C` of the annotation `Context[C]`."""
    news: list[Message] = field(default_factory=list)
    """The messages that this activation handles, oldest first."""
    outputs: list[Message] = field(default_factory=list)
    """The outputs of earlier actions of this activation, oldest first."""
    role: Profile = field(default_factory=Profile)
    """The profile of the acting role."""
    action: str = "Action"
    """The name of the action in the team file."""
    index: int = 0
    """The index of the action in its role, from 0."""
    task: Task | None = None
    """The task that this call carries out, in roles with `react = "plan_and_act"`; otherwise None."""
    attempt: Attempt = field(default_factory=Attempt)
    """The current attempt."""
    arguments: Any = None
    """The arguments of a tool call, as `json.loads` returns them; None if the action is not called as a tool."""

    @property
    def newest(self) -> Message | None:
        """The newest output of this activation, or else the newest of `news`. None if there is neither."""
        messages = self.outputs or self.news
        return messages[-1] if messages else None

    @property
    def text(self) -> str:
        """The content of the newest output of this activation, or else of all `news`, separated by empty lines."""
        if self.outputs:
            return self.outputs[-1].content
        return "\n\n".join(message.content for message in self.news)

    def labelled(self, cause_by: str) -> Message | None:
        """Return the newest message whose `cause_by` is this label, or None."""
        newest_first = [*reversed(self.outputs), *reversed(self.news)]
        return next((message for message in newest_first if message.cause_by == cause_by), None)

    def data(self, wanted: type[T]) -> T:
        """Return the data of the newest message as a value of `wanted`: a dataclass or another type.

        Raises ValueError if there is no message, it has no data, or its data does not match the type.
        """
        if self.newest is None:
            raise ValueError("reading data: the activation handles no message")
        return self.newest.parse(wanted)

    @property
    def persona(self) -> str:
        """The profile of the role as the text of a system prompt."""
        return self.role.persona()

    @property
    def briefing(self) -> str:
        """The task, the news and the outputs as one text for a model.

        The heading of each message contains its label and its sender.
        """
        parts = [f"# Task\n\n{self.task.text.strip()}"] if self.task else []
        for message in [*self.news, *self.outputs]:
            sender = f", by {message.sent_from}" if message.sent_from else ""
            parts.append(f"# {message.cause_by}{sender}\n\n{message.content.strip()}")
        return "\n\n".join(parts)


@dataclass
class Candidate:
    """An action that a thinker can choose."""

    name: str
    """The name of the action."""
    description: str = ""
    """The description in its manifest; empty if it has none."""


@dataclass
class Situation(Generic[C]):
    """The input of a thinker, which chooses the next action of a role with `react = "react"`."""

    config: C
    """The `config` of the role's `think` entry."""
    candidates: list[Candidate] = field(default_factory=list)
    """The actions of the role, in order. A thinker returns an index into this list."""
    round: int = 0
    """The number of choices made earlier in this activation."""
    news: list[Message] = field(default_factory=list)
    """The messages that this activation handles, oldest first."""
    outputs: list[Message] = field(default_factory=list)
    """The outputs of the actions chosen so far, oldest first."""
    role: Profile = field(default_factory=Profile)
    """The profile of the role."""
    attempt: Attempt = field(default_factory=Attempt)
    """The current attempt."""

    @property
    def persona(self) -> str:
        """The profile of the role as the text of a system prompt."""
        return self.role.persona()
