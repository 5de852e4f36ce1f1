"""Searches the files of a granted directory for lines that match a pattern."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatch

from strata_action import Context, Failure, Output, action, files


@dataclass
class Config:
    """`config` in the team file."""

    directory: str = "/files"
    """The directory that is searched, with all directories in it."""
    limit: int = 200
    """The maximum number of lines that are returned."""


@dataclass
class Search:
    """The arguments of the tool."""

    pattern: str
    """A regular expression. A line matches if the expression matches any part of it, in upper or lower case."""
    files: str = "*"
    """A pattern of file names, for example `*.csv`."""


@dataclass
class Line:
    """A line that matches."""

    file: str
    """The path of the file, relative to the directory."""
    line: int
    """The number of the line, starting at 1."""
    text: str


@dataclass
class Found:
    """The result of the tool."""

    lines: list[Line]
    more: bool
    """Whether there are more matching lines than the limit allows."""


@action
def search(cx: Context[Config], arguments: Search) -> Output[Found]:
    """Searches the files for lines that match a regular expression."""
    try:
        pattern = re.compile(arguments.pattern, re.IGNORECASE)
    except re.error as problem:
        raise Failure(f"`{arguments.pattern}` is not a regular expression: {problem}") from None
    lines = []
    for path in paths(cx.config.directory):
        if not fnmatch(path.rsplit("/", 1)[-1], arguments.files):
            continue
        text = files.read(f"{cx.config.directory}/{path}").decode(errors="replace")
        for number, line in enumerate(text.splitlines(), 1):
            if not pattern.search(line):
                continue
            if len(lines) == cx.config.limit:
                return found(lines, more=True)
            lines.append(Line(path, number, line))
    return found(lines, more=False)


def paths(directory: str, below: str = "") -> Iterator[str]:
    """Yields the paths of all files in a directory and in those below it, relative to the directory."""
    for name in files.list(f"{directory}/{below}"):
        if name.endswith("/"):
            yield from paths(directory, below + name)
        else:
            yield below + name


def found(lines: list[Line], more: bool) -> Output[Found]:
    """Returns the output: the lines as a person reads them, and as data."""
    text = "\n".join(f"{line.file}:{line.line}: {line.text}" for line in lines)
    return Output(text or "no line matches", data=Found(lines, more))
