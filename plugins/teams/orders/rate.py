"""Exchange rates."""

from dataclasses import dataclass

from strata_action import Context, Failure, Output, action

RATES = {"EUR": 1.0, "CHF": 1.05, "USD": 0.9}


@dataclass
class Currency:
    """The arguments of the tool."""

    currency: str


@action
def rate(cx: Context, arguments: Currency) -> Output:
    """Returns how many euros one unit of a currency is worth."""
    if arguments.currency not in RATES:
        raise Failure(f"there is no rate for `{arguments.currency}`")
    return Output(data=RATES[arguments.currency])
