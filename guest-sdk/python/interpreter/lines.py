"""Reports to the host which lines of a script run.

If the host ends an attempt, because it exceeds its CPU limit or recurses too deeply, the fault shows the line that was
reported last. Each line is reported only when it runs for the first time, so loops run at full speed.
"""

from __future__ import annotations

import sys
from types import CodeType
from typing import Any

from wit_world.imports import script

_LINE = sys.monitoring.events.LINE
_TOOL = next(id for id in range(6) if sys.monitoring.get_tool(id) is None)
_lines_before: dict[str, int] = {}
"""The number of lines in the files before a file."""


def _reached(code: CodeType, line: int) -> Any:
    script.line_reached(_lines_before[code.co_filename] + line)
    return sys.monitoring.DISABLE


sys.monitoring.use_tool_id(_TOOL, "strata")
sys.monitoring.register_callback(_TOOL, _LINE, _reached)


def report(code: CodeType, lines_before: int = 0) -> None:
    """Report the lines of this code, and of the functions in it, when they run.

    `lines_before` is the number of lines in the files before the one of this code: the lines of several files are counted
    as if they were one.
    """
    _lines_before[code.co_filename] = lines_before
    sys.monitoring.set_local_events(_TOOL, code, _LINE)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            report(constant, lines_before)
