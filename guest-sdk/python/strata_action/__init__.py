"""The SDK for actions of strata-host in Python.

    from dataclasses import dataclass
    from strata_action import Context, Output, action, llm

    @dataclass
    class Config:
        language: str = "English"

    @dataclass
    class Greeting:
        letters: int

    @action
    def greet(cx: Context[Config]) -> Output[Greeting]:
        reply = llm.ask(f"Greet in {cx.config.language}: {cx.text}")
        return Output(reply.text, data=Greeting(len(reply.text)))

`strata-host build` compiles the module to a WebAssembly component. `strata_action.testing` runs it in plain Python.

The decorators `action`, `thinker` and `planner` mark the functions of an author, which receive a `Context` or a
`Situation`. The modules `llm`, `http`, `state`, `memory`, `media`, `environment`, `files`, `human`, `mcp`, `tools`, `secrets`,
`env`, `clock`, `random` and `log` contain the functions of the host. Errors are exceptions, which are defined in `errors`.
"""

from . import clock, env, environment, files, http, human, llm, log, mcp, media, memory, random, secrets, state, tools
from .context import Candidate, Context, Situation
from .errors import Denied, Expired, Failed, Failure, HostError, Invalid, NotFound, OutOfBudget, Retryable, Upstream
from .exports import action, planner, thinker
from .media import File, Image
from .message import Attempt, Hop, Message, Output, Profile, Task

__all__ = [
    "Attempt", "Candidate", "Context", "Denied", "Expired", "Failed", "Failure", "File", "Hop", "HostError", "Image", "Invalid",
    "Message", "NotFound", "OutOfBudget", "Output", "Profile", "Retryable", "Situation", "Task", "Upstream",
    "action", "clock", "env", "environment", "files", "http", "human", "llm", "log", "mcp", "media", "memory", "planner",
    "random", "secrets", "state", "thinker", "tools",
]
