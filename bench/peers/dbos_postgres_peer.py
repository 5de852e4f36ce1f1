"""DBOS: a workflow function whose steps are saved in PostgreSQL."""

import sys

from dbos import DBOS, SetWorkflowID

from common import TEXT, Clock, main

SECONDS = 60.0


def chain(directory: str, steps: str, url: str) -> None:
    clock = Clock(int(steps), SECONDS)
    DBOS(config={
        "name": "bench", "application_version": "1", "run_admin_server": False, "log_level": "ERROR",
        "system_database_url": url.replace("postgres://", "postgresql+psycopg://").replace("/postgres?", "/dbos?"),
    })

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
    with SetWorkflowID(directory):
        loop()
    clock.tell()
    DBOS.destroy()


sys.stdout.reconfigure(line_buffering=True)
main({"chain": chain})
