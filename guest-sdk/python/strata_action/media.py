"""Images and files as parts of messages, outputs and conversations with models.

An action creates them from bytes or a URL. Those that it receives refer to bytes that the host has stored. They can be
passed on as they are, and `load` returns their bytes.

    image = Image("image/png", files.read("/in/plan.png"))
    reply = llm.ask(["What is wrong with this plan?", image])
    return Output(reply.text, parts=[image])
"""

from __future__ import annotations

from dataclasses import dataclass

from . import _validate
from ._host import current
from .errors import Invalid


@dataclass
class Media:
    """An image or a file. Exactly one of `data`, `url` and `digest` is set; otherwise TypeError is raised."""

    media_type: str
    """The media type, e.g. `image/png`."""
    data: bytes | None = None
    """The bytes."""
    url: str | None = None
    """A URL that the provider of the model reads. The host does not read it."""
    name: str | None = None
    """The file name, or None."""
    digest: str | None = None
    """The SHA-256 digest of the bytes that the host has stored, in hexadecimal."""
    size: int = 0
    """The number of stored bytes; 0 without a `digest`."""

    def __post_init__(self) -> None:
        _validate.check_media_fields(self)

    def load(self) -> bytes:
        """Return the bytes.

        Raises Invalid for a URL, which the host does not read, and NotFound if this attempt did not receive the
        image or file.
        """
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
    """A file that is not an image, e.g. a PDF document."""


Part = str | Image | File
"""A part of a message: text, an image or a file."""
