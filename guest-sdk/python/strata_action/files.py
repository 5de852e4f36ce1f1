"""Files in the directories that `allow.dirs` grants, by their paths in the guest, e.g. `/out/game.html`."""

from __future__ import annotations

import os

from ._host import current


def read(path: str) -> bytes:
    """Return the content of a file.

    Raises Denied if no grant contains it, NotFound if it does not exist, and Invalid if it is not a regular file.
    """
    return current().files_read(os.fspath(path))


def read_text(path: str) -> str:
    """Return the content of a UTF-8 file. Raises the errors of `read`, and UnicodeDecodeError if it is not UTF-8."""
    return read(path).decode()


def write(path: str, content: bytes | str) -> None:
    """Create or replace a file. Missing parent directories inside the grant are created.

    Raises Denied if no grant allows it. The write is discarded if this attempt fails.
    """
    current().files_write(os.fspath(path), content)


def remove(path: str) -> None:
    """Remove a file or an empty directory.

    Raises Denied if no grant allows it, NotFound if it does not exist, and Invalid if the directory is not empty.
    """
    current().files_remove(os.fspath(path))


def list(path: str) -> list[str]:
    """Return the names in a directory in sorted order. Names of directories end in `/`.

    Raises Denied if no grant contains it, and NotFound if it does not exist.
    """
    return current().files_list(os.fspath(path))
