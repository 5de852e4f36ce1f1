"""Processes and numbers: programs run and timed from outside, medians, what the machine is."""

import json
import os
import platform
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

PATIENCE_S = 120
"""How long one program may take; one that takes longer is killed and counts as failed."""


class Failed(Exception):
    """A program did not do what was asked."""


@dataclass
class Ended:
    """What came of a program: how long it took until the line that was waited for, the most memory it had."""

    seconds: float
    peak_mib: float
    lines: list[str]


def run(
    command: list, until: str | None = None, env: dict | None = None, patience_s: float = PATIENCE_S, fine: tuple = (0,)
) -> Ended:
    """Runs a program to its end. The time is that from just before `exec` to the first line of its output that holds
    `until`, or to its end."""
    begun = time.perf_counter()
    process = subprocess.Popen(
        [str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL,
        env={**os.environ, **(env or {})}, start_new_session=True,
    )
    watchdog = Watchdog(process.pid, patience_s)
    seen, lines = None, []
    for line in process.stdout:
        if seen is None and until is not None and until.encode() in line:
            seen = time.perf_counter() - begun
        lines.append(line.decode(errors="replace").rstrip())
    complaint = process.stderr.read().decode(errors="replace").strip()
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - begun
    process.returncode = os.waitstatus_to_exitcode(status)
    if watchdog.cancel():
        raise Failed(f"took longer than {patience_s:.0f} s")
    if until is not None and seen is None:
        raise Failed(short(complaint) or f"ended with {process.returncode} before it said `{until}`")
    if until is None and process.returncode not in fine:
        raise Failed(short(complaint) or f"ended with {process.returncode}")
    return Ended(seen if seen is not None else seconds, usage.ru_maxrss / 1024, lines)


class Watchdog:
    """Ends a program and all that it started, if that takes too long."""

    def __init__(self, group: int, patience_s: float):
        import threading

        self.bit = False
        self.group = group
        self.timer = threading.Timer(patience_s, self.bite)
        self.timer.daemon = True
        self.timer.start()

    def bite(self) -> None:
        self.bit = True
        # Those that started others get the chance to end them.
        for how in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(self.group, how)
            except ProcessLookupError:
                return
            time.sleep(2)

    def cancel(self) -> bool:
        self.timer.cancel()
        return self.bit


def figures(command: list, env: dict | None = None, patience_s: float = PATIENCE_S) -> dict:
    """Runs a program that prints one JSON object, as its last line."""
    lines = [line for line in run(command, None, env, patience_s).lines if line.startswith("{")]
    if not lines:
        raise Failed("printed no figures")
    return json.loads(lines[-1])


def short(text: str) -> str:
    """The last line of a complaint, which in most languages says what happened."""
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1][:160] if lines else ""


def median(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]


def machine(directory: Path) -> str:
    """What is measured on, in a line."""
    info = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    model = next((line.split(":")[1].strip() for line in info.splitlines() if line.startswith("model name")), "?")
    pages, size = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    disk = subprocess.run(["stat", "-f", "-c", "%T", directory], capture_output=True, text=True).stdout.strip()
    cores, memory, load = os.cpu_count(), pages * size / 2**30, os.getloadavg()[0]
    return (
        f"{cores} cores ({model}), {memory:.0f} GiB, {platform.system()} {platform.release()}, {disk}; "
        f"load when it began {load:.1f}"
    )
