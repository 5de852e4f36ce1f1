"""Restate: its server, which keeps the journal, and a service in Node.js.

`RESTATE_PREFIX` is the npm prefix in which both are installed.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

from common import CALLS, TEXT, durable, main, median, tell_rounds

PREFIX = os.environ.get("RESTATE_PREFIX", "")
TIMEOUT_S = 30


class Cluster:
    """A server and a service whose data and port numbers are in a directory."""

    def __init__(self, directory: str, url: str = "", hold: bool = False):
        self.fresh = not os.path.exists(f"{directory}/ports.json")
        if self.fresh:
            Path(f"{directory}/ports.json").write_text(json.dumps([free_port() for _ in range(4)]))
        self.ingress, self.admin, node, self.service_port = json.loads(Path(f"{directory}/ports.json").read_text())
        env = {
            **os.environ, "RESTATE_INGRESS__BIND_ADDRESS": f"127.0.0.1:{self.ingress}",
            "RESTATE_ADMIN__BIND_ADDRESS": f"127.0.0.1:{self.admin}", "RESTATE_BIND_ADDRESS": f"127.0.0.1:{node}",
            "RESTATE_LOG_FILTER": "error", "RESTATE_DISABLE_TELEMETRY": "true", "DO_NOT_TRACK": "1",
            # The measurements use only one partition.
            "RESTATE_DEFAULT_NUM_PARTITIONS": "1",
        }
        service = [f"{Path(__file__).parent}/restate_service.mjs", PREFIX, str(self.service_port), str(CALLS), TEXT, url]
        self.service = subprocess.Popen(
            ["node", *service], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            env={**os.environ, **({"HOLD": "1"} if hold else {})},
        )
        self.server = subprocess.Popen(
            [f"{PREFIX}/node_modules/.bin/restate-server", "--base-dir", f"{directory}/data", "--node-name", "bench"],
            env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        )
        signal.signal(signal.SIGTERM, lambda *_: (self.kill(), os._exit(1)))
        self.heard("ready")
        if self.fresh:
            self.register()

    def register(self) -> None:
        uri = f"http://127.0.0.1:{self.service_port}"
        patiently(lambda: post(f"http://127.0.0.1:{self.admin}/deployments", {"uri": uri}))

    def call(self, handler: str, body, way: str = ""):
        return patiently(lambda: post(f"http://127.0.0.1:{self.ingress}/bench/{handler}{way}", body))

    def heard(self, word: str) -> None:
        """Wait for a line of the service."""
        for line in self.service.stdout:
            if line.strip() == word:
                return
        raise RuntimeError(f"the service ended before it said `{word}`")

    def peak_mib(self) -> float:
        """Return the peak memory of the service and the server in MiB."""
        started = [self.service.pid, self.server.pid, *children(self.server.pid)]
        return sum(peak_kib(pid) for pid in started) / 1024

    def kill(self) -> None:
        self.service.kill()
        try:
            os.killpg(self.server.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.service.wait()
        self.server.wait()


def children(pid: int) -> list[int]:
    """Return the children of a process. The npm package starts the server from a Node.js script."""
    found = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(child) for child in found.read_text().split()] if found.exists() else []


def peak_kib(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next((int(line.split()[1]) for line in lines if line.startswith("VmHWM:")), 0)


def free_port() -> int:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return server.getsockname()[1]


def post(url: str, body):
    data = b"" if body is None else json.dumps(body).encode()
    headers = {} if body is None else {"content-type": "application/json"}
    request = urllib.request.Request(url, data=data, headers=headers, method="POST")
    with urllib.request.urlopen(request, timeout=600) as response:
        text = response.read()
    return json.loads(text) if text else None


def patiently(ask):
    """Send requests until the server answers."""
    until = time.monotonic() + TIMEOUT_S
    while True:
        try:
            return ask()
        except (urllib.error.URLError, ConnectionError) as error:
            if time.monotonic() > until:
                raise RuntimeError(f"the server does not answer: {error}") from error
            time.sleep(0.005)


def chain(directory: str, steps: str, durability: str, seconds: str) -> None:
    cluster = Cluster(directory)
    try:
        ticks = cluster.call("chain", {"steps": int(steps), "seconds": float(seconds)})
    finally:
        cluster.kill()
    gaps = [(b - a) * 1e3 for a, b in zip(ticks, ticks[1:])]
    early, late = gaps[50:150] or gaps, gaps[-100:]
    print(json.dumps({
        "steps": len(ticks), "step_us": median(gaps), "early_us": median(early), "late_us": median(late),
    }))


def wide(directory: str, actions: str, rounds: str) -> None:
    cluster = Cluster(directory)
    try:
        tell_rounds([cluster.call("wide", {"actions": int(actions)}) / 1e3 for _ in range(int(rounds))])
    finally:
        cluster.kill()


def prepare(directory: str, messages: str) -> None:
    cluster = Cluster(directory, hold=True)
    try:
        cluster.call("hold", {"messages": int(messages)}, "/send")
        cluster.heard("held")
    finally:
        cluster.kill()


def resume(directory: str) -> None:
    cluster = Cluster(directory)
    try:
        cluster.heard("durable")
        durable()
        print(f"peak_mib {cluster.peak_mib()}")
    finally:
        cluster.kill()


def cold(directory: str) -> None:
    cluster = Cluster(directory)
    try:
        cluster.call("hold", {"messages": 0}, "/send")
        cluster.heard("durable")
        durable()
    finally:
        cluster.kill()


def calls(directory: str, url: str, shape: str, phase: str) -> None:
    cluster = Cluster(directory, url)
    # The server has its own process group.
    Path(f"{directory}/groups").write_text(str(cluster.server.pid))
    try:
        if phase == "start":
            cluster.call(shape, {}, "/send")
        cluster.heard("durable")
        durable()
    finally:
        cluster.kill()


if not PREFIX:
    sys.exit("RESTATE_PREFIX names no npm prefix")
main({f.__name__: f for f in (chain, wide, prepare, resume, cold, calls)})
