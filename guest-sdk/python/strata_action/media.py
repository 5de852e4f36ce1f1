"""Images and files: parts of messages, outputs and conversations with models.

An action makes them from bytes or an address. Those that it receives are references to bytes that the host has stored:
they can be passed on as they are, and `load` returns their bytes.

    image = Image("image/png", files.read("/in/plan.png"))
    reply = llm.ask(["What is wrong with this plan?", image])
    return Output(reply.text, parts=[image])
"""

from __future__ import annotations

from dataclasses import dataclass

from . import _border
from ._host import current
from .errors import Invalid


@dataclass
class Media:
    """An image or a file. It has either bytes, or an address, or the digest of bytes that the host has stored."""

    media_type: str
    """The media type, e.g. `image/png`."""
    data: bytes | None = None
    """The bytes."""
    url: str | None = None
    """An address that the provider of the model reads by itself. The host never does."""
    name: str | None = None
    """The file name, where it has one."""
    digest: str | None = None
    """The SHA-256 of the bytes that the host has stored, in hexadecimal."""
    size: int = 0
    """The number of those bytes."""

    def __post_init__(self) -> None:
        _border.media_fields(self)

    def load(self) -> bytes:
        """The bytes. Raises Invalid for an address, which the host does not read, and NotFound if this attempt did not
        receive the image or file."""
        if self.data is not None:
            return self.data
        if self.digest is None:
            raise Invalid(f"loading `{self.url}`: the host does not read addresses")
        return current().media_load(self.digest)


@dataclass
class Image(Media):
    """An image."""


@dataclass
class File(Media):
    """A file of any other type, e.g. a PDF document."""


Part = str | Image | File
"""A piece of a message: a text, an image or a file."""
