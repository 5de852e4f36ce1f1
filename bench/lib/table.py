"""The table, as text for a terminal or as Markdown."""

from dataclasses import dataclass, field


@dataclass
class Row:
    """A row: the figures of strata-host, of the bare operation, and of the peers."""

    what: str
    ours: str
    bar: str = ""
    met: bool | None = None
    bare: str = ""
    peers: dict[str, str] = field(default_factory=dict)

    def cells(self, peers: list[str]) -> list[str]:
        verdict = {None: "", True: " met", False: " NOT met"}[self.met]
        return [self.what, self.ours, self.bare, self.bar + verdict, *(self.peers.get(peer, "") for peer in peers)]


def time(us: float) -> str:
    """Return a time with a suitable unit and number of digits."""
    if us < 100:
        return f"{us:.1f} µs"
    if us < 1000:
        return f"{us:.0f} µs"
    ms = us / 1000
    if ms < 1000:
        return f"{ms:.2f} ms" if ms < 10 else f"{ms:.0f} ms"
    return f"{ms / 1000:.1f} s"


def ratio(value: float) -> str:
    return f"{value:.2f}×" if value < 10 else f"{value:.0f}×"


def beside(us: float, ours: float) -> str:
    """Return the time of a peer, and its ratio to that of strata-host."""
    return f"{time(us)} ({ratio(us / ours)})"


def shown(rows: list[Row], peers: list[str], markdown: bool) -> str:
    head = ["what", "strata-host", "bare operation", "goal", *peers]
    cells = [row.cells(peers) for row in rows]
    if markdown:
        lines = [head, ["---"] * len(head), *cells]
        return "\n".join("| " + " | ".join(line) + " |" for line in lines)
    widths = [max(len(line[column]) for line in [head, *cells]) for column in range(len(head))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip() for line in [head, *cells])
