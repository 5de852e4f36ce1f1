"""Answers the incoming messages as its `instruction` says.

A model may read the first paragraph to choose the action.
"""

from dataclasses import dataclass

from strata_action import Context, Output, action, llm


@dataclass
class Config:
    """The `config` of the team file."""

    instruction: str


@dataclass
class Answer:
    """The structured content of the output."""

    words: int


@action(needs=["llm"])
def respond(cx: Context[Config]) -> Output[Answer]:
    reply = llm.ask(f"{cx.config.instruction}\n\n{cx.text}", system=cx.persona)
    return Output(reply.text, data=Answer(words=len(reply.text.split())))
