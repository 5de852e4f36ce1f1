"""Reports to the host which lines of a script run. If an attempt is ended from outside, because it computes for too long or
recurses too deeply, this is all that is known of where it was.

Each line is reported once, when it runs for the first time, and runs at full speed afterwards: so a loop costs nothing.
"""

from __future__ import annotations

import sys
from types import CodeType
from typing import Any

from wit_world.imports import script

_LINE = sys.monitoring.events.LINE
_TOOL = next(id for id in range(6) if sys.monitoring.get_tool(id) is None)


def _reached(code: CodeType, line: int) -> Any:
    script.line_reached(line)
    return sys.monitoring.DISABLE


sys.monitoring.use_tool_id(_TOOL, "strata")
sys.monitoring.register_callback(_TOOL, _LINE, _reached)


def report(code: CodeType) -> None:
    """Has the lines of this code and of the functions in it reported."""
    sys.monitoring.set_local_events(_TOOL, code, _LINE)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            report(constant)
