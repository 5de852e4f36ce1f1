"""The provider of `turn_provider.py`, as a process of its own."""

import subprocess
import sys
from pathlib import Path


class Provider:
    """The provider, a process of its own."""

    def __init__(self):
        command = [sys.executable, "-I", "-B", Path(__file__).resolve().parent / "turn_provider.py"]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.url = f"http://127.0.0.1:{self.process.stdout.readline().strip()}"

    def tell(self, line: str) -> int:
        """Send a line, and return the number that the provider prints."""
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())

    def close(self) -> None:
        self.process.stdin.close()
        self.process.wait()
