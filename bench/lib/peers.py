"""Installs the peers from their registries into a scratch directory, and runs them. Their programs are in `peers/`."""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from .measure import Ended, Failed, figures, run, short

HERE = Path(__file__).resolve().parent.parent / "peers"
INSTALL_TIMEOUT_S = 900
"""The time limit for installing a peer, in seconds."""


@dataclass
class Peer:
    """A peer: the command that runs it, or the reason why it cannot be run."""

    name: str
    script: str
    durability: str
    """The supported durabilities: `full`, `process` or `both`."""
    packages: list[str]
    registry: str
    command: list[str] = field(default_factory=list)
    env: dict[str, str] = field(default_factory=dict)
    version: str = ""
    why_not: str = ""

    def figures(self, what: str, directory: Path, *arguments, timeout_s: float = 120) -> dict:
        return figures([*self.command, what, directory, *arguments], self.env, timeout_s)

    def run(self, what: str, directory: Path, *arguments, until: str | None = None, timeout_s: float = 120) -> Ended:
        return run([*self.command, what, directory, *arguments], until, self.env, timeout_s)


def known() -> list[Peer]:
    return [
        Peer("LangGraph", "langgraph_peer.py", "both", ["langgraph", "langgraph-checkpoint-sqlite"], "PyPI"),
        Peer("Agent Framework", "agent_framework_peer.py", "process", ["agent-framework-core"], "PyPI"),
        Peer("DBOS", "dbos_peer.py", "both", ["dbos"], "PyPI"),
        Peer("Restate", "restate_peer.py", "full", ["@restatedev/restate-server", "@restatedev/restate-sdk"], "npm"),
    ]


def installed(scratch: Path, say) -> list[Peer]:
    """Return all peers, installed if necessary. One that cannot be installed or started contains the reason."""
    peers = known()
    for peer in peers:
        try:
            place = scratch / peer.name.lower().replace(" ", "-")
            (from_pypi if peer.registry == "PyPI" else from_npm)(peer, place, say)
            # This also loads its files into the page cache, so that the first measurement is like the others.
            peer.run("cold", scratch / "try" / peer.script, until="durable", timeout_s=60)
        except (Failed, OSError, subprocess.TimeoutExpired) as error:
            peer.why_not = f"does not run here: {error}"
            say(f"{peer.name} {peer.why_not}")
        shutil.rmtree(scratch / "try", ignore_errors=True)
    return peers


def from_pypi(peer: Peer, place: Path, say) -> None:
    python = installed_packages(place, peer.packages, say)
    shown = run_tool([python, "-c", f"import importlib.metadata as m; print(m.version({peer.packages[0]!r}))"])
    peer.version = shown.strip()
    # The options ignore the user's packages, and write nothing into the sources of the project.
    peer.command = [str(python), "-I", "-B", str(HERE / "start.py"), str(HERE / peer.script)]


def installed_packages(place: Path, packages: list[str], say) -> Path:
    """Return the interpreter of a virtual environment with these packages, which is made if it is missing."""
    python = place / "bin" / "python"
    if not (place / "installed").exists():
        say(f"installing {', '.join(packages)} into {place}")
        run_tool([sys.executable, "-m", "venv", place])
        run_tool([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *packages])
        (place / "installed").touch()
    return python


def from_npm(peer: Peer, place: Path, say) -> None:
    if not (place / "installed").exists():
        say(f"installing {peer.name} into {place}")
        place.mkdir(parents=True, exist_ok=True)
        run_tool(["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", place, *peer.packages])
        (place / "installed").touch()
    server = place / "node_modules" / ".bin" / "restate-server"
    peer.version = run_tool([server, "--version"]).split()[-1]
    peer.command = [sys.executable, "-I", "-B", str(HERE / "start.py"), str(HERE / peer.script)]
    peer.env = {"RESTATE_PREFIX": str(place)}


def run_tool(command: list) -> str:
    """Run a tool, and return its output. Raises Failed if it fails."""
    words = [str(word) for word in command]
    if shutil.which(words[0]) is None:
        raise Failed(f"there is no `{words[0]}`")
    done = subprocess.run(words, capture_output=True, text=True, timeout=INSTALL_TIMEOUT_S, env=dict(os.environ))
    if done.returncode != 0:
        raise Failed(short(done.stderr) or f"`{words[0]}` ended with {done.returncode}")
    return done.stdout
