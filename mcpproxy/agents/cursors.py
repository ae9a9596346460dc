"""Cursors: where the next part of a long answer begins.

A cursor is opaque to an agent. It holds a position, and a digest of its tool and arguments, so that a cursor
of another question is refused. It refers to no state of the server, so it stays valid after a restart.
"""

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any, TypeAlias

from mcpproxy.agents.errors import AgentError

Position: TypeAlias = tuple[int, str]
"""A number and the handle of a recording, as the tool uses them; the handle may be empty."""

_START: Position = (0, "")
_LARGEST = 1 << 62


def write(question: Sequence[object], position: Position) -> str:
    """Return the cursor for ``position`` in the answer to ``question``."""
    text = json.dumps([_digest(question), *position])
    return urlsafe_b64encode(text.encode("utf-8", "surrogateescape")).decode().rstrip("=")


def read(question: Sequence[object], cursor: str) -> Position:
    """Return the position in a cursor; the start if the cursor is empty.

    Raises:
        AgentError: it is not a cursor of this server, or belongs to another question.
    """
    if not cursor:
        return _START
    try:
        padded = cursor.encode("ascii") + b"=" * (-len(cursor) % 4)
        members: Any = json.loads(urlsafe_b64decode(padded).decode("utf-8", "surrogateescape"))
    except (ValueError, RecursionError):
        members = None
    match members:
        case [str(digest), int(number), str(recording)] if 0 <= number < _LARGEST:
            pass
        case _:
            raise _refusal("is not one of this server")
    if digest != _digest(question):
        raise _refusal("belongs to another tool or to other arguments")
    return number, recording


def _refusal(fact: str) -> AgentError:
    return AgentError(f"cursor: {fact}; repeat the call without it, or with the arguments that it came from")


def _digest(question: Sequence[object]) -> str:
    text = json.dumps(question, default=str)
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=6).hexdigest()
