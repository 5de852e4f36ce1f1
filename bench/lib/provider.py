"""A provider of a language model that counts the calls, and kills its caller in the middle of a job."""

import json
import os
import re
import signal
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from .measure import Failed, Watchdog

CALLS = 5
PRICE_USD = 0.01
TIMEOUT_S = 60


class Provider:
    """Answers and counts every call, except the one at which the caller is killed."""

    def __init__(self):
        self.paid, self.kill_at, self.killer = 0, None, lambda: None
        provider = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers.get("content-length", 0))).decode()
                number = provider.number(self.path, body)
                if provider.kill_at == number:
                    provider.kill_at = None
                    provider.killer()
                    return self.connection.close()
                provider.paid += 1
                answer = {"choices": [{"index": 0, "finish_reason": "stop",
                                       "message": {"role": "assistant", "content": f"answer {number}"}}],
                          "usage": {"prompt_tokens": 10, "completion_tokens": 10}}
                data = json.dumps(answer).encode()
                self.send_response(200)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"

    @staticmethod
    def number(path: str, body: str) -> int:
        """Return the number of the call in the job, which is in the path for peers and in the prompt for strata-host."""
        found = re.search(r"call-(\d)", body) or re.search(r"/(\d+)$", path)
        return int(found.group(1)) if found else -1

    def paid_again(self, start, resume, directory: Path, k: int) -> int:
        """Run a job that is killed at its call `k`, and resume it until it is done.

        Returns the number of calls beyond those that the job needs.
        """
        self.paid, self.kill_at = 0, k - 1
        self.work(start, directory)
        if self.kill_at is not None:
            raise Failed(f"never came to call {k}")
        self.work(resume, directory)
        return self.paid - CALLS

    def work(self, job: tuple[list, dict], directory: Path) -> None:
        command, env = job
        process = subprocess.Popen(
            [str(word) for word in command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            stdin=subprocess.DEVNULL, start_new_session=True, env={**os.environ, **env},
        )
        self.killer = lambda: kill_all(process.pid, directory / "groups")
        watchdog = Watchdog(process.pid, TIMEOUT_S)
        process.wait()
        if watchdog.cancel():
            raise Failed(f"took longer than {TIMEOUT_S} s")


def kill_all(group: int, groups: Path) -> None:
    """Kill a process group, and the groups that are listed in a file."""
    others = [int(pid) for pid in groups.read_text().split()] if groups.exists() else []
    for target in [group, *others]:
        try:
            os.killpg(target, signal.SIGKILL)
        except ProcessLookupError:
            pass
