"""Random values of the host.

They are derived from the position of the call in the run, and recorded. A repeated attempt gets the same ones.
"""

from __future__ import annotations

import random as _random

from ._host import current


def bytes(length: int) -> bytes:
    """Return `length` random bytes. Raises Invalid if `length` is greater than 65536."""
    return current().random_bytes(length)


def generator() -> _random.Random:
    """Return a new `random.Random` with a seed of the host, e.g. for `random.generator().choice(names)`."""
    return _random.Random(bytes(32))
