"""The steps that the fuzzer sends to a server: recorded or changed messages, with facts about the change."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from mcpproxy.protocol.jsonrpc import RequestId

MARKER: Final = re.compile(rb"mk[0-9a-f]{16}q")
"""A marker: a text that the fuzzer puts into one request only, so that a leak into another answer shows."""

HeaderChange = tuple[str, str | None]
"""The name of an HTTP header and its new value; ``None`` leaves the header out."""


@dataclass(frozen=True, slots=True)
class FuzzStep:
    """One message, or other bytes, that the client sends.

    ``raw`` is the message without its line end. ``ids`` are the ids of the requests that need an answer.
    ``what`` describes the change for the user, ``method`` names the request and its tool. ``key`` names the
    change and its place; it is the same in every session, and empty without a change. ``original`` is the
    message before the change; it is empty if the step was added.
    """

    raw: bytes
    ids: tuple[RequestId, ...] = ()
    what: str = ""
    method: str = ""
    key: str = ""
    original: bytes = b""
    is_lawful: bool = True
    """Whether a client may send it. After an unlawful step the server may also end the session."""
    is_portable: bool = True
    """Whether every JSON reader has to accept it. RFC 8259 allows limits on depth (section 9) and numbers
    (section 6), and does not define what a lone surrogate means (section 8.2)."""
    pieces: tuple[bytes, ...] = ()
    """On stdio: the bytes to write, piece by piece, in place of ``raw`` and its line end."""
    headers: tuple[HeaderChange, ...] = ()
    """Over HTTP: changes to the headers that a correct client sends."""
    is_handshake: bool = False
    """Whether it opens the session, and so is never removed or reduced."""
    is_read_only: bool = False
    """Whether the request changes nothing on the server, so that no other answer may contain its values."""
    session: int = 0
    """Over HTTP: the number of the session, from 0. Each session has its own handshake."""

    @property
    def markers(self) -> frozenset[bytes]:
        """The markers in the message."""
        return frozenset(MARKER.findall(self.raw))

    @property
    def is_mutated(self) -> bool:
        """Whether anything was changed or added, except for a marker."""
        return bool(self.key)

    def restored(self) -> "FuzzStep | None":
        """Return the step without its change; ``None`` if it was added."""
        if not self.is_mutated:
            return self
        if not self.original:
            return None
        return replace(
            self, raw=self.original, pieces=(), headers=(), key="", is_lawful=True, is_portable=True
        )


def restored_steps(steps: Sequence[FuzzStep]) -> list[FuzzStep]:
    """Return ``steps`` without their changes: the control, which shows whether a change is the cause."""
    return [restored for step in steps if (restored := step.restored()) is not None]
