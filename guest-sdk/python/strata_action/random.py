"""Randomness, from the host: seeded by the place of the call in the run, and recorded."""

from __future__ import annotations

import random as _random

from ._host import current


def bytes(length: int) -> bytes:
    """Random bytes, at most 65536."""
    return current().random_bytes(length)


def generator() -> _random.Random:
    """A generator of the standard library's, seeded by the host: `random.generator().choice(names)`."""
    return _random.Random(bytes(32))
