"""What a script prints, collected while it is written to the log."""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Iterator


class _Copied(io.RawIOBase):
    """A stream that passes on what is written to it, and keeps a copy."""

    def __init__(self, stream: io.TextIOBase) -> None:
        self.stream = stream
        self.parts: list[bytes] = []

    def writable(self) -> bool:
        return True

    def write(self, content: bytes) -> int:
        part = bytes(content)
        self.parts.append(part)
        self.stream.buffer.write(part)
        self.stream.flush()
        return len(part)


class Collected:
    """What was printed."""

    def __init__(self) -> None:
        self._copies = {name: _Copied(getattr(sys, name)) for name in ("stdout", "stderr")}
        self.streams = {
            name: io.TextIOWrapper(io.BufferedWriter(copy), "utf-8", "replace", line_buffering=True)
            for name, copy in self._copies.items()
        }

    def output(self) -> str | None:
        """Return what was printed, without white space at its end; None if nothing was."""
        return self._text("stdout") or None

    def errors(self) -> str:
        """Return what was written to `sys.stderr`."""
        return self._text("stderr")

    def _text(self, name: str) -> str:
        self.streams[name].flush()
        return b"".join(self._copies[name].parts).decode(errors="replace").rstrip()


@contextlib.contextmanager
def collect() -> Iterator[Collected]:
    """Collect what is printed in the block."""
    collected, original = Collected(), {name: getattr(sys, name) for name in ("stdout", "stderr")}
    for name, stream in collected.streams.items():
        setattr(sys, name, stream)
    try:
        yield collected
    finally:
        for name, stream in collected.streams.items():
            stream.flush()
            setattr(sys, name, original[name])
