"""The orders of a shop, page by page."""

import csv
import io
from dataclasses import dataclass

from strata_action import Context, Output, action, files

ROWS = 10


@dataclass
class Page:
    """The arguments of the tool."""

    page: int


@action
def orders(cx: Context, arguments: Page) -> Output:
    """Returns a page of the orders, counted from 0: `rows`, and `next`, the number of the page that follows, or null."""
    rows = list(csv.DictReader(io.StringIO(files.read("/table/orders.csv").decode())))
    start = arguments.page * ROWS
    following = arguments.page + 1 if start + ROWS < len(rows) else None
    return Output(data={"rows": rows[start:start + ROWS], "next": following})
