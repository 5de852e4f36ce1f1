"""Secrets of the operator.

An action can name a secret but cannot read its value. The host replaces the placeholder with the value when it sends
the request.
"""

from __future__ import annotations

from dataclasses import dataclass

from ._host import current


@dataclass(frozen=True)
class Secret:
    """A granted secret. `str` returns its placeholder, for the headers, the query or the body of a request."""

    name: str
    """The name."""
    placeholder: str
    """The text that the host replaces with the value."""

    def __str__(self) -> str:
        return self.placeholder


def named(name: str) -> Secret:
    """Return the secret with this name. Raises Denied if neither `allow.secrets` nor `allow.http` names it."""
    return Secret(name, current().secrets_placeholder(name))
