"""Files below the directories that `allow.dirs` grants, by their guest path, e.g. `/out/game.html`."""

from __future__ import annotations

import os

from ._host import current


def read(path: str) -> bytes:
    """Reads a whole file. Raises NotFound, Denied, or Invalid for what is no regular file."""
    return current().files_read(os.fspath(path))


def read_text(path: str) -> str:
    """Reads a whole file as UTF-8 text."""
    return read(path).decode()


def write(path: str, content: bytes | str) -> None:
    """Creates or replaces a file, with the directories above it inside the grant."""
    current().files_write(os.fspath(path), content)


def remove(path: str) -> None:
    """Removes a file or an empty directory. Raises NotFound, Denied, or Invalid for a directory that is not empty."""
    current().files_remove(os.fspath(path))


def list(path: str) -> list[str]:
    """The names in a directory, sorted; names of directories end in `/`."""
    return current().files_list(os.fspath(path))
