"""Runs programs and measures their time and memory; medians; a description of the machine."""

import json
import os
import platform
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

TIMEOUT_S = 120
"""The time limit of a program, in seconds. A program that exceeds it is killed and counts as failed."""


class Failed(Exception):
    """A program failed."""


@dataclass
class Ended:
    """The result of a program: the time until the expected line or the end, the peak memory, and its output."""

    seconds: float
    peak_mib: float
    lines: list[str]


def run(
    command: list, until: str | None = None, env: dict | None = None, timeout_s: float = TIMEOUT_S, accepted: tuple = (0,)
) -> Ended:
    """Run a program to its end, and return the result. Raises Failed if it fails.

    The time is measured from just before `exec` to the first line of output that contains `until`, or to the end.
    """
    begun = time.perf_counter()
    process = subprocess.Popen(
        [str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL,
        env={**os.environ, **(env or {})}, start_new_session=True,
    )
    watchdog = Watchdog(process.pid, timeout_s)
    seen, lines = None, []
    for line in process.stdout:
        if seen is None and until is not None and until.encode() in line:
            seen = time.perf_counter() - begun
        lines.append(line.decode(errors="replace").rstrip())
    message = process.stderr.read().decode(errors="replace").strip()
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - begun
    process.returncode = os.waitstatus_to_exitcode(status)
    if watchdog.cancel():
        raise Failed(f"took longer than {timeout_s:.0f} s")
    if until is not None and seen is None:
        raise Failed(short(message) or f"ended with {process.returncode} before it printed `{until}`")
    if until is None and process.returncode not in accepted:
        raise Failed(short(message) or f"ended with {process.returncode}")
    return Ended(seen if seen is not None else seconds, usage.ru_maxrss / 1024, lines)


class Watchdog:
    """Ends a program and its children after a time limit."""

    def __init__(self, group: int, timeout_s: float):
        import threading

        self.expired = False
        self.group = group
        self.timer = threading.Timer(timeout_s, self.expire)
        self.timer.daemon = True
        self.timer.start()

    def expire(self) -> None:
        self.expired = True
        # Programs can end their children when they receive the first signal.
        for kind in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(self.group, kind)
            except ProcessLookupError:
                return
            time.sleep(2)

    def cancel(self) -> bool:
        self.timer.cancel()
        return self.expired


def figures(command: list, env: dict | None = None, timeout_s: float = TIMEOUT_S) -> dict:
    """Run a program that prints a JSON object as its last line, and return the object."""
    lines = [line for line in run(command, None, env, timeout_s).lines if line.startswith("{")]
    if not lines:
        raise Failed("printed no figures")
    return json.loads(lines[-1])


def short(text: str) -> str:
    """Return the last line of an error message, which in most languages describes the error."""
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1][:160] if lines else ""


def median(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]


def machine(directory: Path) -> str:
    """Return a description of the machine in one line."""
    info = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    model = next((line.split(":")[1].strip() for line in info.splitlines() if line.startswith("model name")), "?")
    pages, size = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    disk = subprocess.run(["stat", "-f", "-c", "%T", directory], capture_output=True, text=True).stdout.strip()
    cores, memory, load = os.cpu_count(), pages * size / 2**30, os.getloadavg()[0]
    return (
        f"{cores} cores ({model}), {memory:.0f} GiB, {platform.system()} {platform.release()}, {disk}; "
        f"load at the start {load:.1f}"
    )
