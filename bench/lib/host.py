"""Builds strata-host, and runs it: as a whole program, and by its internal benchmark."""

import functools
import json
import random
import subprocess
from pathlib import Path

from .measure import Ended, Failed, figures, run

PROJECT = Path(__file__).resolve().parent.parent.parent
DONE = '"kind":"action-finished"'
"""A part of the event that reports a durable result of an action."""
BYTES = 1000
"""The length of a message."""
ROLES = 100
"""The number of roles with different texts in a long run. No text is repeated within the 64 KiB that LZ4 looks back, so
compression does not profit from the repetition."""
STEP_LIMIT = 7
"""The exit code of a run that has reached its step limit."""


@functools.cache
def vocabulary() -> list[str]:
    rng = random.Random(0)
    return ["".join(rng.choices("etaoinshrdlu", k=rng.randint(2, 9))) for _ in range(2000)]


def text(n: int) -> str:
    """Return a text of random words, which depends only on `n`."""
    return " ".join(random.Random(n + 1).choices(vocabulary(), k=BYTES))[:BYTES]


class Host:
    """The programs of a build, and the component of the probe."""

    def __init__(self, profile: str, say):
        say(f"building ({profile})")
        # The whole workspace is selected, so that dependencies get the same features as in `cargo test`, and are built once.
        words = ["cargo", "build", "--profile", profile, "--workspace", "--bin", "strata-host", "--bench", "table",
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
        self.probe = self.component(PROJECT / "plugins/probe")

    def table(self, what: str, directory: Path, *numbers: int) -> dict:
        return figures([self.bench, what, directory, self.probe, *numbers], timeout_s=300)

    def team(self, directory: Path, durability: str = "full", roles: int = 1, action: str | None = None) -> Path:
        """Write a team whose roles send messages to each other in turn, and return its path. `action` says where their action is,
        instead of the probe.
        """
        directory.mkdir(parents=True, exist_ok=True)
        team = directory / "team.toml"
        head = (
            'schema = "strata.team/1"\n[team]\nname = "chain"\nidea = "go"\n'
            f'[run]\ndurability = "{durability}"\n'
        )
        team.write_text(head + "".join(self.role(n, roles, action) for n in range(roles)))
        return team

    def component(self, directory: Path) -> Path:
        """Build an action and return the path of its component. The tools for guests are set up if they are missing."""
        return Path(run([self.program, "build", directory], timeout_s=900).lines[-1])

    def build(self, language: str, directory: Path, file: str, source: str) -> Path:
        """Make an action of that source in a language, and return the path of its component."""
        run(["sh", "-c", f"cd '{directory.parent}' && exec '{self.program}' new action {directory.name} --lang {language}"])
        (directory / file).write_text(source)
        return self.component(directory)

    def role(self, n: int, roles: int, action: str | None) -> str:
        first = '"UserRequirement", ' if n == 0 else ""
        action = action or f'component = "{self.probe}"\nconfig = {{ steps = [{{ say = "{text(n)}" }}] }}'
        return f'[[role]]\nname = "R{n}"\nwatch = [{first}"a{(n - 1) % roles}"]\n[[role.action]]\nname = "a{n}"\n{action}\n'

    def run(self, team: Path, storage: Path, steps: int, until: str | None = None) -> Ended:
        """Run a team from the beginning. Reaching the step limit is not a failure."""
        return self.execute(["run", team, "--storage", storage], steps, until)

    def resume(self, storage: Path, steps: int, until: str | None = None, timeout_s: float = 300) -> Ended:
        return self.execute(["run", "--recover_path", storage], steps, until, timeout_s)

    def execute(self, words: list, steps: int, until: str | None, timeout_s: float = 300) -> Ended:
        events = ["--events", "-"] if until else []
        try:
            command = [self.program, *words, "--quiet", "--max-steps", steps, *events]
            return run(command, until, timeout_s=timeout_s, accepted=(0, STEP_LIMIT))
        except Failed as error:
            raise Failed(f"strata-host: {error}") from error

    def calls_team(self, directory: Path, url: str, shape: str) -> Path:
        """Write a team that makes five paid calls, in one action or in one action each, and return its path."""
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

