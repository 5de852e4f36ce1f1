"""What the peers' programs have in common: the messages, the times, the paid calls. Each peer's own code is in its file.

A peer is called as `PEER.py WHAT DIR ARGUMENT...` and prints one JSON object, or the line `durable` at the moment that is
waited for.
"""

import json
import os
import sys
import time
import urllib.request

TEXT = "x" * 1000
"""What every message holds: as many bytes as our own actions' messages."""

CALLS = 5
"""How many paid calls the job of `calls` makes."""


class Clock:
    """Notes when each action begins. What lies between two beginnings is one durable step."""

    def __init__(self, steps: int, seconds: float):
        self.steps, self.begun, self.ticks = steps, time.perf_counter(), []
        self.until = self.begun + seconds

    def tick(self) -> None:
        self.ticks.append(time.perf_counter())

    def more(self) -> bool:
        """Whether there is another step to make: for a peer that grows slower, time may end first."""
        return len(self.ticks) < self.steps and time.perf_counter() < self.until

    def tell(self) -> None:
        """Prints the median step at the start, around step 100, and at the end."""
        gaps = [(b - a) * 1e6 for a, b in zip(self.ticks, self.ticks[1:])]
        early, late = gaps[50:150] or gaps, gaps[-100:]
        print(json.dumps({
            "steps": len(self.ticks), "step_us": median(gaps), "early_us": median(early), "late_us": median(late),
        }), flush=True)


def median(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]


def tell_rounds(times: list[float]) -> None:
    """Prints the median round, without the first."""
    print(json.dumps({"round_us": median(times[1:]) * 1e6}), flush=True)


def durable() -> None:
    """Says that what was waited for is durable."""
    print("durable", flush=True)


def die() -> None:
    """Ends like a killed process: nothing is tidied up."""
    os.kill(os.getpid(), 9)


def paid_call(url: str, number: int) -> str:
    """Asks the fake provider, who bills it."""
    request = urllib.request.Request(f"{url}/{number}", data=b"{}", method="POST")
    with urllib.request.urlopen(request) as response:
        return response.read().decode()


def main(whats: dict) -> None:
    """Runs the function of the name that is given, with the directory and whatever else is given."""
    what, directory, *rest = sys.argv[1:]
    os.makedirs(directory, exist_ok=True)
    whats[what](directory, *rest)
