"""Ours: built, optimised, and run: from inside by the benches of the host, from outside as the whole program."""

import json
import random
import subprocess
from pathlib import Path

from .measure import Ended, Failed, figures, run

PROJECT = Path(__file__).resolve().parent.parent.parent
DONE = '"kind":"action-finished"'
"""The line that tells that an action's result is durable."""
BYTES = 1000
"""How long a message is."""
VOICES = 100
"""How many roles of a long run say something of their own: too many for a text to come again within the 64 KiB that LZ4
looks back, so that what is compressed is no better off than with prose."""
STEP_LIMIT = 7
"""The exit code of a run that has made as many steps as it may."""


def text(n: int) -> str:
    """Words in an order of its own, from as many as people use."""
    chance = random.Random(0)
    vocabulary = ["".join(chance.choices("etaoinshrdlu", k=chance.randint(2, 9))) for _ in range(2000)]
    chance.seed(n + 1)
    return " ".join(chance.choices(vocabulary, k=BYTES))[:BYTES]


class Host:
    """The programs of a build."""

    def __init__(self, profile: str, say):
        say(f"building ({profile})")
        words = ["cargo", "build", "--profile", profile, "-p", "strata-cli", "-p", "strata-host", "--bin", "strata-host", "--bench", "table",
                 "--message-format=json-render-diagnostics"]
        built = subprocess.run(words, cwd=PROJECT, stdout=subprocess.PIPE, text=True)
        if built.returncode != 0:
            raise Failed("the host does not build")
        found = {}
        for line in built.stdout.splitlines():
            message = json.loads(line)
            if message.get("executable"):
                found[message["target"]["name"]] = message["executable"]
        self.program, self.bench = found["strata-host"], found["table"]
        # The last line is the path; the tools of guests are set up where they are missing.
        self.probe = run([self.program, "build", PROJECT / "plugins/probe"], patience_s=900).lines[-1]

    def table(self, what: str, directory: Path, *numbers: int) -> dict:
        return figures([self.bench, what, directory, self.probe, *numbers], patience_s=300)

    def team(self, directory: Path, durability: str = "full", voices: int = 1) -> Path:
        """Roles that hand on to each other in turn, in a file."""
        directory.mkdir(parents=True, exist_ok=True)
        team = directory / "team.toml"
        head = (
            'schema = "strata.team/1"\n[team]\nname = "chain"\nidea = "go"\n'
            f'[run]\ndurability = "{durability}"\n'
        )
        team.write_text(head + "".join(self.role(n, voices) for n in range(voices)))
        return team

    def role(self, n: int, voices: int) -> str:
        first = '"UserRequirement", ' if n == 0 else ""
        return (
            f'[[role]]\nname = "R{n}"\nwatch = [{first}"a{(n - 1) % voices}"]\n'
            f'[[role.action]]\nname = "a{n}"\ncomponent = "{self.probe}"\n'
            f'config = {{ steps = [{{ say = "{text(n)}" }}] }}\n'
        )

    def run(self, team: Path, storage: Path, steps: int, until: str | None = None) -> Ended:
        """A fresh run. That it stops after so many steps is no failure."""
        return self.go(["run", team, "--storage", storage], steps, until)

    def resume(self, storage: Path, steps: int, until: str | None = None) -> Ended:
        return self.go(["run", "--recover_path", storage], steps, until)

    def go(self, words: list, steps: int, until: str | None) -> Ended:
        events = ["--events", "-"] if until else []
        try:
            command = [self.program, *words, "--quiet", "--max-steps", steps, *events]
            return run(command, until, patience_s=300, fine=(0, STEP_LIMIT))
        except Failed as error:
            raise Failed(f"strata-host: {error}") from error

    def calls_team(self, directory: Path, url: str, shape: str) -> Path:
        """A job of five paid calls: in one action, or in an action each."""
        directory.mkdir(parents=True, exist_ok=True)
        steps = [f'{{ llm = "call-{number}" }}' for number in range(5)]
        actions = [", ".join(steps)] if shape == "one" else steps
        text = (
            'schema = "strata.team/1"\n[team]\nname = "calls"\nidea = "go"\n'
            f'[llm]\nprovider = "openai"\nbase_url = "{url}/v1"\nmodel = "m"\n'
            '[[role]]\nname = "A"\nwatch = ["UserRequirement"]\n'
        )
        for number, action in enumerate(actions):
            text += (
                f'[[role.action]]\nname = "a{number}"\ncomponent = "{self.probe}"\n'
                f'config = {{ steps = [{action}] }}\n[role.action.allow]\nllm = {{ models = ["*"] }}\n'
            )
        (directory / "team.toml").write_text(text)
        return directory / "team.toml"

    def version(self) -> str:
        return run([self.program, "--version"]).lines[0]

