"""The steps that the fuzzer sends to a server."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from mcpproxy.protocol.jsonrpc import RequestId

MARKER: Final = re.compile(rb"mk[0-9a-f]{16}q")
"""A value that the fuzzer puts into a request, and into no other."""

HeaderChange = tuple[str, str | None]
"""The name of an HTTP header and its new value; ``None`` leaves the header out."""


@dataclass(frozen=True, slots=True)
class FuzzStep:
    """One thing that the client sends.

    ``raw`` is the message without the end of its line. ``ids`` are the request ids that need an answer.
    ``what`` tells the user what was changed, ``method`` names the request and its tool. ``key`` names the
    change and its place; it is the same in every session. ``original`` is the message before the change; it
    is empty if the step was added.
    """

    raw: bytes
    ids: tuple[RequestId, ...] = ()
    what: str = ""
    method: str = ""
    key: str = ""
    original: bytes = b""
    is_lawful: bool = True
    """Whether a server has to accept or to refuse it. If not, the server may also end the session."""
    is_portable: bool = True
    """Whether every reader of JSON has to accept it. RFC 8259 allows limits of depth (section 9) and numbers
    (section 6), and does not say what a lone surrogate means (section 8.2)."""
    pieces: tuple[bytes, ...] = ()
    """On stdio: the bytes to write, piece by piece, in place of ``raw`` and the end of its line."""
    headers: tuple[HeaderChange, ...] = ()
    """Over HTTP: changes to the headers that a correct client sends."""
    is_handshake: bool = False
    """Whether it opens the session, and so is never removed or reduced."""
    is_read_only: bool = False
    """Whether the request is one that changes nothing, so that no later answer may contain its values."""
    session: int = 0
    """Over HTTP: the number of the session, from 0. Each has a handshake of its own."""

    @property
    def markers(self) -> frozenset[bytes]:
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
