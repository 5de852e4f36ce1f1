"""Microsoft Agent Framework: a workflow whose executor keeps its messages, saved by `FileCheckpointStorage`.

It writes files and renames them without syncing. Saved state survives the end of the process, but not a power loss.
"""

import asyncio
import time

from agent_framework import Executor, FileCheckpointStorage, WorkflowBuilder, WorkflowContext, handler

from common import CALLS, TEXT, Clock, durable, main, paid_call, tell_rounds


class Keeper(Executor):
    """An executor that runs again while `more` is true, and keeps the messages that `say` returns."""

    def __init__(self, say, more):
        super().__init__(id="keeper")
        self.messages, self.say, self.more = [], say, more

    @handler
    async def on(self, message: str, ctx: WorkflowContext[str, str]) -> None:
        self.messages += self.say(self)
        if self.more(self):
            await ctx.send_message(self.messages[-1])
        else:
            await ctx.yield_output(self.messages[-1])

    async def on_checkpoint_save(self) -> dict:
        return {"messages": self.messages}

    async def on_checkpoint_restore(self, state: dict) -> None:
        self.messages = state["messages"]


def looped(directory: str, say, more, steps: int = 100):
    keeper = Keeper(say, more)
    storage = FileCheckpointStorage(directory)
    builder = WorkflowBuilder(
        start_executor=keeper, name="bench", checkpoint_storage=storage, max_iterations=steps + 10, output_from=[keeper]
    )
    return builder.add_edge(keeper, keeper).build(), storage


async def go_on(workflow, storage) -> None:
    newest = await storage.get_latest(workflow_name="bench")
    await workflow.run(checkpoint_id=newest.checkpoint_id)


def chain(directory: str, steps: str, durability: str, seconds: str) -> None:
    clock = Clock(int(steps), float(seconds))

    def say(keeper: Keeper) -> list:
        clock.tick()
        return [TEXT]

    workflow, _ = looped(directory, say, lambda _: clock.more(), clock.steps)
    asyncio.run(workflow.run("go"))
    clock.tell()


class Source(Executor):
    @handler
    async def on(self, message: str, ctx: WorkflowContext[str]) -> None:
        await ctx.send_message(message)


class Worker(Executor):
    @handler
    async def on(self, message: str, ctx: WorkflowContext[str]) -> None:
        await ctx.send_message(TEXT)


class Gatherer(Executor):
    @handler
    async def on(self, messages: list[str], ctx: WorkflowContext[None, str]) -> None:
        await ctx.yield_output(TEXT)


def wide(directory: str, actions: str, rounds: str) -> None:
    times = []
    for number in range(int(rounds)):
        source, gatherer = Source(id="source"), Gatherer(id="gatherer")
        workers = [Worker(id=f"worker-{n}") for n in range(int(actions))]
        storage = FileCheckpointStorage(f"{directory}/{number}")
        builder = WorkflowBuilder(start_executor=source, checkpoint_storage=storage, output_from=[gatherer])
        workflow = builder.add_fan_out_edges(source, workers).add_fan_in_edges(workers, gatherer).build()
        begun = time.perf_counter()
        asyncio.run(workflow.run("go"))
        times.append(time.perf_counter() - begun)
    tell_rounds(times)


def prepare(directory: str, messages: str) -> None:
    """Prepare a run with many messages that can be resumed. The messages are added at once."""

    def say(keeper: Keeper) -> list:
        if keeper.messages:
            raise InterruptedError("stands here")
        return [TEXT for _ in range(int(messages))]

    workflow, _ = looped(directory, say, lambda _: True)
    try:
        asyncio.run(workflow.run("go"))
    except InterruptedError:
        pass


def resume(directory: str) -> None:
    asyncio.run(go_on(*looped(directory, lambda _: [TEXT], lambda _: False)))
    durable()


def cold(directory: str) -> None:
    workflow, _ = looped(directory, lambda _: [TEXT], lambda _: False)
    asyncio.run(workflow.run("go"))
    durable()


def calls(directory: str, url: str, shape: str, phase: str) -> None:
    def one(keeper: Keeper) -> list:
        return [paid_call(url, number) for number in range(CALLS)]

    def each(keeper: Keeper) -> list:
        return [paid_call(url, len(keeper.messages))]

    def more(keeper: Keeper) -> bool:
        return len(keeper.messages) < CALLS

    workflow, storage = looped(directory, one if shape == "one" else each, more)
    asyncio.run(workflow.run("go") if phase == "start" else go_on(workflow, storage))
    durable()


main({f.__name__: f for f in (chain, wide, prepare, resume, cold, calls)})
