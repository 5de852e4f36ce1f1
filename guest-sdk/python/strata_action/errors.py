"""What goes wrong: how an action gives up, and what the host answers when it does not do what was asked.

An exception that is not caught becomes the action's fault: its first line the summary, its traceback in the report.
"""


class Failure(Exception):
    """Raise it to give up: trying again unchanged would fail again. It is reported as it is, without a traceback."""

    kind = "error"


class Retryable(Failure):
    """Raise it to give up for this time: the host may try again, within the action's `retries`."""

    kind = "retryable"


class HostError(Exception):
    """The host did not do what was asked. `failure` is the kind of fault it becomes when nobody catches it."""

    kind = "host"
    failure = "error"


class Denied(HostError):
    """Not granted in the team file. The message names what to write there."""

    kind = "denied"
    failure = "denied"


class Invalid(HostError):
    """The request makes no sense: an unknown scope, a bad path."""

    kind = "invalid"


class NotFound(HostError):
    """The file or key does not exist."""

    kind = "not-found"


class Upstream(HostError):
    """The service behind the host failed, also after its retries."""

    kind = "upstream"
    failure = "host"


class OutOfBudget(HostError):
    """The action's own budget does not cover the call."""

    kind = "out-of-budget"
    failure = "host"


class Expired(HostError):
    """Nobody answered in time."""

    kind = "expired"


HOST_ERRORS = {error.kind: error for error in (Denied, Invalid, NotFound, Upstream, OutOfBudget, Expired)}
"""The host's errors, by kind."""
