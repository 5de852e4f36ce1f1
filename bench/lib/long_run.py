"""The rows of a very long run, which show what grows with it."""

import sys

from .host import DONE, ROLES
from .measure import Failed, run
from .rows import Bench
from .table import Row, ratio, time

MESSAGES = 1_000_000
TIMEOUT_S = 3600
MAX_COMMAND_MIB = 150
"""The goal for the memory of a command that shows a run of any length."""


def long_run(bench: Bench) -> list[Row]:
    """Return the rows of a run of a million messages, or of a few thousand in quick mode."""
    messages = bench.few(MESSAGES, 4000)
    host, place = bench.host, bench.place()
    storage = place / "store"
    first = messages // 10
    team = host.team(place, "process", ROLES)
    begun = host.run(team, storage, first)
    ended = host.resume(storage, messages, timeout_s=TIMEOUT_S)
    early, late = begun.seconds / first, ended.seconds / (messages - first)
    over = late / early
    resumed = host.resume(storage, messages + 1, DONE)
    name = f"{messages:,} messages"
    rows = [
        Row(f"{name}: a mean step of the last nine tenths of the run compared with the first, start and end included",
            f"{ratio(over)} ({time(early * 1e6)} → {time(late * 1e6)}), {ended.peak_mib:.0f} MiB", "≤ 1.2×", over <= 1.2),
        Row(f"{name}: resume, from exec to the next durable action",
            f"{time(resumed.seconds * 1e6)}, {resumed.peak_mib:.0f} MiB"),
    ]
    oldest = storage_checkpoint(bench, storage)
    commands = {
        "inspect": ["inspect", storage],
        "inspect --json": ["inspect", storage, "--json"],
        "inspect of an old checkpoint": ["inspect", f"{storage}@{oldest}"],
        "events": ["events", storage],
        "report": ["report", storage, "-o", place / "report.html"],
    }
    for what, words in commands.items():
        rows.append(command_row(f"{name}: `{what}`", [host.program, *words]))
    return rows


def storage_checkpoint(bench: Bench, storage) -> str:
    """Return a checkpoint from the beginning of the run."""
    lineage = run([bench.host.program, "inspect", storage]).lines
    named = [line.split() for line in lineage if line.startswith("step")]
    newest = named[0][named[0].index("checkpoint") + 1]
    return f"{newest.rsplit('-', 1)[0]}-100"


def command_row(what: str, command: list) -> Row:
    """Measure a command whose output is read and thrown away."""
    # The output may be larger than the memory, so a shell discards it.
    words = ["sh", "-c", 'exec "$@" > /dev/null', "sh", *command]
    try:
        ended = run(words, timeout_s=TIMEOUT_S)
    except Failed as error:
        print(f"bench: {what}: {error}", file=sys.stderr)
        return Row(what, f"failed: {error}")
    return Row(what, f"{time(ended.seconds * 1e6)}, {ended.peak_mib:.0f} MiB", f"≤ {MAX_COMMAND_MIB} MiB",
               ended.peak_mib <= MAX_COMMAND_MIB)
