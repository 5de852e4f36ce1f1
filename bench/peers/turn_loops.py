"""Agents whose model calls a tool in each turn: `turn_loops.py FRAMEWORK WHAT DIR URL TURNS`.

`loop` makes the turns and prints the time of one, the most memory, and the bytes on disk; `start` and `resume` are a job
that is killed in between and begun again in the way that the documentation of the framework advises.
"""

import asyncio
import json
import resource
import sqlite3
import sys
import time
from pathlib import Path

QUESTION = "note everything"
calls = 0


def noted(text: str) -> str:
    global calls
    calls += 1
    return json.dumps({"text": text})


def langgraph(directory: Path, url: str, turns: int, again: bool):
    """The prebuilt agent with `SqliteSaver`, which writes a checkpoint after each step before the next begins."""
    from langchain_openai import ChatOpenAI
    from langgraph.checkpoint.sqlite import SqliteSaver
    from langgraph.prebuilt import create_react_agent

    def note(text: str) -> str:
        """Notes a text."""
        return noted(text)

    model = ChatOpenAI(base_url=f"{url}/v1", api_key="none", model="m", max_retries=0)
    connection = sqlite3.connect(directory / "graph.sqlite", check_same_thread=False)
    connection.execute("PRAGMA synchronous=FULL")
    agent = create_react_agent(model, [note], checkpointer=SqliteSaver(connection))
    config = {"configurable": {"thread_id": "1"}, "recursion_limit": 2 * turns + 10}
    asked = None if again else {"messages": [("user", QUESTION)]}
    return lambda: agent.invoke(asked, config, durability="sync")["messages"][-1].content


def pydantic_ai(directory: Path, url: str, turns: int, again: bool):
    """An agent as it is. Nothing is stored, so the job begins again."""
    from pydantic_ai import Agent
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider
    from pydantic_ai.usage import UsageLimits

    agent = Agent(OpenAIChatModel("m", provider=OpenAIProvider(base_url=f"{url}/v1", api_key="none")))

    @agent.tool_plain
    def note(text: str) -> str:
        """Notes a text."""
        return noted(text)

    return lambda: agent.run_sync(QUESTION, usage_limits=UsageLimits(request_limit=turns + 10)).output


def openai_agents(directory: Path, url: str, turns: int, again: bool, session=None):
    """An agent as it is. Nothing is stored, so the job begins again."""
    from agents import Agent, OpenAIChatCompletionsModel, Runner, function_tool, set_tracing_disabled
    from openai import AsyncOpenAI

    set_tracing_disabled(True)

    @function_tool
    def note(text: str) -> str:
        """Notes a text."""
        return noted(text)

    model = OpenAIChatCompletionsModel("m", AsyncOpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0))
    agent = Agent(name="Noter", model=model, tools=[note])

    async def run() -> str:
        result = await Runner.run(agent, QUESTION, max_turns=turns + 10, session=session)
        return result.final_output

    return lambda: asyncio.run(run())


def openai_agents_session(directory: Path, url: str, turns: int, again: bool):
    """The same with `SQLiteSession`, which keeps the conversation. The job is asked again in the same session."""
    from agents import SQLiteSession

    return openai_agents(directory, url, turns, again, SQLiteSession("1", directory / "session.sqlite"))


FRAMEWORKS = {"langgraph": langgraph, "pydantic-ai": pydantic_ai, "openai-agents": openai_agents,
              "openai-agents-session": openai_agents_session}


def bytes_on_disk(directory: Path) -> int:
    return sum(file.stat().st_size for file in directory.rglob("*") if file.is_file())


def main() -> None:
    framework, what, place, url, turns = sys.argv[1:]
    directory = Path(place)
    create = FRAMEWORKS[framework]
    if what in ("start", "resume"):
        answer = create(directory, f"{url}/{turns}", int(turns), what == "resume")()
        assert answer == "done", answer
        return
    for name, count in (("first", 1), ("measured", int(turns))):
        at = directory / name
        at.mkdir()
        work = create(at, f"{url}/{count}", count, False)
        before, begun = calls, time.perf_counter()
        answer = work()
        seconds = time.perf_counter() - begun
        assert answer == "done" and calls - before == count, (answer, calls - before)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"us": seconds / int(turns) * 1e6, "peak_mib": peak, "bytes": bytes_on_disk(at)}))


main()
