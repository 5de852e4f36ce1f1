"""DBOS: a workflow function whose steps are saved in SQLite, in write-ahead mode.

A resume runs the function again. Saved steps return their saved results.
"""

import asyncio
import json
import os
import sqlite3
import time

import sqlalchemy
from dbos import DBOS, SetWorkflowID

from common import CALLS, TEXT, Clock, die, durable, main, paid_call, tell_rounds

NAME = "w"


def prepared(directory: str, durability: str = "full") -> None:
    """Set up DBOS with a database in write-ahead mode."""
    path = f"{directory}/dbos.sqlite"
    sqlite3.connect(path).execute("PRAGMA journal_mode=WAL")
    level = "FULL" if durability == "full" else "NORMAL"

    @sqlalchemy.event.listens_for(sqlalchemy.engine.Engine, "connect")
    def set_level(connection, _record) -> None:
        connection.execute(f"PRAGMA synchronous={level}")

    DBOS(config={
        "name": "bench", "application_version": "1", "system_database_url": f"sqlite:///{path}",
        "run_admin_server": False, "log_level": "ERROR",
    })


def run(workflow, *arguments):
    with SetWorkflowID(NAME):
        return workflow(*arguments)


def chain(directory: str, steps: str, durability: str, seconds: str) -> None:
    prepared(directory, durability)
    clock = Clock(int(steps), float(seconds))

    @DBOS.step()
    def step(message: str) -> str:
        clock.tick()
        return TEXT

    @DBOS.workflow()
    def loop() -> None:
        message = "go"
        while clock.more():
            message = step(message)

    DBOS.launch()
    run(loop)
    clock.tell()
    DBOS.destroy()


def wide(directory: str, actions: str, rounds: str) -> None:
    prepared(directory)

    @DBOS.step()
    async def work(message: str) -> str:
        return TEXT

    @DBOS.step()
    async def gather(messages: list) -> str:
        return TEXT

    @DBOS.workflow()
    async def job() -> None:
        await gather(await asyncio.gather(*[work("go") for _ in range(int(actions))]))

    async def all_rounds() -> list[float]:
        times = []
        for number in range(int(rounds)):
            begun = time.perf_counter()
            with SetWorkflowID(str(number)):
                await job()
            times.append(time.perf_counter() - begun)
        return times

    DBOS.launch()
    tell_rounds(asyncio.run(all_rounds()))
    DBOS.destroy()


def stops_behind(directory: str, messages: int | None) -> None:
    """Run a workflow with a number of steps and one more. The preparation is killed before the last one."""
    prepared(directory, "process" if messages else "full")
    count = f"{directory}/count.json"

    @DBOS.step()
    def step(message: str) -> str:
        return TEXT

    @DBOS.workflow()
    def loop(steps: int) -> None:
        message = "go"
        for _ in range(steps):
            message = step(message)
        if messages:
            os._exit(0)
        step(message)
        durable()

    DBOS.launch()
    if messages:
        with open(count, "w") as file:
            json.dump(messages, file)
        run(loop, messages)
    else:
        DBOS.retrieve_workflow(NAME).get_result()
    DBOS.destroy()


def prepare(directory: str, messages: str) -> None:
    stops_behind(directory, int(messages))


def resume(directory: str) -> None:
    stops_behind(directory, None)


def cold(directory: str) -> None:
    prepared(directory)

    @DBOS.step()
    def step(message: str) -> str:
        return TEXT

    @DBOS.workflow()
    def one() -> None:
        step("go")
        durable()

    DBOS.launch()
    run(one)
    DBOS.destroy()


def calls(directory: str, url: str, shape: str, phase: str) -> None:
    prepared(directory)

    @DBOS.step()
    def one_step() -> None:
        for number in range(CALLS):
            paid_call(url, number)

    @DBOS.step()
    def each_step(number: int) -> str:
        return paid_call(url, number)

    @DBOS.workflow()
    def one() -> None:
        one_step()

    @DBOS.workflow()
    def each() -> None:
        for number in range(CALLS):
            each_step(number)

    DBOS.launch()
    if phase == "start":
        run(one if shape == "one" else each)
    else:
        DBOS.retrieve_workflow(NAME).get_result()
    durable()
    die()


main({f.__name__: f for f in (chain, wide, prepare, resume, cold, calls)})
