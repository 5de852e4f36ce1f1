"""Tests of actions in plain Python, with a host in memory and without WebAssembly.

    from strata_action.testing import Host

    def test_it_greets(self):
        host = Host(replies=["Salve, Ann"])
        output = host.run(greet, news="Ann", config={"language": "Latin"})
        self.assertEqual(output.data, Greeting(letters=10))
        self.assertEqual(host.prompts, ["Greet in Latin: Ann"])

As with the real host, nothing is available unless it is granted: `replies` grants the llm, `responses` grants http,
`files` and `writable` grant directories, and `secrets` and `env` grant their entries. Limits are not enforced.
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
    """A message that the action published. The fields are the arguments of `environment.emit`."""

    content: str
    data: Any = None
    to: list[str] = field(default_factory=list)
    cause_by: str | None = None
    route: list[Hop] = field(default_factory=list)
    parts: list[Media] = field(default_factory=list)


@dataclass
class Host:
    """A host in memory. It grants and answers what its fields contain, and records what an action does."""

    replies: Iterable[Any] | None = None
    """The replies of the llm, in order: a string, a `Reply`, or a `HostError` to raise. None does not grant it."""
    embeddings: Iterable[Any] = ()
    """The results of `llm.embed`, in order: a list of vectors, or a `HostError` to raise. Granted by `replies`."""
    responses: Iterable[Any] | None = None
    """The responses of http, in order: a `Response`, a string for one with status 200, or a `HostError` to raise.
    None does not grant http."""
    answers: Iterable[Any] = ()
    """The answers of people, in order: a JSON value, or a `HostError` to raise. For `Expired`, the question's default is
    returned if it has one."""
    files: dict[str, Any] = field(default_factory=dict)
    """The readable files by path, as bytes or strings. Files that the action writes are added as bytes."""
    writable: Iterable[str] = ()
    """The writable directories."""
    scopes: dict[str, dict[str, Any]] = field(default_factory=dict)
    """The contents of the declared scopes. `role` always exists."""
    env: dict[str, str] = field(default_factory=dict)
    """The granted environment variables."""
    secrets: Iterable[str] = ()
    """The names of the granted secrets."""
    tools: dict[str, Callable[..., Any]] = field(default_factory=dict)
    """The granted tools, as functions of their arguments. An error is a raised `Failed`."""
    mcp: dict[str, Callable[..., Any]] = field(default_factory=dict)
    """The granted tools of MCP servers, `SERVER/TOOL`, as functions of their arguments. They return an `mcp.Result`, or a
    string for one with this text. An error is a raised `HostError`."""
    memory: list[Message] = field(default_factory=list)
    """The memory of the role, oldest message first."""
    blobs: dict[str, bytes] = field(default_factory=dict)
    """The bytes of received images and files, by digest."""
    unix_time: float = 0.0
    """The time, in seconds since 1970. It advances only when the action sleeps."""
    seed: int = 0
    """The seed of the random values."""

    def __post_init__(self) -> None:
        self.scopes.setdefault("role", {})
        self._replies = None if self.replies is None else iter(self.replies)
        self._embeddings = iter(self.embeddings)
        self._responses = None if self.responses is None else iter(self.responses)
        self._answers = iter(self.answers)
        self._random = random.Random(self.seed)
        self._chooses = False
        self.requests: list[Any] = []
        """The requests to models, as `llm.Request`."""
        self.tool_calls: list[tuple[str, Any]] = []
        """The calls of tools: the name and the arguments."""
        self.mcp_calls: list[tuple[str, str, Any]] = []
        """The calls of tools of MCP servers: the server, the tool and the arguments."""
        self.fetched: list[Request] = []
        """The HTTP requests."""
        self.questions: list[Question] = []
        """The questions to people."""
        self.emitted: list[Emission] = []
        """The messages that were published with `environment.emit`."""
        self.replaced: list[tuple[int, str]] = []
        """The calls of `memory.replace`: `up_to` and the text."""
        self.log: list[tuple[str, str]] = []
        """The log: a level and a message per entry."""
        self.slept = 0.0
        """The total of the seconds slept."""

    @property
    def prompts(self) -> list[str]:
        """The text of the last message of each request to a model."""
        return [request.messages[-1].text for request in self.requests]

    @property
    def state(self) -> dict[str, Any]:
        """The content of the scope `role`."""
        return self.scopes["role"]

    # Methods that tests call.

    def run(self, function: Callable, *, news: Any = (), outputs: Any = (), config: Any = None, **rest: Any) -> Output:
        """Call an action, and return its output.

        `news` and `outputs` are a string or a message, or a list of these. `rest` contains other fields of the
        `Context`, such as `arguments`. Exceptions of the action are not caught.
        """
        return self._serve(lambda export: export.act(_context(export, news, outputs, config, rest)), function)

    def plan(self, function: Callable, *, news: Any = (), config: Any = None, **rest: Any) -> list[Task]:
        """Call a planner, and return its tasks. The arguments are those of `run`."""
        return self._serve(lambda export: export.plan(_context(export, news, (), config, rest)), function)

    def choose(
        self, function: Callable, candidates: Iterable[str | Candidate] = (), *, news: Any = (), config: Any = None,
        **rest: Any,
    ) -> int:
        """Call a thinker, and return the index that it chooses, or -1 if it ends the activation.

        `rest` contains other fields of the `Situation`.
        """
        known = [each if isinstance(each, Candidate) else Candidate(each) for each in candidates]
        rest["outputs"] = _messages(rest.get("outputs", ()))

        def call(export: exports.Export) -> int:
            return export.choose(Situation(export.config(_json(config)), known, news=_messages(news), **rest))

        self._chooses = True
        try:
            return self._serve(call, function)
        finally:
            self._chooses = False

    def serve(self, function: Callable[[], Any]) -> Any:
        """Call a function that uses this host, and return its result."""
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

    # Methods that the modules of the SDK call.

    def emit(
        self, content: str, data: str | None, parts: list[Media], to: list[str], cause_by: str | None, route: list[Hop]
    ) -> None:
        self._reject_in_choice()
        self.emitted.append(Emission(content, None if data is None else json.loads(data), to, cause_by, route, parts))

    def _reject_in_choice(self) -> None:
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
        self._reject_in_choice()
        self._scope(scope)[key] = json.loads(value)

    def state_delete(self, scope: str, key: str) -> None:
        self._reject_in_choice()
        self._scope(scope).pop(key, None)

    def state_keys(self, scope: str) -> list[str]:
        return sorted(self._scope(scope))

    def memory_recent(self, limit: int, max_bytes: int) -> list[Message]:
        return _newest(self.memory, limit, max_bytes)

    def memory_by_label(self, label: str, limit: int, max_bytes: int) -> list[Message]:
        return _newest([message for message in self.memory if message.cause_by == label], limit, max_bytes)

    def memory_replace(self, up_to: int, summary: str) -> None:
        self._reject_in_choice()
        if up_to == 0 or not summary.strip():
            raise Invalid("replacing messages: there is nothing to replace, or no text")
        self.replaced.append((up_to, summary))

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
        raise Denied(f"reading `{path}`: no granted directory contains it; add one to `allow.dirs`")

    def files_write(self, path: str, content: bytes) -> None:
        self._reject_in_choice()
        if not any(_below(path, directory) for directory in self.writable):
            raise Denied(f"writing `{path}`: no writable directory contains it; add one to `allow.dirs`")
        self.files[path] = content

    def files_remove(self, path: str) -> None:
        self._reject_in_choice()
        if not any(_below(path, directory) for directory in self.writable):
            raise Denied(f"removing `{path}`: no writable directory contains it; add one to `allow.dirs`")
        if path not in self.files:
            raise NotFound(f"removing `{path}`: there is no such file")
        del self.files[path]

    def files_list(self, path: str) -> list[str]:
        inside = path.rstrip("/") + "/"
        below = [file[len(inside):] for file in self.files if file.startswith(inside)]
        if not below and not any(_below(inside, directory) for directory in self.writable):
            raise Denied(f"listing `{path}`: no granted directory contains it; add one to `allow.dirs`")
        return sorted({name.split("/")[0] + ("/" if "/" in name else "") for name in below})

    def env_get(self, name: str) -> str | None:
        if name not in self.env:
            raise Denied(f"reading the variable `{name}`: it is not granted; add it to `allow.env`")
        return self.env[name]

    def secrets_placeholder(self, name: str) -> str:
        if name not in self.secrets:
            raise Denied(f"naming the secret `{name}`: it is not granted; add it to `allow.secrets`")
        return f"{{{{secret:{name}}}}}"

    def tools_list(self) -> list[tuple[str, str, str]]:
        if not self.tools:
            raise Denied("no tool is granted; add it to `allow.tools`")
        return [(name, "", '{"type": "object"}') for name in self.tools]

    def tools_call(self, name: str, arguments: str) -> str:
        if name not in self.tools:
            raise Denied(f"calling the tool `{name}`: it is not granted; add it to `allow.tools`")
        given = json.loads(arguments)
        self.tool_calls.append((name, given))
        return json.dumps(self.tools[name](**given))

    def tools_call_many(self, calls: list[tuple[str, str]]) -> list[Any]:
        results: list[Any] = []
        for name, arguments in calls:
            try:
                results.append(self.tools_call(name, arguments))
            except HostError as error:
                results.append(error)
        return results

    def mcp_call(self, server: str, tool: str, arguments: str) -> tuple[str, str | None, str, bool]:
        name = f"{server}/{tool}"
        if name not in self.mcp:
            raise Denied(f"calling the tool `{name}`: it is not granted; add it to `allow.mcp`")
        given = json.loads(arguments)
        self.mcp_calls.append((server, tool, given))
        result = self.mcp[name](**given)
        if isinstance(result, str):
            return result, None, json.dumps([{"type": "text", "text": result}]), False
        data = None if result.data is None else typed.dumps(result.data)
        return result.text, data, json.dumps(list(result.content)), result.is_error

    def ask(self, text: str, schema: str | None, choices: list[str], expires: int | None, default: str | None) -> Any:
        wanted = None if schema is None else json.loads(schema)
        fallback = None if default is None else json.loads(default)
        self.questions.append(Question(text, wanted, choices, expires, fallback))
        try:
            answer = _next(self._answers, "a question was asked, but the test has no answers left")
        except Expired:
            if default is None:
                raise
            return default, True
        return typed.dumps(answer), False

    def http_fetch(self, request: Request) -> Response:
        if self._responses is None:
            raise Denied(f"requesting `{request.url}`: it is not granted; add it to `allow.http`")
        self.fetched.append(request)
        response = _next(self._responses, "an HTTP request was made, but the test has no responses left")
        return response if isinstance(response, Response) else Response(200, {}, response.encode())

    def http_fetch_many(self, requests: list[Request]) -> list[Response | HostError]:
        return [_or_error(self.http_fetch, request) for request in requests]

    def llm_complete(self, request: Any) -> Reply:
        if self._replies is None:
            raise Denied("no language model is granted; add `llm` to the action's `allow`")
        self.requests.append(request)
        reply = _next(self._replies, "a model was called, but the test has no replies left")
        return reply if isinstance(reply, Reply) else Reply(reply)

    def llm_embed(self, texts: list[str], model: str | None, dimensions: int | None) -> Embeddings:
        if self._replies is None:
            raise Denied("no language model is granted; add `llm` to the action's `allow`")
        return Embeddings(_next(self._embeddings, "embeddings were requested, but the test has none left"))

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


def _messages(given: Any) -> list[Message]:
    given = [given] if isinstance(given, (str, Message)) else given
    return [each if isinstance(each, Message) else Message(each) for each in given]


def _json(config: Any) -> Any:
    """Return the config as an action receives it from the host."""
    return json.loads(typed.dumps(config))


def _context(export: exports.Export, news: Any, outputs: Any, config: Any, rest: dict[str, Any]) -> Context:
    return Context(export.config(_json(config)), _messages(news), _messages(outputs), **rest)


def _parent(path: str) -> str:
    return path.rpartition("/")[0]


def _below(path: str, directory: str) -> bool:
    return ".." not in path.split("/") and path.startswith(directory.rstrip("/") + "/")
