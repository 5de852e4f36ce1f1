"""The code in what a model wrote, which is often in a fence and between sentences."""

from __future__ import annotations

import ast

from strata_action import Failure
from strata_action.llm import CodeBlock, Reply

_LANGUAGES = {"py", "py3", "python", "python3", "ipython", "ipython3"}
"""How models name Python after a fence."""
_UNSPECIFIC = {"", "code", "plain", "plaintext", "text", "txt", "tool_code"}
"""What models write after a fence if they name no language."""
_FENCES = ("```", "~~~")


def code(text: str) -> str:
    """Return the code in a text: its first block in Python, else its first block without a language.

    Without code blocks, it is the whole text; also if the text is a program that contains fences in its strings. Raises
    Failure if all blocks are in other languages, or if the block is not closed.
    """
    if not text.lstrip().startswith(_FENCES) and _is_program(text):
        return text
    blocks = Reply(text).code_blocks
    if not blocks:
        return text
    chosen = _first(blocks, _LANGUAGES) or _first(blocks, _UNSPECIFIC)
    if chosen is None:
        found = ", ".join(f"`{_language(block)}`" for block in blocks)
        raise Failure(f"finding the code in a text: its code blocks are in {found}, and none is in `python`")
    if not chosen.closed:
        raise Failure("finding the code in a text: its code block has no closing fence")
    return chosen.text


def _first(blocks: list[CodeBlock], languages: set[str]) -> CodeBlock | None:
    return next((block for block in blocks if _language(block) in languages), None)


def _language(block: CodeBlock) -> str:
    """Return the language that is named after the fence, e.g. `python` for `{.python}` or `python title="a.py"`."""
    words = block.language.strip("{}").replace(",", " ").split()
    return words[0].lower().lstrip(".") if words else ""


def _is_program(text: str) -> bool:
    try:
        ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True
