"""LangGraph: a graph over a list of messages, saved by `SqliteSaver` (write-ahead log) before each next step."""

import operator
import sqlite3
import time
from typing import Annotated, TypedDict

from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Send

from common import CALLS, TEXT, Clock, durable, main, paid_call, tell_rounds


class State(TypedDict):
    messages: Annotated[list, operator.add]


def saver(directory: str, durability: str = "full") -> SqliteSaver:
    connection = sqlite3.connect(f"{directory}/graph.sqlite", check_same_thread=False)
    connection.execute(f"PRAGMA synchronous={'FULL' if durability == 'full' else 'NORMAL'}")
    return SqliteSaver(connection)


def looped(node, more, checkpointer, **options):
    """Return a graph of one node that runs again while `more` is true."""
    graph = StateGraph(State)
    graph.add_node("a", node)
    graph.add_edge(START, "a")
    graph.add_conditional_edges("a", lambda state: "a" if more(state) else END, ["a", END])
    return graph.compile(checkpointer=checkpointer, **options)


def config(steps: int, thread: str = "1") -> dict:
    return {"configurable": {"thread_id": thread}, "recursion_limit": steps + 10}


def chain(directory: str, steps: str, durability: str, seconds: str) -> None:
    clock = Clock(int(steps), float(seconds))

    def node(state: State):
        clock.tick()
        return {"messages": [TEXT]}

    graph = looped(node, lambda _: clock.more(), saver(directory, durability))
    graph.invoke({"messages": ["go"]}, config(clock.steps), durability="sync")
    clock.tell()


def wide(directory: str, actions: str, rounds: str) -> None:
    graph = StateGraph(State)
    graph.add_node("start", lambda state: {"messages": []})
    graph.add_node("work", lambda state: {"messages": [TEXT]})
    graph.add_node("gather", lambda state: {"messages": [TEXT]})
    graph.add_edge(START, "start")
    graph.add_conditional_edges("start", lambda state: [Send("work", {}) for _ in range(int(actions))], ["work"])
    graph.add_edge("work", "gather")
    graph.add_edge("gather", END)
    compiled, times = graph.compile(checkpointer=saver(directory)), []
    for number in range(int(rounds)):
        begun = time.perf_counter()
        compiled.invoke({"messages": ["go"]}, config(10, str(number)), durability="sync")
        times.append(time.perf_counter() - begun)
    tell_rounds(times)


def prepare(directory: str, messages: str) -> None:
    """Prepare a run with many messages that can be resumed. The messages are added at once."""
    graph = looped(lambda state: {"messages": [TEXT]}, lambda _: False, saver(directory), interrupt_before=["a"])
    graph.invoke({"messages": [TEXT for _ in range(int(messages))]}, config(10), durability="sync")


def resume(directory: str) -> None:
    graph = looped(lambda state: {"messages": [TEXT]}, lambda _: False, saver(directory))
    graph.invoke(None, config(10), durability="sync")
    durable()


def cold(directory: str) -> None:
    graph = looped(lambda state: {"messages": [TEXT]}, lambda _: False, saver(directory))
    graph.invoke({"messages": ["go"]}, config(10), durability="sync")
    durable()


def calls(directory: str, url: str, shape: str, phase: str) -> None:
    def one(state: State):
        return {"messages": [paid_call(url, number) for number in range(CALLS)]}

    def each(state: State):
        return {"messages": [paid_call(url, len(state["messages"]) - 1)]}

    node = one if shape == "one" else each
    graph = looped(node, lambda state: len(state["messages"]) <= CALLS, saver(directory))
    graph.invoke({"messages": ["go"]} if phase == "start" else None, config(20), durability="sync")
    durable()


main({f.__name__: f for f in (chain, wide, prepare, resume, cold, calls)})
