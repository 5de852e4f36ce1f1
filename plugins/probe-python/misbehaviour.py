"""The ways in which the probe misbehaves when it is told to `fail`."""

import os
import sys

from strata_action import Failure, Output, Retryable, log, state


def commit(excess: str, name: str) -> Output | None:
    """Misbehaves. An excess that ends the action with an output returns it; one that lets it go on returns none."""
    match excess:
        case "trap":
            os.abort()
        case "error":
            raise Failure("the probe was told to fail")
        case "retryable":
            raise Retryable("the probe was told to fail in passing")
        case "spin":
            while True:
                pass
        case "alloc":
            taken = []
            while True:
                taken.append(bytearray(1 << 20))
        case "recurse":
            sys.setrecursionlimit(1 << 30)
            recurse(1)
        case "invalid":
            return Output(f"{name} ok", data="no schema asks for this")
        case "big-output":
            return Output("x" * (9 << 20))
        case "flood-log":
            for _ in range(64):
                log.info("flood " * 10_922)
        case "flood-calls":
            for _ in range(100_000):
                state.role.get("flood")
        case _:
            raise Failure(f"`{excess}` is no way to fail")
    return None


def recurse(depth: int) -> int:
    return depth + repr(Nested(depth)).__len__()


class Nested:
    """Each of its representations needs another, so that the interpreter itself recurses, and not only the program."""

    def __init__(self, depth: int):
        self.depth = depth

    def __repr__(self) -> str:
        return repr([Nested(self.depth + 1)])
