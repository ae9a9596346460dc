"""What a check is given and what it gives back.

A check is a generator: it gets one message as it passes and the history as it was before, and
yields a ``Violation`` for each requirement that the message breaks. It changes nothing and it does not
know how bad a breach is: that follows from the requirement and the revision.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

from mcpproxy.base.slotted import slotted
from mcpproxy.protocol.jsonrpc import ABSENT, JSON, Absent, JSONObject, RequestId, Single
from mcpproxy.protocol.lifecycle import Input
from mcpproxy.session.exchanges import HttpExchange, HttpHistory
from mcpproxy.session.frame import Blame, Close, Frame, Sender, Severity, Signal
from mcpproxy.session.history import History, SentRequest


@slotted(frozen=True)
class Violation:
    """A broken requirement, before its severity is known.

    ``blame`` defaults to the sender and ``frame`` to the frame being judged; ``at_most`` lowers the
    severity where the evidence is weaker than the sentence; ``candidates`` are the revisions to
    judge by where they are not those of the message. ``data`` is what a refusal of the message says
    about it to programs, where the protocol's users agreed on a form.
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
class MessageContext:
    """One message on its way: a frame's, or one element of its batch.

    ``at`` is the JSON Pointer of the message in the frame (empty unless batched). ``answers`` is
    the request that a response answers, if it is known. ``candidates`` are the revisions by which
    the message may be judged. ``happened`` is what it
    means to the handshake. ``asked`` is the entry that a request got in the history; there is none
    before the checks are through, nor for a request whose id nobody can answer. ``method`` is its own, or
    that of the request answered; ``contents`` are its params or its result; ``known`` are the facts (see
    ``table``) that are known of it, ``weight`` about what it takes to remember it. ``page`` is what
    ``listings.page`` has made of it: whoever asks again gets the same one, whatever was remembered since.
    """

    frame: Frame
    sender: Sender
    message: Single
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


CheckFunction: TypeAlias = Callable[[MessageContext, History], Iterable[Violation]]
HttpCheckFunction: TypeAlias = Callable[[HttpExchange, HttpHistory, Frame | None], Iterator[Violation]]
"""A check of an exchange; the frame is the one at hand, where a frame is looked at."""

EventCheckFunction: TypeAlias = Callable[[Signal | Close, History], Iterator[Violation]]


def spelled(id: "RequestId | None") -> str:
    """An id for people, its JSON type visible: ``number 7``, ``string "7"``."""
    if isinstance(id, str):
        return f'string "{shortened(id)}"'
    return "null" if id is None else f"number {shortened(str(id))}"


def shortened(text: str, limit: int = 60) -> str:
    """``text`` on one line, cut to ``limit`` characters."""
    # No more than is shown is looked at: the text may be of megabytes.
    clean = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text[: limit + 1])
    return clean if len(clean) <= limit else clean[: limit - 1] + "…"


def member(value: "JSON | Absent", *names: str) -> "JSON":
    """The member reached through ``names``, ``None`` as soon as one is not there."""
    for name in names:
        if not isinstance(value, dict):
            return None
        value = value.get(name)
    return None if isinstance(value, Absent) else value


def as_object(value: object) -> "JSONObject | None":
    """``value`` if it is a JSON object."""
    return value if isinstance(value, dict) else None  # pyright: ignore[reportUnknownVariableType]
