"""The parameters of a check function, and the violations that it yields.

A check takes one message, and the history of the session as it was before that message. It yields a
``Violation`` for each requirement that the message breaks. A check changes neither the message nor the
history. It does not decide the severity either, which follows from the requirement and the protocol revision.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Final, Generic, TypeAlias

from mcpproxy.base.slotted import slotted
from mcpproxy.judge.session.exchanges import HttpExchange, HttpHistory
from mcpproxy.judge.session.frame import Blame, Close, Frame, Sender, Severity, Signal, Stderr
from mcpproxy.judge.session.history import History, SentRequest
from mcpproxy.protocol.jsonrpc import ABSENT, JSON, Absent, JSONObject, RequestId, Single
from mcpproxy.protocol.lifecycle import Input

# ``M`` and ``M_co`` are kinds of message, such as ``Request``; by default any kind.
if TYPE_CHECKING:
    from typing_extensions import TypeVar  # the one in ``typing`` has no defaults before Python 3.13

    M = TypeVar("M", bound=Single, default=Single)
    M_co = TypeVar("M_co", bound=Single, default=Single, covariant=True)
else:
    from typing import TypeVar

    M, M_co = TypeVar("M"), TypeVar("M_co")


@slotted(frozen=True)
class Violation:
    """A broken requirement, before its severity is known.

    ``rule`` and ``requirement`` are codes from the rule tables (``PROTO-007``, ``R-008``), ``message`` is the
    text of the finding. ``pointer`` is the JSON Pointer of the fault in the frame, ``None`` if there is none;
    ``related`` are the numbers of other frames that show the fault.
    ``blame`` defaults to the sender, ``frame`` to the number of the frame being judged, and ``candidates``
    (the revisions to judge by) to those of the message. ``at_most`` lowers the severity where the evidence is
    weak. ``data`` becomes the ``data`` of the JSON-RPC error with which mcpproxy may refuse the message.
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


Violations: TypeAlias = Iterator[Violation]
"""The return type of most checks."""


@slotted()
class MessageContext(Generic[M_co]):
    """One message to be judged, and the facts about it.

    The message is a whole frame or one element of a JSON-RPC batch. A check that takes
    ``MessageContext[Request]`` is called for requests only, which the type checker verifies in its row
    (``checks.engine.rows``). ``MessageContext`` alone is any message.

    - ``candidates`` are the revisions that may apply to the message.
    - ``stateless`` says whether the message belongs to a revision without a handshake.
    - ``answers`` is the request that the message answers, ``None`` if it is not a response or the request is
      unknown.
    - ``at`` is the JSON Pointer of the message in the frame: empty, or the index in a batch (``/0``).
    - ``happened`` is the step that the message takes in the handshake, ``None`` if it takes none.
    - ``asked`` is the history's record of the message, if it is a request with a usable id. The record is
      made after the checks have run, so only state updates have it.
    - ``method`` is the method of the message, or of the request that it answers.
    - ``contents`` are the params or the result, ``ABSENT`` if the message has neither.
    - ``known`` are the facts about the message (see ``checks.engine.rows``).
    - ``derived`` is what a check has derived from the message, for later checks and state updates: the result
      of ``listings.page``, the tool that is called, the entries of skills, or the file that was read.
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
    derived: object = None

    @property
    def seq(self) -> int:
        """The number of the frame that contains the message."""
        return self.frame.seq


CheckFunction: TypeAlias = Callable[[MessageContext[M], History], Iterable[Violation]]
"""A check of a message."""

HttpCheckFunction: TypeAlias = Callable[[HttpExchange, HttpHistory, Frame | None], Violations]
"""A check of an HTTP exchange. The frame is the body or event being judged, ``None`` at other moments."""

ContentCheckFunction: TypeAlias = Callable[[HttpExchange, HttpHistory, Frame], Violations]
"""A check of a body or event of an HTTP exchange."""

EventCheckFunction: TypeAlias = Callable[[Signal | Close, History], Violations]
"""A check of a signal, or of the end of the recording."""

StderrCheckFunction: TypeAlias = Callable[[Stderr, History], Violations]
"""A check of a line on stderr."""


GRACE_NS: Final = 5_000_000_000
"""After this long a peer has certainly read a message, even if it is busy or the message waited in a pipe."""


def spelled(id: "RequestId | None") -> str:
    """Return an id as a finding shows it: its JSON type and the shortened id (``number 7``), or ``null``."""
    if isinstance(id, str):
        return f'string "{shortened(id)}"'
    return "null" if id is None else f"number {shortened(str(id))}"


def shortened(text: str, limit: int = 60) -> str:
    """Return ``text`` on one line, cut to ``limit`` characters. U+FFFD replaces what cannot be printed."""
    # Only the characters that are shown are processed: the text may be megabytes long.
    clean = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text[: limit + 1])
    return clean if len(clean) <= limit else clean[: limit - 1] + "…"
