from dataclasses import dataclass

from strata_action import Context, Output, action


@dataclass
class Arguments:
    text: str


@action
def count_words(cx: Context, arguments: Arguments) -> Output:
    """Counts the words of a text."""
    words = len(arguments.text.split())
    return Output(f"{words} words", data={"words": words})
