"""The types that a replay engine and its transport exchange, and the options of a replay.

The functions make the few responses that are not recorded: the error for a miss, the result of a ping. A
*miss* is a request that the recording does not answer.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from mcpproxy.base.json_values import dumps
from mcpproxy.peers.replay.diff.values import Difference
from mcpproxy.peers.replay.recording import SessionMessage
from mcpproxy.peers.replay.server.matching import Level
from mcpproxy.protocol.error_message import error_message
from mcpproxy.protocol.jsonrpc import ABSENT, JSON, Absent, JSONObject, Request, Single
from mcpproxy.protocol.message_parts import target_of
from mcpproxy.protocol.wording import shown, unquoted


@dataclass(frozen=True, slots=True)
class ReplayOptions:
    """How a recording is replayed.

    - ``level``: how exactly a request must match a recorded request, see ``matching``.
    - ``ignore``: JSON Pointers to values in requests that are not compared, as in ``DiffRules``.
    - ``factor``: multiplies the recorded delays; 0 sends everything without delay, 1 with the recorded delay.
    - ``repeats``: when all recorded responses to a request were sent, the last one is sent again.
    - ``passes``: misses are passed on to another server.
    - ``complete``: nothing is missing in the recording, so a request without a recorded response stays
      unanswered.
    - ``over_http``: the client is connected over HTTP, so a recorded status of 300 or more answers a request,
      even without a JSON-RPC response.
    - ``stateful``: at least one session of the recording begins with ``initialize``. It need not be the
      replayed session.
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

    ``id`` and ``token`` are the bytes of its id and progress token, ``None`` without one. ``recorded`` is the
    recorded message that it was matched with. ``is_cancelled``: no more messages are sent for it.
    """

    raw: bytes
    message: Single
    id: bytes | None = None
    token: bytes | None = None
    recorded: SessionMessage | None = None
    is_cancelled: bool = False


@dataclass(slots=True)
class OutgoingMessage:
    """A message for the client, to be sent ``delay_ns`` after the client message that caused it.

    ``recorded`` is the recorded message, ``None`` for a generated message. ``live`` is the client message to
    which it belongs; ``answers`` says whether it is the response to that message. ``others`` are the other
    messages of its batch.
    """

    raw: bytes
    delay_ns: int = 0
    recorded: SessionMessage | None = None
    live: LiveMessage | None = None
    answers: bool = False
    others: "tuple[OutgoingMessage, ...]" = ()


@dataclass(slots=True)
class EngineResult:
    """The engine's result for a client frame.

    ``messages`` are the messages in the frame, ``outgoing`` the messages to send, ``notes`` lines for the
    user, and ``passed`` the requests to pass on to another server.
    """

    messages: list[LiveMessage] = field(default_factory=list[LiveMessage])
    outgoing: list[OutgoingMessage] = field(default_factory=list[OutgoingMessage])
    notes: list[str] = field(default_factory=list[str])
    passed: list[LiveMessage] = field(default_factory=list[LiveMessage])


def described(live: LiveMessage) -> str:
    """Return a short description of a request, ``tools/call "echo" (id 7)``, or of another: ``a message``."""
    request = live.message
    if not isinstance(request, Request):
        return "a message"
    target = target_of(request.method, request.params)
    id = "" if request.id is None else f" (id {shown(request.id)})"
    return f"{unquoted(request.method)}{'' if target is None else f' {shown(target)}'}{id}"


def result(live: LiveMessage, value: JSON) -> OutgoingMessage:
    """Return a generated result for the request ``live``."""
    text = dumps(value, compact=True).encode()
    raw = b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (live.id or b"null", text)
    return OutgoingMessage(raw, live=live, answers=True)


def error(live: LiveMessage, code: int, message: str, data: "JSON | Absent" = ABSENT) -> OutgoingMessage:
    """Return a generated error for the request ``live``."""
    text = None if isinstance(data, Absent) else dumps(data, compact=True).encode()
    raw = error_message(code, message, live.id or b"null", text)
    return OutgoingMessage(raw, live=live, answers=True)


def miss_data(reason: str, nearest: SessionMessage | None, differences: Sequence[Difference]) -> JSON:
    """Return the ``data`` of the error for a miss; ``nearest`` is the most similar recorded request."""
    data: JSONObject = {"reason": reason}
    if nearest is not None:
        data["nearest"] = {"frame": nearest.seq, "method": nearest.method}
        data["differences"] = [
            {
                "pointer": difference.pointer,
                "change": difference.change,
                "expected": difference.expected,
                "found": difference.found,
            }
            for difference in differences
        ]
    return data
