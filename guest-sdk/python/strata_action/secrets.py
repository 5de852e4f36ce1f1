"""Secrets of the operator. They are named, never read: the host puts the value in where a request leaves it."""

from __future__ import annotations

from dataclasses import dataclass

from ._host import current


@dataclass(frozen=True)
class Secret:
    """A secret. As text it is what stands for its value in a request's headers, query or body."""

    name: str
    placeholder: str

    def __str__(self) -> str:
        return self.placeholder


def named(name: str) -> Secret:
    """The secret of this name. Raises Denied if neither `allow.secrets` nor an entry of `allow.http` names it."""
    return Secret(name, current().secrets_placeholder(name))
