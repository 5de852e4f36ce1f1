"""Ours: built, optimised, and run: from inside by the benches of the host, from outside as the whole program."""

import json
import subprocess
from pathlib import Path

from .measure import Ended, Failed, figures, run

PROJECT = Path(__file__).resolve().parent.parent.parent
DONE = '"kind":"action-finished"'
"""The line that tells that an action's result is durable."""
TEXT = "x" * 1000
STEP_LIMIT = 7
"""The exit code of a run that has made as many steps as it may."""


class Host:
    """The programs of a build."""

    def __init__(self, profile: str, say):
        say(f"building ({profile})")
        words = ["cargo", "build", "--profile", profile, "-p", "strata-host", "--bin", "strata-host", "--bench", "table",
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

    def team(self, directory: Path, durability: str = "full") -> Path:
        """A chain of one role, in a file."""
        directory.mkdir(parents=True, exist_ok=True)
        team = directory / "team.toml"
        team.write_text(
            'schema = "strata.team/1"\n[team]\nname = "chain"\nidea = "go"\n'
            f'[run]\ndurability = "{durability}"\n'
            '[[role]]\nname = "A"\nwatch = ["UserRequirement", "a"]\n'
            f'[[role.action]]\nname = "a"\ncomponent = "{self.probe}"\nconfig = {{ steps = [{{ say = "{TEXT}" }}] }}\n'
        )
        return team

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

