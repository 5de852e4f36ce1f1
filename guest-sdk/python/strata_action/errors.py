"""Exceptions of the SDK.

`Failure` and `Retryable` are raised by an action to end with a failure. The subclasses of `HostError` are raised by
the functions that call the host. An uncaught exception becomes the action's fault: the first line is its summary,
and the report contains the traceback.
"""


class Failure(Exception):
    """The action failed, and another attempt would fail in the same way. It is reported without a traceback."""

    kind = "error"


class Retryable(Failure):
    """The action failed, and another attempt may succeed. The host retries it up to `limits.retries` times."""

    kind = "retryable"


class HostError(Exception):
    """A call of the host failed. `failure` is the kind of the fault if the exception is not caught."""

    kind = "host"
    failure = "error"


class Denied(HostError):
    """The team file does not grant this. The message names the grant to add."""

    kind = "denied"
    failure = "denied"


class Invalid(HostError):
    """The request is not valid, e.g. it names an unknown scope or a path that is not absolute."""

    kind = "invalid"


class NotFound(HostError):
    """The file, directory or stored image does not exist."""

    kind = "not-found"


class Upstream(HostError):
    """The service that the host called failed, and so did the host's retries."""

    kind = "upstream"
    failure = "host"


class OutOfBudget(HostError):
    """The remaining budget of the action does not cover the call."""

    kind = "out-of-budget"
    failure = "host"


class Expired(HostError):
    """The time limit of a question passed without an answer."""

    kind = "expired"


class Failed(HostError):
    """The tool that the action called reported an error, or the call was rejected."""

    kind = "failed"


HOST_ERRORS = {error.kind: error for error in (Denied, Invalid, NotFound, Upstream, OutOfBudget, Expired, Failed)}
"""The subclasses of `HostError` by their `kind`."""
