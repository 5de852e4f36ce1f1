"""What an action, a planner or a thinker is told about its call."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from .message import Attempt, Message, Profile, Task

C = TypeVar("C")
T = TypeVar("T")


@dataclass
class Context(Generic[C]):
    """Everything a call is about. Apart from `attempt` it is the same in every attempt of the same call."""

    config: C
    """The action's `config` from the team file: of the type the function's annotation names."""
    news: list[Message] = field(default_factory=list)
    """The messages this activation handles, oldest first."""
    outputs: list[Message] = field(default_factory=list)
    """What earlier actions of this activation returned, oldest first."""
    role: Profile = field(default_factory=Profile)
    """The acting role."""
    action: str = "Action"
    """The action's name in the team file."""
    index: int = 0
    """The action's index in its role, from 0."""
    task: Task | None = None
    """The planned task this call carries out, in `plan_and_act` roles."""
    attempt: Attempt = field(default_factory=Attempt)
    """Which try this is."""
    arguments: Any = None
    """The arguments of a tool call, as JSON gives them; none where the action is not called as a tool."""

    @property
    def newest(self) -> Message | None:
        """What came last: the newest output of this activation, else the newest news."""
        messages = self.outputs or self.news
        return messages[-1] if messages else None

    @property
    def text(self) -> str:
        """The text to work upon: the newest output of this activation, else all news."""
        if self.outputs:
            return self.outputs[-1].content
        return "\n\n".join(message.content for message in self.news)

    def labelled(self, cause_by: str) -> Message | None:
        """The newest message with this label."""
        newest_first = [*reversed(self.outputs), *reversed(self.news)]
        return next((message for message in newest_first if message.cause_by == cause_by), None)

    def data(self, wanted: type[T]) -> T:
        """The newest message's data as a dataclass or another type."""
        if self.newest is None:
            raise ValueError("reading data: the activation handles no message")
        return self.newest.parse(wanted)

    @property
    def persona(self) -> str:
        """The role in the words of a system prompt."""
        return self.role.persona()

    @property
    def briefing(self) -> str:
        """Task, news and outputs as one text for a model, each under the label and the name it comes from."""
        parts = [f"# Task\n\n{self.task.text.strip()}"] if self.task else []
        for message in [*self.news, *self.outputs]:
            sender = f", by {message.sent_from}" if message.sent_from else ""
            parts.append(f"# {message.cause_by}{sender}\n\n{message.content.strip()}")
        return "\n\n".join(parts)


@dataclass
class Candidate:
    """An action to choose from, with the description its manifest gives."""

    name: str
    description: str = ""


@dataclass
class Situation(Generic[C]):
    """What is known when a `react` role chooses its next action."""

    config: C
    """The `config` of the role's `think` entry."""
    candidates: list[Candidate] = field(default_factory=list)
    """The role's actions, by index."""
    round: int = 0
    """How many choices were made in this activation before this one."""
    news: list[Message] = field(default_factory=list)
    """The messages this activation handles, oldest first."""
    outputs: list[Message] = field(default_factory=list)
    """What the actions chosen so far returned, oldest first."""
    role: Profile = field(default_factory=Profile)
    """The choosing role."""
    attempt: Attempt = field(default_factory=Attempt)
    """Which try this is."""

    @property
    def persona(self) -> str:
        """The role in the words of a system prompt."""
        return self.role.persona()
