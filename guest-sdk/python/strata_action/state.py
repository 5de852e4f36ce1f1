"""What lasts between calls. A scope is a dictionary whose values are JSON.

    state.role["seen"] = state.role.get("seen", 0) + 1
    state.scope("tracking")["done"] = True

The writer sees its own writes at once, other roles after the step has committed; writes of a failed attempt vanish.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, MutableMapping
from typing import Any

from . import typed
from ._host import current


class Scope(MutableMapping):
    """A scope. In one with a reducer, setting a key offers the value to the reducer. Each access is a host call."""

    def __init__(self, name: str):
        self.name = name

    def __getitem__(self, key: str) -> Any:
        found = current().state_get(self.name, key)
        if found is None:
            raise KeyError(key)
        return json.loads(found)

    def __setitem__(self, key: str, value: Any) -> None:
        current().state_set(self.name, key, typed.dumps(value))

    def __delitem__(self, key: str) -> None:
        """Removes a key. Removing an absent key does nothing."""
        current().state_delete(self.name, key)

    def __iter__(self) -> Iterator[str]:
        return iter(current().state_keys(self.name))

    def __len__(self) -> int:
        return len(current().state_keys(self.name))

    def __repr__(self) -> str:
        return f"Scope({self.name!r})"


role = Scope("role")
"""Private to the acting role."""


def scope(name: str) -> Scope:
    """A scope that the team file declares under `[env.scope]`."""
    return Scope(name)
