"""The ways in which the probe misbehaves in a `fail` step."""

import os
import sys

from strata_action import Failure, Output, Retryable, log, state


def misbehave(kind: str, name: str) -> Output | None:
    """Misbehave. Returns the output with which the action ends, or None if the action continues."""
    match kind:
        case "trap":
            os.abort()
        case "error":
            raise Failure("the probe was told to fail")
        case "retryable":
            raise Retryable("the probe was told to fail temporarily")
        case "spin":
            while True:
                pass
        case "alloc":
            blocks = []
            while True:
                blocks.append(bytearray(1 << 20))
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
            raise Failure(f"`{kind}` is not a kind of failure")
    return None


def recurse(depth: int) -> int:
    return depth + repr(Nested(depth)).__len__()


class Nested:
    """A value whose `repr` calls itself, so that the interpreter itself recurses and not only the program."""

    def __init__(self, depth: int):
        self.depth = depth

    def __repr__(self) -> str:
        return repr([Nested(self.depth + 1)])
