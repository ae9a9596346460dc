"""The judge of one session's messages, whatever carried them.

For each message it finds out what it answers and which revisions it may be judged by, lets the
checks look at it and at the history as it was before, and then writes the history on. Nothing else
changes the history.
"""

from typing import Final, cast

from mcpproxy.checks import BATCH_CHECKS, FRAME_CHECKS
from mcpproxy.checks.breach import Passing, member
from mcpproxy.checks.capabilities import unmet_needs
from mcpproxy.checks.dispatch import Dispatch
from mcpproxy.checks.lifecycle import input_of
from mcpproxy.checks.rpc import BOM, looks_meant
from mcpproxy.checks.stdio import split_message
from mcpproxy.checks.table import Kind
from mcpproxy.observer.weigh import Weigher
from mcpproxy.protocol import acp
from mcpproxy.protocol.jsonrpc import (
    ABSENT,
    JSON,
    Batch,
    ErrorResponse,
    Flaw,
    JSONObject,
    Malformed,
    Message,
    Notification,
    Request,
    RequestId,
    Response,
    Single,
    parse_leniently,
    request_id,
)
from mcpproxy.protocol.lifecycle import TRANSITIONS, Input, State
from mcpproxy.protocol.revisions import (
    ACP,
    CAPABILITIES_KEY,
    REVISIONS,
    STATEFUL,
    STATELESS,
    VERSION_KEY,
    is_later,
)
from mcpproxy.session.frame import (
    CLIENT,
    Close,
    Eof,
    Event,
    Finding,
    Frame,
    Gap,
    Sender,
    Signal,
    other,
)
from mcpproxy.session.history import Asked, History
from mcpproxy.session.mask import MARK, holds_mask

_MASKED: Final = MARK.encode("ascii")
_SHOWN: Final = ("id", "jsonrpc", "method")
"""Members that are never masked."""

_KIND: Final[dict[type, Kind]] = {
    Request: "request",
    Notification: "notification",
    Response: "response",
    ErrorResponse: "error",
    Malformed: "malformed",
}


class MessageJudge:
    """Judges the messages of one session.

    ``revision`` settles the protocol revision beforehand, for frames that come without their
    handshake. ``joined_late`` says that the session's start was not seen.
    """

    def __init__(
        self, weigh: Weigher, dispatch: Dispatch, *, revision: str | None = None, joined_late: bool = False
    ) -> None:
        self._weigh = weigh
        self._dispatch = dispatch
        self._history = History()
        if revision in STATEFUL:
            self._history.negotiated = revision
            self._history.candidates = (revision,)
            self._history.state = State.OPERATING
        if joined_late:
            self._lose_sight()

    @property
    def revision(self) -> str | None:
        """The protocol revision that the session speaks, once that is known."""
        history = self._history
        if history.negotiated is not None:
            return history.negotiated
        return history.stateless_revision if history.stateful_seq is None else None

    @property
    def history(self) -> History:
        """What the session has said so far; only the judge writes it."""
        return self._history

    def observe(self, event: Event) -> list[Finding]:
        """Judge one event. Whatever the peers send, this does not raise."""
        match event:
            case Frame():
                return self._frame(event)
            case Eof():
                self._history.side(event.sender).closed_ns = event.observed_at_ns
                return self._release(event.sender)
            case Gap():
                self._lose_sight()
                return []
            case Signal() | Close():
                return self._end(event)
            case _:
                return []

    def take_back(self, frame: Frame, messages: tuple[Single, ...]) -> None:
        """HTTP refused this frame of the client: it said nothing, and may be sent again as it was."""
        history, client = self._history, self._history.client
        for message in messages:
            if isinstance(message, Request) and message.id is not None:
                client.used.discard(message.id, frame.seq)
                client.withdrawn.add(message.id, frame.seq)
                if (asked := client.pending.get(message.id)) and asked.seq == frame.seq:
                    asked.taken_back = True
                    del client.pending[message.id]
        if history.initialized_seq == frame.seq:
            history.initialized, history.initialized_seq = False, None
            history.state = State.NEGOTIATED if history.state is State.OPERATING else history.state
        if history.eager is not None and history.eager.seq == frame.seq:
            history.eager = None
            history.state = State.NEGOTIATED if history.state is State.EAGER else history.state
        if history.unconfirmed_seq == frame.seq:
            history.unconfirmed_seq = None

    def _end(self, event: Signal | Close) -> list[Finding]:
        found: list[Finding] = []
        if isinstance(event, Close):
            found += self._release("client") + self._release("server")
        for row in self._dispatch.events:
            found += self._weigh(row.check(event, self._history), 0, "client", self._history.candidates)
        return found

    # From frames to messages

    def _frame(self, frame: Frame) -> list[Finding]:
        if frame.by_proxy:
            return []
        if frame.exchange:
            self._history.over_http = True
            return self._alone(frame)
        side = self._history.side(frame.sender)
        if frame.continues or side.in_pieces:
            side.in_pieces = frame.continues
            side.unreadable = True
            return []
        if side.held.frames or isinstance(frame.message, Malformed):
            return self._unsure(frame)
        return self._judge(frame, frame.message)

    def _unsure(self, frame: Frame) -> list[Finding]:
        """A frame that is no message by itself, or that follows such lines."""
        held = self._history.side(frame.sender).held
        if not held.takes(frame):
            return self._release(frame.sender) + self._alone(frame)
        if (whole := held.whole()) is None:
            return []
        breach = split_message(frame.sender, held.release())
        return [
            *self._weigh([breach], frame.seq, frame.sender, self._history.candidates),
            *self._judge(frame, whole),
        ]

    def _release(self, sender: Sender) -> list[Finding]:
        held = self._history.side(sender).held
        return [finding for frame in held.release() for finding in self._alone(frame)]

    def _alone(self, frame: Frame) -> list[Finding]:
        """Judge a frame by itself, read leniently if its bytes are no proper JSON text."""
        message = frame.message
        if not isinstance(message, Malformed) or message.flaw in (Flaw.SCALAR, Flaw.EMPTY):
            return self._judge(frame, message)
        found: list[Finding] = []
        passing = Passing(frame, frame.sender, message, self._history.candidates)
        if message.value is ABSENT:
            lenient = parse_leniently(frame.raw.removeprefix(BOM))
            if isinstance(lenient, Malformed):
                lenient = None  # Forgiving or not, it is no message.
            if lenient is None and (message.flaw is Flaw.TOO_DEEP or looks_meant(frame.raw)):
                self._history.side(frame.sender).unreadable = True
            checks = FRAME_CHECKS if lenient is not None else FRAME_CHECKS[: looks_meant(frame.raw)]
            for _, check in checks:
                found += self._weigh(
                    check(passing, self._history), frame.seq, frame.sender, passing.candidates
                )
            if lenient is not None:
                return found + self._judge(frame, lenient)
            if message.flaw is Flaw.TOO_DEEP:
                return found
        return found + self._judge(frame, message)

    def _judge(self, frame: Frame, message: Message) -> list[Finding]:
        history = self._history
        history.last_ns = frame.observed_at_ns
        if not isinstance(message, Batch):
            return self._single(frame, message, "")
        passing = Passing(frame, frame.sender, Malformed(Flaw.SCALAR), history.candidates)
        found: list[Finding] = []
        for _, check in BATCH_CHECKS:
            found += self._weigh(
                check(passing, message, history), frame.seq, frame.sender, history.candidates
            )
        for index, item in enumerate(message.items):
            found += self._single(frame, item, f"/{index}")
        return found

    # One message

    def _single(self, frame: Frame, message: Single, at: str) -> list[Finding]:
        history = self._history
        passing = self._passing(frame, message, at)
        if isinstance(message, Request | Notification):
            method = message.method
        else:
            method = passing.answers.method if passing.answers else ""
        passed = (_KIND[type(message)], method, frame.sender, passing.candidates)
        found: list[Finding] = []
        raw = frame.raw
        spelled_out = b"\\u" not in raw  # else a name may be there in another spelling
        for mentions, check in self._dispatch.checks_for(passed):
            if mentions and spelled_out and not _mentioned(mentions, raw):
                continue
            for breach in check(passing, history):
                if breach.pointer and is_hidden(frame, breach.pointer, passing.answers):
                    continue
                found += self._weigh((breach,), frame.seq, frame.sender, passing.candidates)
        if frame.refused:
            if isinstance(message, Request) and message.id is not None:
                history.side(frame.sender).withdrawn.add(message.id, frame.seq)  # it may still be cancelled
            return found
        self._remember(passing)
        for mentions, write in self._dispatch.notes_for(passed):
            if mentions and spelled_out and not _mentioned(mentions, raw):
                continue
            write(passing, history)
        return found

    def _passing(self, frame: Frame, message: Single, at: str) -> Passing:
        """Find out what the message answers and by which revisions it may be judged."""
        history = self._history
        if history.stateful_seq is None and isinstance(message, Request | Notification):
            self._recognise(frame, message)
        passing = Passing(frame, frame.sender, message, history.candidates, None, False, at)
        if isinstance(message, Request):
            self._date_request(passing, message)
        elif isinstance(message, (Response, ErrorResponse)):
            asked = passing.answers = self._asked(passing, message)
            if asked is not None:
                passing.candidates = self._date_answer(asked, message)
                passing.stateless = asked.stateless
        elif history.in_both_eras and isinstance(message, Notification):
            passing.candidates = REVISIONS  # It names no request: it may belong to either era.
        if history.protocol == "mcp":
            passing.happened = input_of(passing, history)
        return passing

    def _recognise(self, frame: Frame, message: Request | Notification) -> None:
        """Tell by what opens a session whether it speaks ACP, which is defined on stdio alone."""
        history = self._history
        if history.protocol == "acp" or history.stateless_seq is not None or frame.exchange:
            return
        if message.method == "initialize":
            is_acp = frame.sender == CLIENT and acp.opens(message.params)
        else:
            is_acp = acp.opens_midway(message.method, frame.sender)
        if is_acp:
            history.protocol, history.candidates = "acp", ACP
            self._dispatch = self._dispatch.speaking("acp")

    def _date_request(self, passing: Passing, message: Request) -> None:
        if message.method == "initialize":
            is_mcp = self._history.protocol == "mcp"
            passing.candidates = STATEFUL if is_mcp else acp.named(member(message.params, "protocolVersion"))
            return
        if passing.sender != CLIENT or self._history.protocol == "acp":
            return
        meta = message.params.get("_meta") if isinstance(message.params, dict) else None
        version = meta.get(VERSION_KEY) if isinstance(meta, dict) else None
        marked = version is not None or (isinstance(meta, dict) and CAPABILITIES_KEY in meta)
        if marked or message.method == "server/discover" or self._history.lasting is not None:
            passing.stateless = True  # By one of its marks; over HTTP its headers may be the only ones.
            passing.candidates = self._stateless_candidates(version)
        elif self._history.stateless_seq is not None and self._history.stateful_seq is None:
            passing.candidates = REVISIONS

    def _stateless_candidates(self, version: "JSON") -> tuple[str, ...]:
        """The revisions of a request that names ``version``.

        One that is later than all we know is foreign to everyone but those who speak it: as soon as the
        server has said that it does, nothing is held against either.
        """
        if not isinstance(version, str):
            return STATELESS
        settled = version in STATELESS or (is_later(version) and version in self._history.supported)
        return (version,) if settled else STATELESS

    def _date_answer(self, asked: Asked, message: Response | ErrorResponse) -> tuple[str, ...]:
        if asked is self._history.initialize and isinstance(message, Response):
            version = member(message.result, "protocolVersion")
            if self._history.protocol == "acp":
                return acp.named(version)
            return (str(version),) if version in STATEFUL else STATEFUL
        if self._history.protocol == "acp":
            return self._history.candidates
        if asked.stateless and isinstance(message, Response) and asked.method != "server/discover":
            version = member(asked.params, "_meta", VERSION_KEY)
            if isinstance(version, str) and is_later(version):
                return (version,)  # It was served in a revision whose rules nobody here knows.
        if asked.stateless or asked.early:
            return asked.candidates
        return self._history.candidates

    def _asked(self, passing: Passing, message: Response | ErrorResponse) -> Asked | None:
        """The request that an answer means, its id given as the wrong JSON type included."""
        id = message.id
        if id is ABSENT or id is None:
            return None
        asker = self._history.side(other(passing.sender))
        if (asked := asker.pending.get(id)) is not None:
            return asked
        if asker.used.first_use(id) is not None:
            return None
        asked = asker.pending.get(_retyped(id))
        if asked is None and self._answers_initialize(passing, message):
            return self._history.initialize
        return asked

    def _answers_initialize(self, passing: Passing, message: Response | ErrorResponse) -> bool:
        """Whether a result with a foreign id is, by its members, the awaited initialize result."""
        history = self._history
        if passing.sender == CLIENT or history.initialize is None or history.initialize_answered:
            return False
        result = message.result if isinstance(message, Response) else None
        info = "serverInfo" if history.protocol == "mcp" else "protocolVersion"
        return isinstance(result, dict) and "protocolVersion" in result and info in result

    # What is remembered

    def _remember(self, passing: Passing) -> None:
        """Write the history on, after the checks have seen it."""
        history, message = self._history, passing.message
        side = history.side(passing.sender)
        side.last_seq = passing.seq
        side.last_was_notification = isinstance(message, Notification)
        happened = passing.happened
        if isinstance(message, Request):
            self._remember_request(passing, message)
        elif isinstance(message, (Response, ErrorResponse)):
            self._remember_answer(passing, message)
        elif isinstance(message, Notification):
            if message.method == "notifications/cancelled":
                self._remember_cancellation(passing, message)
            elif happened is Input.INITIALIZED and not history.initialized:
                history.initialized, history.initialized_seq = True, passing.seq
        if happened is not None:
            history.state = TRANSITIONS[history.state][happened].to
        if history.negotiated is not None and not history.initialized and history.unconfirmed_seq is None:
            works = (
                not isinstance(message, Malformed | Response | ErrorResponse) and happened is not Input.PING
            )
            if passing.sender == CLIENT and works and not passing.stateless:
                history.unconfirmed_seq = passing.seq

    def _remember_request(self, passing: Passing, message: Request) -> None:
        history = self._history
        side = history.side(passing.sender)
        if passing.stateless:
            if history.stateless_seq is None:
                history.stateless_seq = passing.seq
                if history.stateful_seq is None:
                    history.candidates = STATELESS
            history.stateless_revision = passing.candidates[0] if len(passing.candidates) == 1 else None
        if message.id is None:
            side.unreadable = True  # Whatever answers it cannot be told from an answer to nothing.
            return
        early = history.state in (State.IDLE, State.INITIALIZING, State.FAILED, State.UNKNOWN)
        asked = Asked(
            passing.seq,
            passing.sender,
            message.id,
            message.method,
            message.params,
            passing.frame.observed_at_ns,
            passing.candidates,
            passing.stateless,
            early,
        )
        before = side.pending.get(message.id)
        if before is not None:
            asked.answers_due += before.answers_due
            if before.method != message.method:
                asked.method = ""
        side.pending[message.id] = passing.asked = asked
        side.used.add(message.id, passing.seq)
        if history.state is State.NEGOTIATED and passing.happened is Input.CLIENT_REQUEST:
            history.eager = asked
        if message.method == "initialize" and passing.sender == CLIENT:
            if history.negotiated is None:
                history.candidates = STATEFUL if history.protocol == "mcp" else ACP
                history.initialize_answered = False
                history.initialize = asked
                declared = member(message.params, "capabilities")
                history.client_capabilities = declared if isinstance(declared, dict) else None
            if history.stateful_seq is None:
                history.stateful_seq = passing.seq

    def _remember_answer(self, passing: Passing, message: Response | ErrorResponse) -> None:
        history = self._history
        asked = passing.answers
        if asked is None:
            return
        side = history.side(asked.sender)
        side.last_answered_seq = max(side.last_answered_seq, asked.seq)
        asked.answered_seq, asked.answered_ns = passing.seq, passing.frame.observed_at_ns
        asked.answers_due -= 1
        if asked.answers_due == 0:
            side.pending.pop(asked.id, None)
        if asked is history.initialize:
            history.initialize_answered = True
            if isinstance(message, Response) and isinstance(message.result, dict):
                self._negotiate(message.result)

    def _negotiate(self, result: JSONObject) -> None:
        history = self._history
        version, declared = result.get("protocolVersion"), result.get("capabilities")
        if history.protocol == "acp":
            history.candidates = acp.named(version)
            history.negotiated = history.candidates[0] if len(history.candidates) == 1 else None
            return
        history.server_capabilities = declared if isinstance(declared, dict) else None
        if isinstance(version, str) and version in STATEFUL:
            history.negotiated = version
            history.candidates = (version,)
            history.unmet = unmet_needs(history, version)

    def _remember_cancellation(self, passing: Passing, message: Notification) -> None:
        id = request_id(member(message.params, "requestId"))
        if id is not None and (asked := self._history.side(passing.sender).pending.get(id)):
            asked.cancelled = True

    def _lose_sight(self) -> None:
        """Something passed unseen: nothing is concluded from what is missing any more."""
        history = self._history
        history.blind = True
        history.state = State.UNKNOWN
        for side in (history.client, history.server):
            side.held.release()


def is_hidden(frame: Frame, pointer: str, answers: Asked | None = None) -> bool:
    """Whether what is said of the place ``pointer`` in a message may hang on something that was masked.

    That is what stands there or beside it, or what was asked, where the message ``answers`` that.
    """
    if answers is not None and isinstance(answers.params, dict) and holds_mask(answers.params):
        return True
    if _MASKED not in frame.raw or pointer.lstrip("/0123456789") in _SHOWN:
        return False
    message = frame.message
    value = [item.value for item in message.items] if isinstance(message, Batch) else message.value
    steps = pointer.split("/")[1:]
    for step in steps[:-1] if len(steps) > 1 else steps:
        if isinstance(value, list):
            value = value[int(step)] if step.isdecimal() and int(step) < len(value) else None
        else:
            value = member(value, step.replace("~1", "/").replace("~0", "~"))
    return isinstance(value, str | list | dict) and holds_mask(cast("JSON", value))


def _mentioned(mentions: tuple[bytes, ...], raw: bytes) -> bool:
    for mention in mentions:  # noqa: SIM110 # any() takes longer than the search
        if mention in raw:
            return True
    return False


def _retyped(id: RequestId) -> RequestId:
    """The same id as the other JSON type, for an answer that got the type wrong."""
    if isinstance(id, int):
        return str(id)
    return int(id) if id.removeprefix("-").isdecimal() and len(id) < 20 else id
