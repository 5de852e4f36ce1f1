"""Environment variables of the host, by grant. `os.environ` holds the granted ones, too."""

from __future__ import annotations

from ._host import current


def get(name: str, default: str | None = None) -> str | None:
    """Reads a variable; the default where the host has none of that name. Raises Denied if it is not granted."""
    found = current().env_get(name)
    return default if found is None else found
