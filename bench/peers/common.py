"""Functions of all peers: messages, times, paid calls.

A peer is run as `PEER.py WHAT DIR ARGUMENT...`. It prints a JSON object, or the line `durable` at the moment to measure.
"""

import json
import os
import sys
import time
import urllib.request

TEXT = "x" * 1000
"""The content of every message, as long as those of strata-host."""

CALLS = 5
"""The number of paid calls of the job `calls`."""


class Clock:
    """Records when each action begins. The time between two beginnings is that of one durable step."""

    def __init__(self, steps: int, seconds: float):
        self.steps, self.begun, self.ticks = steps, time.perf_counter(), []
        self.until = self.begun + seconds

    def tick(self) -> None:
        self.ticks.append(time.perf_counter())

    def more(self) -> bool:
        """Return whether there are more steps to make within the time limit."""
        return len(self.ticks) < self.steps and time.perf_counter() < self.until

    def tell(self) -> None:
        """Print the median step at the start, around step 100, and at the end."""
        gaps = [(b - a) * 1e6 for a, b in zip(self.ticks, self.ticks[1:])]
        early, late = gaps[50:150] or gaps, gaps[-100:]
        print(json.dumps({
            "steps": len(self.ticks), "step_us": median(gaps), "early_us": median(early), "late_us": median(late),
        }), flush=True)


def median(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]


def tell_rounds(times: list[float]) -> None:
    """Print the median round, without the first one."""
    print(json.dumps({"round_us": median(times[1:]) * 1e6}), flush=True)


def durable() -> None:
    """Print that the result to wait for is durable."""
    print("durable", flush=True)


def die() -> None:
    """Kill this process, without any cleanup."""
    os.kill(os.getpid(), 9)


def paid_call(url: str, number: int) -> str:
    """Make a call of the provider, which counts it."""
    request = urllib.request.Request(f"{url}/{number}", data=b"{}", method="POST")
    with urllib.request.urlopen(request) as response:
        return response.read().decode()


def main(whats: dict) -> None:
    """Run the function that the first argument names, with the directory and the other arguments."""
    what, directory, *rest = sys.argv[1:]
    os.makedirs(directory, exist_ok=True)
    whats[what](directory, *rest)
