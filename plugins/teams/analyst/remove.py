"""Removes one file. A person approves each call, because a removed file is gone."""

from dataclasses import dataclass

from strata_action import Context, action, files


@dataclass
class Remove:
    """The arguments of the tool."""

    file: str
    reason: str


@action
def remove(cx: Context, arguments: Remove) -> str:
    """Removes a file."""
    files.remove(f"/files/{arguments.file}")
    return f"`{arguments.file}` is removed"
