"""HTTP and HTTPS requests, as granted by `allow.http`.

Responses are recorded. A repeated attempt gets the recorded ones.

    response = http.post("https://api.example.com/v1/orders", json=["tea"], bearer=secrets.named("TOKEN"),
                         idempotency_key=f"{cx.attempt.idempotency_key}/order")

A request other than `GET` and `HEAD` is a write. If its response is lost, because the host was killed or the connection
broke, it is repeated only if it has an idempotency key. Otherwise, the run stops until the operator has decided.
"""

from __future__ import annotations

import json as _json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from . import typed
from ._host import current
from .errors import HostError, Invalid
from .secrets import Secret

T = TypeVar("T")
_MARKS = ((b"\xef\xbb\xbf", "utf-8-sig"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"))
"""Byte order marks, with the encodings that skip them."""
_DECLARED = re.compile(rb"""<\?xml[^>]*?encoding\s*=\s*["']([\w.:-]+)|<meta[^>]*?charset\s*=\s*["']?([\w.:-]+)""", re.I)
"""The declaration of an encoding in XML or HTML."""


@dataclass
class Request:
    """An HTTP request."""

    method: str
    """The method, in upper case."""
    url: str
    """The URL, `http://` or `https://`, without credentials."""
    headers: dict[str, str] = field(default_factory=dict)
    """The headers. Those of the connection, such as `host` and `content-length`, are set by the host; naming one
    raises Invalid."""
    body: bytes | str | None = None
    """The body, at most 8 MiB."""
    json: Any = None
    """A value to send as a JSON body instead of `body`."""
    bearer: Secret | None = None
    """A secret to send as the bearer token."""
    secrets: Iterable[Secret] = ()
    """The other secrets whose placeholders are in the headers, the query or the body."""
    timeout: float | None = None
    """The time limit of the whole exchange in seconds, at most 600. None means 30."""
    idempotency_key: str | None = None
    """A key by which the service recognizes a repeated write."""

    def send(self) -> Response:
        """Send the request, and return the response, whatever its status is.

        Raises Denied if the request is not granted, Invalid if it is not valid, and Upstream if there is no
        response, or one of more than 8 MiB.
        """
        return current().http_fetch(self.plain())

    def plain(self) -> Request:
        """Return an equal request without `json` and `bearer`. Raises Invalid if both `body` and `json` are set."""
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
    """An HTTP response."""

    status: int
    """The status code; 0 for a write that was in doubt and that the operator skipped."""
    headers: dict[str, str] = field(default_factory=dict)
    """The headers, with names in lower case. Values of repeated headers are joined by commas."""
    body: bytes = b""
    """The body."""

    @property
    def ok(self) -> bool:
        """Whether the status is from 200 to 299."""
        return 200 <= self.status < 300

    @property
    def skipped(self) -> bool:
        """Whether the operator skipped the request, so that there is no response."""
        return self.status == 0

    @property
    def text(self) -> str:
        """The body, decoded as it says: by a byte order mark, else by the `charset` of the content type, else by the encoding
        that an HTML or XML document declares, else as UTF-8. Invalid bytes are replaced by U+FFFD."""
        for mark, encoding in _MARKS:
            if self.body.startswith(mark):
                return self.body.decode(encoding, "replace")
        for encoding in (self._charset(), self._declared()):
            try:
                return self.body.decode(encoding, "replace")
            except (LookupError, ValueError):
                # There is no such encoding.
                pass
        return self.body.decode(errors="replace")

    def _charset(self) -> str:
        """Return the `charset` of the content type; an empty string if there is none."""
        found = re.search(r"""charset\s*=\s*["']?([\w.:-]+)""", self.headers.get("content-type", ""), re.I)
        return found[1] if found else ""

    def _declared(self) -> str:
        """Return the encoding that a document declares at its beginning; an empty string if it declares none."""
        if not re.search("html|xml", self.headers.get("content-type", ""), re.I):
            return ""
        found = _DECLARED.search(self.body[:1024])
        return (found[1] or found[2]).decode() if found else ""

    def json(self, wanted: type[T] | Any = Any) -> T | Any:
        """Return the JSON body, as a value of `wanted` if it is given.

        Raises ValueError if the body is not JSON or does not match the type.
        """
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
    """Send a request. The arguments are the fields of `Request`; the errors are those of `Request.send`."""
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
    """Send a `GET` request. The arguments are the fields of `Request`; the errors are those of `Request.send`."""
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
    """Send a `POST` request. The arguments are the fields of `Request`; the errors are those of `Request.send`."""
    return request(
        "POST", url, headers=headers, body=body, json=json, bearer=bearer, secrets=secrets, timeout=timeout,
        idempotency_key=idempotency_key,
    )


def fetch_many(requests: Iterable[Request]) -> list[Response | HostError]:
    """Send several requests in parallel, at most 64. The results are in the order of the requests.

    A request that fails has its exception as the result; it is not raised.
    """
    return current().http_fetch_many([request.plain() for request in requests])
