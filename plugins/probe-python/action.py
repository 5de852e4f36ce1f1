"""The probe in Python: an action that executes the steps in its config.

The README of the probe in Rust describes the steps. `misbehaviour` contains the ways in which the probe can misbehave.
"""

import json
import re
from typing import Any

import misbehaviour
from strata_action import (
    Context, Failure, Hop, Image, Message, Output, Situation, Task, action, clock, env, environment, files, http, human, llm,
    memory, planner, random, secrets, state, thinker, typed,
)

IMAGES = {"jpg": "image/jpeg", "jpeg": "image/jpeg", "gif": "image/gif", "webp": "image/webp"}
UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600}

STEPS = {
    "say": {"data", "to", "route"},
    "emit": {"data", "to", "cause"},
    "set": {"value", "scope"},
    "get": {"scope"},
    "delete": {"scope"},
    "llm": {"model", "schema"},
    "memory": {"up_to"},
    "image": set(),
    "now": set(),
    "random": set(),
    "sleep": set(),
    "read": set(),
    "write": {"text"},
    "remove": set(),
    "fail": set(),
    "choose": set(),
    "plan": set(),
    "count": set(),
    "http": {"method", "body", "key", "secret"},
    "ask": {"schema", "choices", "expires", "default"},
    "getenv": set(),
    "secret": set(),
}
"""The names of the steps, and their other keys."""

calls = 0


class Results:
    """The results of the steps."""

    def __init__(self, name: str, news: list[Message], arguments: Any):
        self.name = name
        self.news = news
        self.arguments = arguments
        self.images: list[Image] = []
        self.output: Output | None = None
        self.choices: list[int] | None = None
        self.tasks: list[Task] | None = None
        self.reads: list[str] = []

    def say(self, step: dict[str, Any]) -> None:
        route = [Hop(leg["from"], leg["to"]) for leg in step.get("route", [])]
        recipients = {"to": step["to"]} if "to" in step else {}
        self.output = Output(self.replace_placeholders(step["say"]), step.get("data"), route=route, **recipients)

    def emit(self, step: dict[str, Any]) -> None:
        environment.emit(step["emit"], data=step.get("data"), to=step.get("to"), cause_by=step.get("cause"))

    def set(self, step: dict[str, Any]) -> None:
        scope(step)[step["set"]] = step["value"]

    def get(self, step: dict[str, Any]) -> None:
        self.reads.append(text_for_reads(scope(step).get(step["get"])))

    def delete(self, step: dict[str, Any]) -> None:
        del scope(step)[step["delete"]]

    def memory(self, step: dict[str, Any]) -> None:
        memory.replace(step["up_to"], step["memory"])

    def llm(self, step: dict[str, Any]) -> None:
        images, self.images = self.images, []
        reply = llm.ask([step["llm"], *images], model=step.get("model"), schema=step.get("schema"))
        self.reads.append(reply.text if "schema" not in step else as_json(reply.parse(object)))

    def image(self, step: dict[str, Any]) -> None:
        extension = step["image"].rpartition(".")[2]
        self.images.append(Image(IMAGES.get(extension, "image/png"), files.read(step["image"])))

    def now(self, step: dict[str, Any]) -> None:
        self.reads.append(str(round(clock.unix_time() * 1000)))

    def random(self, step: dict[str, Any]) -> None:
        self.reads.append(random.bytes(step["random"]).hex())

    def sleep(self, step: dict[str, Any]) -> None:
        clock.sleep(seconds(step["sleep"]))

    def read(self, step: dict[str, Any]) -> None:
        self.reads.append(files.read_text(step["read"]))

    def write(self, step: dict[str, Any]) -> None:
        files.write(step["write"], step["text"])

    def remove(self, step: dict[str, Any]) -> None:
        files.remove(step["remove"])

    def fail(self, step: dict[str, Any]) -> None:
        self.output = misbehaviour.misbehave(step["fail"], self.name) or self.output

    def choose(self, step: dict[str, Any]) -> None:
        self.choices = step["choose"]

    def plan(self, step: dict[str, Any]) -> None:
        self.tasks = [Task(each) if isinstance(each, str) else Task(**each) for each in step["plan"]]

    def count(self, step: dict[str, Any]) -> None:
        global calls
        calls += 1
        self.reads.append(str(calls))

    def http(self, step: dict[str, Any]) -> None:
        bearer = secrets.named(step["secret"]) if "secret" in step else None
        response = http.request(
            step.get("method", "GET"), step["http"], body=step.get("body"), idempotency_key=step.get("key"),
            bearer=bearer,
        )
        self.reads.append(response.text)

    def ask(self, step: dict[str, Any]) -> None:
        expires = seconds(step["expires"]) if "expires" in step else None
        answer = human.ask(
            step["ask"], schema=step.get("schema"), choices=step.get("choices", []), expires=expires,
            default=step.get("default"),
        )
        self.reads.append(text_for_reads(answer.value))

    def getenv(self, step: dict[str, Any]) -> None:
        self.reads.append(env.get(step["getenv"], ""))

    def secret(self, step: dict[str, Any]) -> None:
        self.reads.append(str(secrets.named(step["secret"])))

    def replace_placeholders(self, text: str) -> str:
        """Replace the placeholders in a text. Replaced text is not searched for placeholders again."""
        values = {
            "inputs": ",".join(message.content for message in self.news),
            "reads": ",".join(self.reads),
            "arguments": "" if self.arguments is None else as_json(self.arguments),
        }
        return re.sub(r"\{(inputs|reads|arguments)\}", lambda placeholder: values[placeholder[1]], text)


@action
def run(cx: Context) -> Output:
    return execute_steps(cx, cx.action).output or Output(f"{cx.action} ok")


@thinker
def choose(situation: Situation) -> int | None:
    """Choose by the `choose` step. Without one, the first action is chosen once."""
    choices = execute_steps(situation, "think").choices
    choices = [0] if choices is None else choices
    return choices[situation.round] if situation.round < len(choices) else None


@planner
def plan(cx: Context) -> list[Task]:
    """Plan by the `plan` step. Without one, there is one task, whose text is the output of the action."""
    results = execute_steps(cx, cx.action)
    if results.tasks is None:
        return [Task(results.output.content if results.output else f"{cx.action} ok")]
    return results.tasks


def execute_steps(cx: Context | Situation, name: str) -> Results:
    """Execute the steps that apply to this attempt, in order."""
    results = Results(name, cx.news, getattr(cx, "arguments", None))
    config = cx.config or {}
    for kind, step in [parse(step) for step in config.get("steps", [])]:
        if cx.attempt.number in step.get("attempts", [cx.attempt.number]):
            getattr(results, kind)(step)
            if step.get("fail") in ("invalid", "big-output"):
                break
    return results


def parse(step: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the name of a step, and the step. Raises Failure if it is not a step of the probe."""
    keys = step.keys() - {"attempts"}
    for name, others in STEPS.items():
        if name in keys and keys - {name} <= others:
            return name, step
    raise Failure(f"`{typed.dumps(step)}` is not a step of the probe")


def scope(step: dict[str, Any]) -> state.Scope:
    return state.scope(step.get("scope", "role"))


def seconds(text: str) -> float:
    found = re.fullmatch(r"(\d+)(ms|s|m|h)", text)
    if not found:
        raise Failure(f"`{text}` is not a duration")
    return int(found[1]) * UNITS[found[2]]


def text_for_reads(value: Any) -> str:
    """Return a value for `{reads}`: strings without quotes, None as an empty string, other values as compact JSON."""
    if isinstance(value, str):
        return value
    return "" if value is None else typed.dumps(value)


def as_json(value: Any) -> str:
    """Return the value as JSON with sorted keys and without spaces."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
