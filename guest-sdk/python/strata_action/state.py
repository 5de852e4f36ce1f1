"""State that persists between calls. A scope is a dictionary whose values are JSON.

    state.role["seen"] = state.role.get("seen", 0) + 1
    state.scope("tracking")["done"] = True

The writer sees its own writes at once. Other roles see them after the step has been committed. The writes of a failed
attempt are discarded.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, MutableMapping
from typing import Any

from . import typed
from ._host import current


class Scope(MutableMapping):
    """A named set of keys and values. Each access is a host call.

    In a scope with a reducer, setting a key passes the value to the reducer. All methods raise Invalid if the team
    file does not declare the scope. A value that JSON cannot represent raises TypeError.
    """

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
        """Delete a key. Does nothing if the key does not exist."""
        current().state_delete(self.name, key)

    def __iter__(self) -> Iterator[str]:
        return iter(current().state_keys(self.name))

    def __len__(self) -> int:
        return len(current().state_keys(self.name))

    def __repr__(self) -> str:
        return f"Scope({self.name!r})"


role = Scope("role")
"""The private scope of the acting role."""


def scope(name: str) -> Scope:
    """Return the scope with this name, as declared under `[env.scope]` in the team file."""
    return Scope(name)
