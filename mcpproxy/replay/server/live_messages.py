"""What passes between a replayed server and its driver: live messages, what is to be sent, how to replay.

And the few messages that no recording holds: the error for a miss, the answer to a ping too many.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from mcpproxy.base.json_values import dumps
from mcpproxy.protocol.jsonrpc import ABSENT, JSON, Absent, JSONObject, Request, Single
from mcpproxy.protocol.wording import shown
from mcpproxy.replay.diff.values import Difference
from mcpproxy.replay.recording import SessionMessage
from mcpproxy.replay.server.matching import Level

MISS_CODE: Final = -32000
"""The JSON-RPC error code of a miss: a server error that JSON-RPC leaves to implementations."""


@dataclass(frozen=True, slots=True)
class ReplayOptions:
    """How a recording is replayed.

    ``factor`` is by what the recorded time between messages is multiplied: 0 sends all at once, 1 is as
    recorded. ``ignore`` are JSON Pointers into requests, as in ``compare.Rules``. ``repeats`` answers with
    the last answer once more when the recorded ones are used up. ``passes`` leaves misses to somebody else.
    ``complete`` says that nothing is missing: a request without an answer is left without one.
    ``over_http``: statuses of HTTP reach the client, and are an answer too. ``stateful``: other sessions of
    the recording begin with ``initialize``.
    """

    level: Level = "default"
    ignore: tuple[str, ...] = ()
    factor: float = 0
    repeats: bool = False
    passes: bool = False
    complete: bool = True
    over_http: bool = False
    stateful: bool = False


@dataclass(eq=False, slots=True)
class LiveMessage:
    """A message of the live client.

    ``id`` and ``token`` are the bytes of its id and progress token; ``None`` where it has none. ``recorded`` is
    the recorded message that it was taken for. ``is_cancelled``: nothing is to be sent for it any more.
    """

    raw: bytes
    message: Single
    id: bytes | None = None
    token: bytes | None = None
    recorded: SessionMessage | None = None
    is_cancelled: bool = False


@dataclass(slots=True)
class OutgoingMessage:
    """A message for the client, ``delay_ns`` after what caused it.

    ``recorded`` is the recorded message, ``None`` for what was never recorded. ``live`` is the client's message
    that it belongs to; ``answers`` tells that it is the answer to it. ``others`` are the messages that stand
    in one batch with it.
    """

    raw: bytes
    delay_ns: int = 0
    recorded: SessionMessage | None = None
    live: LiveMessage | None = None
    answers: bool = False
    others: "tuple[OutgoingMessage, ...]" = ()


@dataclass(slots=True)
class EngineResult:
    """What came of a frame: each message of it, what is to be sent, and what to tell people.

    ``passed`` are those left to somebody else.
    """

    messages: list[LiveMessage] = field(default_factory=list[LiveMessage])
    outgoing: list[OutgoingMessage] = field(default_factory=list[OutgoingMessage])
    notes: list[str] = field(default_factory=list[str])
    passed: list[LiveMessage] = field(default_factory=list[LiveMessage])


def named(live: LiveMessage) -> str:
    """What a live message is, in few words: ``tools/call "echo" (id 7)``."""
    request = live.message
    if not isinstance(request, Request):
        return "a message"
    params = request.params if isinstance(request.params, dict) else {}
    name = params.get("name", params.get("uri"))
    id = "" if request.id is None else f" (id {shown(request.id)})"
    return f"{shown(request.method)[1:-1]}{f' {shown(name)}' if isinstance(name, str) else ''}{id}"


def result(live: LiveMessage, value: JSON) -> OutgoingMessage:
    """An answer of our own."""
    return _own(live, {"result": value})


def error(live: LiveMessage, code: int, message: str, data: "JSON | Absent" = ABSENT) -> OutgoingMessage:
    """An error of our own."""
    members: JSONObject = {"code": code, "message": message}
    if not isinstance(data, Absent):
        members["data"] = data
    return _own(live, {"error": members})


def miss_data(reason: str, nearest: SessionMessage | None, differences: Sequence[Difference]) -> JSON:
    """What the error of a miss tells programs."""
    data: JSONObject = {"reason": reason}
    if nearest is not None:
        data["nearest"] = {"frame": nearest.seq, "method": nearest.method}
        data["differences"] = [
            {
                "pointer": one.pointer,
                "change": one.change,
                "expected": one.expected,
                "found": one.found,
            }
            for one in differences
        ]
    return data


def _own(live: LiveMessage, members: JSONObject) -> OutgoingMessage:
    text = dumps(members, compact=True).encode()
    raw = b'{"jsonrpc":"2.0","id":' + (live.id or b"null") + b"," + text[1:]
    return OutgoingMessage(raw, live=live, answers=True)
