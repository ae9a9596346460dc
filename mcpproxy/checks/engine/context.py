"""What a check takes and what it yields.

A check is a generator. It takes one message and the history as it was before that message, and yields a
``Violation`` for each requirement that the message breaks. It changes neither, and it does not decide the
severity: that follows from the requirement and the protocol revision.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Generic, TypeAlias

from mcpproxy.base.slotted import slotted
from mcpproxy.protocol.jsonrpc import ABSENT, JSON, Absent, JSONObject, RequestId, Single
from mcpproxy.protocol.lifecycle import Input
from mcpproxy.session.exchanges import HttpExchange, HttpHistory
from mcpproxy.session.frame import Blame, Close, Frame, Sender, Severity, Signal
from mcpproxy.session.history import History, SentRequest

if TYPE_CHECKING:
    from typing_extensions import TypeVar  # that of ``typing`` has defaults from Python 3.13 on

    M = TypeVar("M", bound=Single, default=Single)
    M_co = TypeVar("M_co", bound=Single, default=Single, covariant=True)
else:
    from typing import TypeVar

    M, M_co = TypeVar("M"), TypeVar("M_co")


@slotted(frozen=True)
class Violation:
    """A broken requirement, before its severity is known.

    ``pointer`` is the JSON Pointer of the place in the frame, ``related`` the numbers of other frames that
    belong to the evidence. ``blame`` defaults to the sender and ``frame`` to the frame being judged.
    ``at_most`` lowers the severity where the evidence is weaker than the requirement. ``candidates`` are the
    revisions to judge by, if they are not those of the message. ``data`` becomes the ``data`` of the JSON-RPC
    error if the message is refused.
    """

    rule: str
    requirement: str
    message: str
    pointer: str | None = None
    related: tuple[int, ...] = ()
    blame: Blame | None = None
    at_most: Severity | None = None
    frame: int | None = None
    candidates: tuple[str, ...] | None = None
    data: JSONObject | None = None


@slotted()
class MessageContext(Generic[M_co]):
    """One message with what is known about it: the message of a frame, or one element of a batch.

    A check that takes ``MessageContext[Request]`` is only given requests: the type of its row
    (``checks.engine.rows``) holds its kinds to that. ``MessageContext`` alone is any message.

    ``at`` is the JSON Pointer of the message in the frame, empty unless it is part of a batch. ``answers`` is
    the request that a response answers, if that is known. ``candidates`` are the revisions by which the
    message may be judged. ``happened`` is the handshake step that it takes, if any. ``asked`` is the
    history's entry for a request; it is made after the checks have run, and never for a request without a
    usable id. ``method`` is the message's own method, or that of the request answered. ``contents`` are its
    params or its result. ``known`` are the facts about it (see ``checks.engine.rows``), ``weight`` the
    approximate number of bytes it takes to remember it. ``page`` caches what ``listings.page`` read from it,
    so that checks and updates see the same page.
    """

    frame: Frame
    sender: Sender
    message: M_co
    candidates: tuple[str, ...]
    answers: SentRequest | None = None
    stateless: bool = False
    at: str = ""
    happened: Input | None = None
    asked: SentRequest | None = None
    method: str = ""
    contents: "JSON | Absent" = ABSENT
    known: int = 0
    weight: int = 0
    page: object = None

    @property
    def seq(self) -> int:
        return self.frame.seq


CheckFunction: TypeAlias = Callable[[MessageContext[M], History], Iterable[Violation]]
HttpCheckFunction: TypeAlias = Callable[[HttpExchange, HttpHistory, Frame | None], Iterator[Violation]]
"""A check of an HTTP exchange. The frame is the body or event being judged, ``None`` at other moments."""

ContentCheckFunction: TypeAlias = Callable[[HttpExchange, HttpHistory, Frame], Iterator[Violation]]
"""A check of a body or event of an HTTP exchange."""

EventCheckFunction: TypeAlias = Callable[[Signal | Close, History], Iterator[Violation]]


def spelled(id: "RequestId | None") -> str:
    """Return an id as people read it, with its JSON type: ``number 7``, ``string "7"``."""
    if isinstance(id, str):
        return f'string "{shortened(id)}"'
    return "null" if id is None else f"number {shortened(str(id))}"


def shortened(text: str, limit: int = 60) -> str:
    """Return ``text`` on one line, cut to ``limit`` characters."""
    # Only the characters that are shown are processed: the text may be megabytes long.
    clean = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text[: limit + 1])
    return clean if len(clean) <= limit else clean[: limit - 1] + "…"


def member(value: "JSON | Absent", *names: str) -> "JSON":
    """Return the member reached through ``names``, or ``None`` as soon as one of them is missing."""
    for name in names:
        if not isinstance(value, dict):
            return None
        value = value.get(name)
    return None if isinstance(value, Absent) else value


def as_object(value: object) -> "JSONObject | None":
    """Return ``value`` if it is a JSON object, otherwise ``None``."""
    return value if isinstance(value, dict) else None  # pyright: ignore[reportUnknownVariableType]
