"""Environment variables of the host, as granted by `allow.env`. `os.environ` contains the granted ones as well."""

from __future__ import annotations

from ._host import current


def get(name: str, default: str | None = None) -> str | None:
    """Return the value of a variable, or `default` if it is not set. Raises Denied if it is not granted."""
    found = current().env_get(name)
    return default if found is None else found
