"""LangGraph: a graph over a list of messages, saved by `PostgresSaver` before each next step."""

import operator
from typing import Annotated, TypedDict

from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.graph import END, START, StateGraph

from common import TEXT, Clock, main

SECONDS = 60.0


class State(TypedDict):
    messages: Annotated[list, operator.add]


def chain(directory: str, steps: str, url: str) -> None:
    clock = Clock(int(steps), SECONDS)

    def node(state: State):
        clock.tick()
        return {"messages": [TEXT]}

    with PostgresSaver.from_conn_string(url) as saver:
        saver.setup()
        graph = StateGraph(State)
        graph.add_node("a", node)
        graph.add_edge(START, "a")
        graph.add_conditional_edges("a", lambda _: "a" if clock.more() else END, ["a", END])
        config = {"configurable": {"thread_id": directory}, "recursion_limit": clock.steps + 10}
        graph.compile(checkpointer=saver).invoke({"messages": ["go"]}, config, durability="sync")
    clock.tell()


main({"chain": chain})
