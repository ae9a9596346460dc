"""Cursors: where the next part of a long answer begins.

A cursor is opaque to an agent, and short, because a model reads and writes it. It holds a number, the *mark*
of a recording (a digest of its handle), and a digest of its *question*: the tool and its arguments. So a
cursor of another question is refused. It refers to no state of the server, so it stays valid after a restart.
"""

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from hashlib import blake2b
from typing import Final, TypeAlias

from mcpproxy.show.agents.errors import AgentError

Position: TypeAlias = tuple[int, bytes]
"""A number and the mark of a recording. Each tool gives them its own meaning."""

_QUESTION_BYTES: Final = 4
_MARK_BYTES: Final = 6
"""The sizes of the two digests in a cursor."""
_LARGEST: Final = 1 << 62
"""A cursor with this number or a larger one is refused."""


def mark_of(handle: str) -> bytes:
    """Return the mark of the recording with this handle. That two handles share a mark is very unlikely."""
    return blake2b(handle.encode("utf-8", "surrogatepass"), digest_size=_MARK_BYTES).digest()


def write(question: Sequence[object], number: int, handle: str = "") -> str:
    """Return the cursor for a position in the answer to ``question``. A negative number becomes 0.

    ``handle`` is that of the recording at the position, if the tool needs it.
    """
    number = max(number, 0)
    position = mark_of(handle) + number.to_bytes((number.bit_length() + 7) // 8, "big")
    return urlsafe_b64encode(_digest(question) + position).decode().rstrip("=")


def read(question: Sequence[object], cursor: str) -> Position:
    """Return the position in a cursor; 0 and no mark if the cursor is empty.

    Raises:
        AgentError: it is not a cursor of this server, or belongs to another question.
    """
    if not cursor:
        return 0, b""
    try:
        content = urlsafe_b64decode(cursor.encode("ascii") + b"=" * (-len(cursor) % 4))
    except ValueError:
        content = b""
    position = content[_QUESTION_BYTES:]
    number = int.from_bytes(position[_MARK_BYTES:], "big")
    if len(position) < _MARK_BYTES or number >= _LARGEST:
        raise _refusal("is not one of this server")
    if content[:_QUESTION_BYTES] != _digest(question):
        raise _refusal("belongs to another tool or to other arguments")
    return number, position[:_MARK_BYTES]


def _refusal(fact: str) -> AgentError:
    return AgentError(f"cursor: {fact}; repeat the call without it, or with the arguments that it came from")


def _digest(question: Sequence[object]) -> bytes:
    """Return the digest by which a cursor remembers its question."""
    text = json.dumps(question, default=str)
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=_QUESTION_BYTES).digest()
