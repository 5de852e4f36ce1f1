"""HTTP and HTTPS, to what `allow.http` grants. An exchange is recorded: a repeated attempt is served the response.

    response = http.post("https://api.example.com/v1/orders", json=["tea"], bearer=secrets.named("TOKEN"),
                         idempotency_key=f"{cx.attempt.idempotency_key}/order")

A request other than `GET` and `HEAD` is a write. When its response is lost (the host was killed, the connection broke)
it is made again only if it has an idempotency key; else the run stops until the operator has said what to do.
"""

from __future__ import annotations

import json as _json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from . import typed
from ._host import current
from .errors import HostError, Invalid
from .secrets import Secret

T = TypeVar("T")


@dataclass
class Request:
    """What is asked for."""

    method: str
    """The method, in upper case."""
    url: str
    """The address, without credentials."""
    headers: dict[str, str] = field(default_factory=dict)
    """More headers. Those that belong to the connection are the host's."""
    body: bytes | str | None = None
    """The body."""
    json: Any = None
    """A body in JSON, in place of `body`."""
    bearer: Secret | None = None
    """Shown as bearer token."""
    secrets: Iterable[Secret] = ()
    """More secrets whose placeholders stand in the headers, the query or the body."""
    timeout: float | None = None
    """Seconds that the whole exchange may take; none takes 30. At most 10 minutes."""
    idempotency_key: str | None = None
    """For writes: the service knows a repetition by it."""

    def send(self) -> Response:
        """Makes the request. Any status is a response. Raises Denied, Invalid or Upstream."""
        return current().http_fetch(self.plain())

    def plain(self) -> Request:
        """The same with everything in `headers`, `body` and `secrets`."""
        headers, body, secrets = dict(self.headers), self.body, [*self.secrets]
        if self.json is not None:
            if body is not None:
                raise Invalid(f"requesting `{self.url}`: both `body` and `json`")
            if not any(name.lower() == "content-type" for name in headers):
                headers["content-type"] = "application/json"
            body = typed.dumps(self.json)
        if self.bearer is not None:
            headers["authorization"] = f"Bearer {self.bearer}"
            secrets.append(self.bearer)
        return Request(
            self.method, self.url, headers, body, secrets=secrets, timeout=self.timeout,
            idempotency_key=self.idempotency_key,
        )


@dataclass
class Response:
    """What came back."""

    status: int
    """The status; 0 for a write that was in doubt and that the operator chose to skip."""
    headers: dict[str, str] = field(default_factory=dict)
    """The headers, names in lower case; those that came several times are joined by commas."""
    body: bytes = b""
    """The body."""

    @property
    def ok(self) -> bool:
        """Whether the status is one of success."""
        return 200 <= self.status < 300

    @property
    def skipped(self) -> bool:
        """Whether the operator chose to go on without the response."""
        return self.status == 0

    @property
    def text(self) -> str:
        """The body as text."""
        return self.body.decode(errors="replace")

    def json(self, wanted: type[T] | Any = Any) -> T | Any:
        """The body as JSON gives it, or as a dataclass or another type."""
        return typed.decode(wanted, _json.loads(self.body), "the body of a response")


def request(
    method: str,
    url: str,
    *,
    headers: dict[str, str] | None = None,
    body: bytes | str | None = None,
    json: Any = None,
    bearer: Secret | None = None,
    secrets: Iterable[Secret] = (),
    timeout: float | None = None,
    idempotency_key: str | None = None,
) -> Response:
    """Makes one request; the arguments are the fields of `Request`. Raises Denied, Invalid or Upstream."""
    headers = {} if headers is None else headers
    return Request(method, url, headers, body, json, bearer, secrets, timeout, idempotency_key).send()


def get(
    url: str,
    *,
    headers: dict[str, str] | None = None,
    bearer: Secret | None = None,
    secrets: Iterable[Secret] = (),
    timeout: float | None = None,
) -> Response:
    """Gets."""
    return request("GET", url, headers=headers, bearer=bearer, secrets=secrets, timeout=timeout)


def post(
    url: str,
    *,
    headers: dict[str, str] | None = None,
    body: bytes | str | None = None,
    json: Any = None,
    bearer: Secret | None = None,
    secrets: Iterable[Secret] = (),
    timeout: float | None = None,
    idempotency_key: str | None = None,
) -> Response:
    """Posts."""
    return request(
        "POST", url, headers=headers, body=body, json=json, bearer=bearer, secrets=secrets, timeout=timeout,
        idempotency_key=idempotency_key,
    )


def fetch_many(requests: Iterable[Request]) -> list[Response | HostError]:
    """Makes several requests at once, at most 64; the results come in the order of the requests."""
    return current().http_fetch_many([request.plain() for request in requests])
