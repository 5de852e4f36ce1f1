"""The action that scripts run in. Its config is the host's: `{script, config}`, where `script` is `{name, text}`, or null
if the script is in the newest message, and `config` is what the team file says.

What a script may look like, and how it becomes an action, is in `script`; what it may import, in `library`; which of its lines run, in
`lines`.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import library
import lines
from script import load
from strata_action import Context, Failure, Output, Situation, Task, action, faults, planner, thinker
from strata_action.exports import Export
from strata_action.llm import Reply

faults.hide(__file__)
faults.hide(lines.__file__)


def opened(kind: str, cx: Any) -> tuple[Export, Any]:
    """What the script is marked to do, and the call as it is to see it."""
    config = cx.config["config"]
    name, text = (cx.config["script"] or written(cx)).values()
    cx = dataclasses.replace(cx, config=config)
    export = load(name, text, cx, lines.report).get(kind)
    if export is None:
        raise Failure(f"the script `{name}` marks no function with `@{kind}`")
    return export, dataclasses.replace(cx, config=export.config(config))


def written(cx: Any) -> dict[str, str]:
    """The script that came in the newest message: its first block of code, or all of it."""
    messages = cx.outputs or cx.news
    if not messages:
        raise Failure("running the script of the newest message: there is no message")
    newest = messages[-1]
    blocks = Reply(newest.content).code_blocks
    if blocks and not blocks[0].closed:
        raise Failure("running the script of the newest message: its block of code has no closing fence")
    return {"name": f"{newest.cause_by}.py", "text": blocks[0].text if blocks else newest.content}


@action
def run(cx: Context) -> Output:
    export, cx = opened("action", cx)
    return export.act(cx)


@planner
def plan(cx: Context) -> list[Task]:
    export, cx = opened("planner", cx)
    return export.plan(cx)


@thinker
def choose(situation: Situation) -> int:
    export, situation = opened("thinker", situation)
    return export.choose(situation)
