"""Tests of actions in plain Python: a host in memory, and the calls it makes. No WebAssembly is involved.

    from strata_action.testing import Host

    def test_it_greets(self):
        host = Host(replies=["Salve, Ann"])
        output = host.run(greet, news="Ann", config={"language": "Latin"})
        self.assertEqual(output.data, Greeting(letters=10))
        self.assertEqual(host.prompts, ["Greet in Latin: Ann"])

As with the real host nothing is granted that was not granted: without `replies` the llm is denied, without `responses`
http is, and so are files outside `files` and `writable`, secrets and variables. Limits are not played.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from . import _host, exports, typed
from .context import Candidate, Context, Situation
from .errors import Denied, Expired, HostError, Invalid, NotFound
from .http import Request, Response
from .human import Question
from .llm import Embeddings, Reply
from .media import Media
from .message import Hop, Message, Output, Task


@dataclass
class Emission:
    """A message that was published beside the output."""

    content: str
    data: Any = None
    to: list[str] = field(default_factory=list)
    cause_by: str | None = None
    route: list[Hop] = field(default_factory=list)
    parts: list[Media] = field(default_factory=list)


@dataclass
class Host:
    """A host in memory: what it grants and answers, and what an action did with it."""

    replies: Iterable[Any] | None = None
    """Grants the llm: what it answers, one after the other. A text, a `Reply`, or a `HostError` to raise."""
    embeddings: Iterable[Any] = ()
    """The vectors of each request for embeddings: lists of vectors, or a `HostError` to raise. They are granted with
    `replies`."""
    responses: Iterable[Any] | None = None
    """Grants http: what is answered. A `Response`, a text (with status 200), or a `HostError` to raise."""
    answers: Iterable[Any] = ()
    """What people answer: JSON values, or a `HostError` to raise; `Expired` is answered by a question's default, if it has
    one."""
    files: dict[str, Any] = field(default_factory=dict)
    """Files that can be read, by path, as bytes or text; and those that were written, as bytes."""
    writable: Iterable[str] = ()
    """Directories that can be written to."""
    scopes: dict[str, dict[str, Any]] = field(default_factory=dict)
    """The scopes of the team file with what is in them; `role` is always there."""
    env: dict[str, str] = field(default_factory=dict)
    """Variables that are granted."""
    secrets: Iterable[str] = ()
    """Names of secrets that are granted."""
    memory: list[Message] = field(default_factory=list)
    """What the role remembers, oldest first."""
    blobs: dict[str, bytes] = field(default_factory=dict)
    """Bytes of images and files that the action received, by digest."""
    unix_time: float = 0.0
    """The clock, in seconds. It moves only when the action sleeps."""
    seed: int = 0
    """What randomness follows from."""

    def __post_init__(self) -> None:
        self.scopes.setdefault("role", {})
        self._replies = None if self.replies is None else iter(self.replies)
        self._embeddings = iter(self.embeddings)
        self._responses = None if self.responses is None else iter(self.responses)
        self._answers = iter(self.answers)
        self._random = random.Random(self.seed)
        self._chooses = False
        self.requests: list[Any] = []
        """What models were asked."""
        self.fetched: list[Request] = []
        """The web requests that were made."""
        self.questions: list[Question] = []
        """What people were asked."""
        self.emitted: list[Emission] = []
        """What was published beside the output."""
        self.log: list[tuple[str, str]] = []
        """What was logged: level and line."""
        self.slept = 0.0
        """How many seconds the action slept."""

    @property
    def prompts(self) -> list[str]:
        """The text of the last message of each request to a model."""
        return [request.messages[-1].text for request in self.requests]

    @property
    def state(self) -> dict[str, Any]:
        """What is in the role's own scope."""
        return self.scopes["role"]

    # What a test calls

    def run(self, function: Callable, *, news: Any = (), outputs: Any = (), config: Any = None, **rest: Any) -> Output:
        """Calls an action as the host would. `news` and `outputs` are texts or messages, or lists of them; `rest` are
        further fields of the `Context`. What the action raises comes out as it is.
        """
        return self._serve(lambda export: export.act(_context(export, news, outputs, config, rest)), function)

    def plan(self, function: Callable, *, news: Any = (), config: Any = None, **rest: Any) -> list[Task]:
        """Calls a planner."""
        return self._serve(lambda export: export.plan(_context(export, news, (), config, rest)), function)

    def choose(
        self, function: Callable, candidates: Iterable[str | Candidate] = (), *, news: Any = (), config: Any = None,
        **rest: Any,
    ) -> int:
        """Calls a thinker; -1 ends the activation. `rest` are further fields of the `Situation`."""
        named = [each if isinstance(each, Candidate) else Candidate(each) for each in candidates]
        rest["outputs"] = _messages(rest.get("outputs", ()))

        def call(export: exports.Export) -> int:
            return export.choose(Situation(export.config(_json(config)), named, news=_messages(news), **rest))

        self._chooses = True
        try:
            return self._serve(call, function)
        finally:
            self._chooses = False

    def serve(self, function: Callable[[], Any]) -> Any:
        """Calls any function that calls the host."""
        before = _host.use(self)
        try:
            return function()
        finally:
            _host.use(before)

    def _serve(self, call: Callable[[exports.Export], Any], function: Callable) -> Any:
        returned = self.serve(lambda: call(exports.of(function)))
        if isinstance(returned, Output) and returned.data is not None:
            typed.dumps(returned.data)
        return returned

    # What the modules of the SDK call

    def emit(
        self, content: str, data: str | None, parts: list[Media], to: list[str], cause_by: str | None, route: list[Hop]
    ) -> None:
        self._effect()
        self.emitted.append(Emission(content, None if data is None else json.loads(data), to, cause_by, route, parts))

    def _effect(self) -> None:
        if self._chooses:
            raise Invalid("nothing can be emitted or written here: a choice changes nothing")

    def _scope(self, name: str) -> dict[str, Any]:
        if name not in self.scopes:
            raise Invalid(f"using scope `{name}`: the team declares no such scope")
        return self.scopes[name]

    def state_get(self, scope: str, key: str) -> str | None:
        found = self._scope(scope)
        return typed.dumps(found[key]) if key in found else None

    def state_set(self, scope: str, key: str, value: str) -> None:
        self._effect()
        self._scope(scope)[key] = json.loads(value)

    def state_delete(self, scope: str, key: str) -> None:
        self._effect()
        self._scope(scope).pop(key, None)

    def state_keys(self, scope: str) -> list[str]:
        return sorted(self._scope(scope))

    def memory_recent(self, limit: int, max_bytes: int) -> list[Message]:
        return _newest(self.memory, limit, max_bytes)

    def memory_by_label(self, label: str, limit: int, max_bytes: int) -> list[Message]:
        return _newest([message for message in self.memory if message.cause_by == label], limit, max_bytes)

    def media_load(self, digest: str) -> bytes:
        if digest not in self.blobs:
            raise NotFound(f"loading `{digest}`: no part with this digest was received")
        return self.blobs[digest]

    def log_write(self, level: str, text: str) -> None:
        self.log.append((level, text))

    def clock_unix_time_ms(self) -> float:
        return self.unix_time * 1000

    def clock_sleep(self, duration_ms: int) -> None:
        self.unix_time += duration_ms / 1000
        self.slept += duration_ms / 1000

    def random_bytes(self, length: int) -> bytes:
        if length > 65536:
            raise Invalid(f"getting `{length}` random bytes: more than 65536")
        return self._random.randbytes(length)

    def files_read(self, path: str) -> bytes:
        if path in self.files:
            content = self.files[path]
            return content.encode() if isinstance(content, str) else content
        if any(_below(path, directory) for directory in [*self.writable, *map(_parent, self.files)]):
            raise NotFound(f"reading `{path}`: there is no such file")
        raise Denied(f"reading `{path}`: no granted directory holds it; add one to `allow.dirs`")

    def files_write(self, path: str, content: bytes) -> None:
        self._effect()
        if not any(_below(path, directory) for directory in self.writable):
            raise Denied(f"writing `{path}`: no writable directory holds it; add one to `allow.dirs`")
        self.files[path] = content

    def files_remove(self, path: str) -> None:
        self._effect()
        if not any(_below(path, directory) for directory in self.writable):
            raise Denied(f"removing `{path}`: no writable directory holds it; add one to `allow.dirs`")
        if path not in self.files:
            raise NotFound(f"removing `{path}`: there is no such file")
        del self.files[path]

    def files_list(self, path: str) -> list[str]:
        inside = path.rstrip("/") + "/"
        below = [file[len(inside):] for file in self.files if file.startswith(inside)]
        if not below and not any(_below(inside, directory) for directory in self.writable):
            raise Denied(f"listing `{path}`: no granted directory holds it; add one to `allow.dirs`")
        return sorted({name.split("/")[0] + ("/" if "/" in name else "") for name in below})

    def env_get(self, name: str) -> str | None:
        if name not in self.env:
            raise Denied(f"reading the variable `{name}`: it is not granted; add it to `allow.env`")
        return self.env[name]

    def secrets_placeholder(self, name: str) -> str:
        if name not in self.secrets:
            raise Denied(f"naming the secret `{name}`: it is not granted; add it to `allow.secrets`")
        return f"{{{{secret:{name}}}}}"

    def ask(self, text: str, schema: str | None, choices: list[str], expires: int | None, default: str | None) -> Any:
        wanted = None if schema is None else json.loads(schema)
        fallback = None if default is None else json.loads(default)
        self.questions.append(Question(text, wanted, choices, expires, fallback))
        try:
            answer = _next(self._answers, "a person was asked, and the test has no answer left")
        except Expired:
            if default is None:
                raise
            return default, True
        return typed.dumps(answer), False

    def http_fetch(self, request: Request) -> Response:
        if self._responses is None:
            raise Denied(f"asking `{request.url}`: it is not granted; add it to `allow.http`")
        self.fetched.append(request)
        response = _next(self._responses, "a web request was made, and the test has no response left")
        return response if isinstance(response, Response) else Response(200, {}, response.encode())

    def http_fetch_many(self, requests: list[Request]) -> list[Response | HostError]:
        return [_or_error(self.http_fetch, request) for request in requests]

    def llm_complete(self, request: Any) -> Reply:
        if self._replies is None:
            raise Denied("no language model is granted; add `llm` to the action's `allow`")
        self.requests.append(request)
        reply = _next(self._replies, "a model was asked, and the test has no reply left")
        return reply if isinstance(reply, Reply) else Reply(reply)

    def llm_embed(self, texts: list[str], model: str | None, dimensions: int | None) -> Embeddings:
        if self._replies is None:
            raise Denied("no language model is granted; add `llm` to the action's `allow`")
        return Embeddings(_next(self._embeddings, "vectors were asked for, and the test has none left"))

    def llm_complete_many(self, requests: list[Any]) -> list[Reply | HostError]:
        return [_or_error(self.llm_complete, request) for request in requests]


def _or_error(function: Callable, request: Any) -> Any:
    try:
        return function(request)
    except HostError as error:
        return error


def _next(scripted: Any, problem: str) -> Any:
    found = next(scripted, scripted)
    if found is scripted:
        raise AssertionError(problem)
    if isinstance(found, HostError):
        raise found
    return found


def _newest(messages: list[Message], limit: int, max_bytes: int) -> list[Message]:
    found: list[Message] = []
    for message in reversed(messages):
        data = 0 if message.data is None else len(typed.dumps(message.data).encode())
        max_bytes -= len(message.content.encode()) + data
        if len(found) == limit or max_bytes < 0:
            break
        found.insert(0, message)
    return found


def _messages(told: Any) -> list[Message]:
    told = [told] if isinstance(told, (str, Message)) else told
    return [each if isinstance(each, Message) else Message(each) for each in told]


def _json(config: Any) -> Any:
    """What the host would tell of a config: the tables of a team file."""
    return json.loads(typed.dumps(config))


def _context(export: exports.Export, news: Any, outputs: Any, config: Any, rest: dict[str, Any]) -> Context:
    return Context(export.config(_json(config)), _messages(news), _messages(outputs), **rest)


def _parent(path: str) -> str:
    return path.rpartition("/")[0]


def _below(path: str, directory: str) -> bool:
    return ".." not in path.split("/") and path.startswith(directory.rstrip("/") + "/")
