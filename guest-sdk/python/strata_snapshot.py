"""Preparation of the memory that is stored in a component. Not part of the public API.

Every call begins with the memory as it was when the component was built, and takes time for each page that it writes to.
This module is not in the package `strata_action`, because it is used before that is loaded.
"""

from __future__ import annotations

# Most of these are not used here. They are the modules that the SDK needs, and are loaded before gaps are filled so that
# their objects, of which a call uses few, are not between those of the SDK.
# ruff: noqa: F401
import ast, codecs, contextlib, copy, dataclasses, datetime, enum, functools, gc, importlib.util, inspect, io, json, linecache
import math, os, re, sys, traceback, types, typing, warnings
from collections.abc import Callable
from typing import Any

_REHEARSALS = 40
"""How often a call is rehearsed. All of its instructions are adapted after fewer."""
_ROOM = 1 << 20
"""The size of the free memory that `fill_gaps` leaves in one piece."""
_LARGE = (1 << 18, 1 << 17, 1 << 16, 1 << 15, 1 << 14, 1 << 13, *range(4096, 512, -64))
_SMALL = range(514, 0, -8)
"""The sizes of objects that fill gaps. Each of the small ones takes another amount of memory. None is 0 or 1, because
there is only one object of these sizes, which is always in the same place."""

_kept: list[object] = []
"""The objects that fill gaps."""


def rehearse(call: Callable[[], Any]) -> None:
    """Make a call that changes nothing, until the interpreter has adapted its code to it.

    CPython replaces instructions when they have run a few times. Since every call of a component begins with the same
    memory, what has not been adapted before would be adapted in each call again.
    """
    for _ in range(_REHEARSALS):
        call()


def fill_gaps() -> None:
    """Occupy the free memory between objects, so that objects that are created later are next to each other."""
    gc.collect()
    # This does not fit into a gap, and no gap is behind it.
    room = bytes(_ROOM)
    for size in (*_LARGE, *_SMALL):
        while id(filler := bytes(size)) < id(room):
            _kept.append(filler)
    while id(filler := object()) < id(room):
        _kept.append(filler)
