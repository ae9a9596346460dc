"""The judge of one session's messages, over any transport.

The judge classifies each message (``classify``), runs the checks that apply, and then adds the message to the
history (``update``). So a check sees the history as it was before the message. No check changes the history.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Final, TypeAlias

from mcpproxy.judge.checks import BATCH_CHECKS, ENVELOPE_RULES, FRAME_CHECKS
from mcpproxy.judge.checks.basic.frames import BOM, looks_meant
from mcpproxy.judge.checks.engine.context import MessageContext, Violation
from mcpproxy.judge.checks.engine.dispatch import Dispatch, is_plain
from mcpproxy.judge.checks.engine.rows import AT_START, MISSHAPEN, UNFAMILIAR
from mcpproxy.judge.checks.transports.stdio import (
    is_stray,
    other_transport,
    split_message,
    spread_output,
    stray_array,
)
from mcpproxy.judge.observer.classify import asked_in, context_of, is_acp
from mcpproxy.judge.observer.findings import FindingBuilder
from mcpproxy.judge.observer.hidden_values import is_hidden
from mcpproxy.judge.observer.memory_limit import MOST_BYTES, MemoryUse, measure, weight
from mcpproxy.judge.observer.repeated_noise import NOISE_BYTES, NOT_AN_OBJECT, RepeatedNoise
from mcpproxy.judge.observer.update import remember
from mcpproxy.judge.session.frame import (
    CLIENT,
    SERVER,
    Close,
    Eof,
    Event,
    Finding,
    Frame,
    Gap,
    Sender,
    Signal,
    Stderr,
    other,
)
from mcpproxy.judge.session.history import History, UsedIds
from mcpproxy.judge.session.pretty_printed import is_meant
from mcpproxy.protocol import acp
from mcpproxy.protocol.jsonrpc import (
    ABSENT,
    Batch,
    ErrorResponse,
    Flaw,
    Malformed,
    Message,
    Request,
    Single,
    parse_leniently,
)
from mcpproxy.protocol.lifecycle import State
from mcpproxy.protocol.revisions import ACP, STATEFUL, STATELESS

JudgeCarried: TypeAlias = Callable[[MessageContext, History], list[Finding]]
"""Judges the MCP message that an ACP message carries (``CarriedSessions.judge``)."""

_BYTES_PER_ITEM: Final = 600
"""The approximate size, in bytes, of the memory for an element of a batch, in addition to the batch."""

_HARMLESS_SIGNALS: Final = ("SIGWINCH", "SIGCONT", "SIGTSTP")
"""Signals that do not end a server."""


class MessageJudge:
    """Judges the messages of one session.

    ``revision`` is the protocol revision of a session whose handshake was not recorded; ``asked`` is the
    revision that a client requested in an earlier session. ``joined_late`` says that the start of the session
    was not recorded, ``masked`` that values in its messages may be masked. ``over_http`` says that the
    messages went over HTTP; the first frame of an HTTP exchange shows it, too. ``memory_use`` estimates the
    memory that the history takes. If ``judge_carried`` is given, the session may turn out to use ACP;
    ``judge_carried`` then judges the messages with a method of ``acp.ABOUT_SERVERS``.
    """

    def __init__(
        self,
        build_findings: FindingBuilder,
        dispatch: Dispatch,
        memory_use: MemoryUse | None = None,
        *,
        revision: str | None = None,
        asked: str = "",
        joined_late: bool = False,
        masked: bool = False,
        over_http: bool = False,
        judge_carried: JudgeCarried | None = None,
    ) -> None:
        self._build_findings = build_findings
        self._dispatch = dispatch
        self._asked = asked
        self._memory_use = memory_use or MemoryUse()
        self._noise = RepeatedNoise(build_findings)
        self._history = History(facts=AT_START, masked=masked, over_http=over_http)
        self._judge_carried_in_acp = judge_carried
        self._judge_carried: JudgeCarried | None = None
        """As ``_judge_carried_in_acp``, but ``None`` until the session has shown that it uses ACP."""
        if revision in STATELESS:
            self._history.only_stateless, self._history.candidates = True, (revision,)
        elif revision in STATEFUL:
            self._history.negotiated = revision
            self._history.candidates = (revision,)
            self._history.state = State.OPERATING
        if joined_late:
            self._mark_gap()

    @property
    def revision(self) -> str | None:
        """The protocol revision of the session; ``None`` while it is unknown.

        It is the negotiated one, or without any handshake the one that the latest stateless request named.
        """
        history = self._history
        if history.negotiated is not None:
            return history.negotiated
        return history.stateless_revision if history.stateful_seq is None else None

    @property
    def asked(self) -> str:
        """The negotiated revision, or else the one that the client requested, here or in an earlier session.

        It is empty if neither is known.
        """
        history = self._history
        if history.negotiated is not None:
            return history.negotiated
        return asked_in(history.initialize.params) if history.initialize is not None else self._asked

    @property
    def history(self) -> History:
        """The state of the session so far. Only the judge changes it."""
        return self._history

    def observe(self, event: Event) -> list[Finding]:
        """Judge one event. This does not raise, whatever the peers send."""
        if type(event) is Frame:
            return self.judge_frame(event)
        match event:
            case Eof():
                self._history.side(event.sender).closed_ns = event.observed_at_ns
                return self._judge_held_lines(event.sender)
            case Gap():
                self._mark_gap()
                return []
            case Signal() | Close():
                return self._judge_event(event)
            case Stderr():
                return self._judge_stderr(event)
            case _:
                return []

    def undo_refused_frame(self, frame: Frame, messages: tuple[Single, ...]) -> None:
        """Undo a frame of the client that was refused, redirected or not answered over HTTP."""
        history, client = self._history, self._history.client
        for message in messages:
            if isinstance(message, Request) and message.id is not None:
                client.used_ids.discard(message.id, frame.seq)
                client.refused_ids.add(message.id, frame.seq)
                if (request := client.pending.get(message.id)) and request.seq == frame.seq:
                    request.refused_by_http = True
                    del client.pending[message.id]
        if history.initialized_seq == frame.seq:
            history.initialized, history.initialized_seq = False, None
            history.state = State.NEGOTIATED if history.state is State.OPERATING else history.state
        if (
            history.request_before_initialized is not None
            and history.request_before_initialized.seq == frame.seq
        ):
            history.request_before_initialized = None
            history.state = State.NEGOTIATED if history.state is State.EAGER else history.state
        if history.instead_of_initialized_seq == frame.seq:
            history.instead_of_initialized_seq = None

    def _judge_event(self, event: Signal | Close) -> list[Finding]:
        """Judge a signal or the end of the recording."""
        findings: list[Finding] = []
        if isinstance(event, Close):
            findings += self._judge_held_lines("client") + self._judge_held_lines("server")
        elif event.name not in _HARMLESS_SIGNALS:
            self._history.is_signalled = True
        for row in self._dispatch.event_checks:
            findings += self._findings(row.check(event, self._history), 0, "client", self._history.candidates)
        return findings

    def _judge_stderr(self, line: Stderr) -> list[Finding]:
        """Note and judge a line that the server wrote to stderr. Only opt-in rules judge it."""
        history, findings = self._history, list[Finding]()
        history.has_stderr = True
        for row in self._dispatch.stderr_checks:
            findings += self._findings(row.check(line, history), 0, SERVER, history.candidates)
            row.remember(line, history)
        return findings

    # From frames to messages

    def judge_frame(self, frame: Frame) -> list[Finding]:
        """Judge one frame; one that mcpproxy sent, or a piece of a longer message, is not judged."""
        if frame.by_proxy:
            return []
        history = self._history
        if frame.exchange:
            history.over_http = True
            return self._judge_alone(frame)
        side = history.client if frame.sender == CLIENT else history.server
        if frame.continues or side.in_pieces:
            side.in_pieces = frame.continues
            side.sent_unreadable = True
            return []
        message = frame.parsed or frame.message
        if side.held_lines.frames or isinstance(message, Malformed):
            return [] if self._has_other_framing(frame.sender) else self._judge_part(frame)
        if isinstance(message, Batch):
            return self._judge_message(frame, message)
        return self._judge_single(frame, message, "")

    def _judge_part(self, frame: Frame) -> list[Finding]:
        """Judge a line that alone is not a message, or that follows held lines.

        Lines that may be one message on several lines are held until that is certain (see
        ``mcpproxy.judge.session.pretty_printed``).
        """
        held_lines = self._history.side(frame.sender).held_lines
        if not held_lines.hold(frame):
            return self._judge_held_lines(frame.sender) + self._judge_alone(frame)
        if (joined := held_lines.whole()) is None and not held_lines.is_printed():
            return []
        lines = held_lines.release()
        if joined is None or not is_meant(joined.message):
            violation = spread_output(frame.sender, lines, is_json=joined is not None)
            return self._findings_of_frame(violation, frame)
        findings = self._findings_of_frame(split_message(frame.sender, lines), frame)
        if isinstance(joined.message, Malformed):
            # The other side may answer the message with an error that has its id.
            self._history.side(frame.sender).note_unread(joined.raw)
        return findings + self._judge_message(joined, joined.message)

    def _findings(
        self,
        violations: Iterable[Violation],
        seq: int,
        sender: Sender,
        candidates: tuple[str, ...],
        message: Message | None = None,
    ) -> Iterator[Finding]:
        """Yield the findings for ``violations``; ``message`` is the message that they are about, if any."""
        asked = self.asked
        if not asked and type(message) is Request and message.method in acp.INITIALIZE:
            asked = asked_in(message.params)
        return self._build_findings(violations, seq, sender, candidates, asked)

    def _findings_of_frame(self, violation: Violation, frame: Frame) -> list[Finding]:
        """Return the findings of a violation by a frame that is not a single message."""
        return list(self._findings((violation,), frame.seq, frame.sender, self._history.candidates))

    def _judge_held_lines(self, sender: Sender) -> list[Finding]:
        """Judge the held lines of ``sender`` one by one, because they turned out not to be one message."""
        held_lines = self._history.side(sender).held_lines
        return [finding for frame in held_lines.release() for finding in self._judge_alone(frame)]

    def _judge_alone(self, frame: Frame) -> list[Finding]:
        """Judge a frame by itself; if its bytes are not valid JSON text, read it leniently."""
        message = frame.message
        if type(message) is Malformed and not frame.exchange and other_transport(frame.raw):
            side = self._history.side(frame.sender)
            side.has_other_framing = True
            side.sent_unreadable |= self._has_other_framing(frame.sender)
        if type(message) is Malformed and len(frame.raw) <= NOISE_BYTES and not frame.exchange:
            judge = partial(self._judge_leniently, frame, message)
            return self._noise.judge(frame.raw, frame, self._history, self._dispatch, judge)
        return self._judge_leniently(frame, message)

    def _has_other_framing(self, sender: Sender) -> bool:
        """Whether the lines of ``sender`` belong to another transport; only the first of them is reported.

        They do if one has looked like the beginning of another transport, as long as no message of ``sender``
        could be read. If a message was read, such a line is only stray output.
        """
        side, peer = self._history.side(sender), self._history.side(other(sender))
        sent_message = side.used_ids.size or side.latest_notifications
        sent_answer = peer.last_answered_seq or peer.refused_seq
        return side.has_other_framing and not sent_message and not sent_answer

    def _judge_leniently(self, frame: Frame, message: Message) -> list[Finding]:
        """Judge a frame, and if it is not valid JSON, the message that a lenient parser reads from it."""
        if not isinstance(message, Malformed) or message.flaw in (Flaw.SCALAR, Flaw.EMPTY):
            return self._judge_message(frame, message)
        findings: list[Finding] = []
        context = MessageContext(frame, frame.sender, message, self._history.candidates)
        if message.value is ABSENT:
            lenient_message = parse_leniently(frame.raw.removeprefix(BOM))
            if isinstance(lenient_message, Malformed):
                lenient_message = None  # The lenient parser found no message either.
            if lenient_message is None and (message.flaw is Flaw.TOO_DEEP or looks_meant(frame)):
                self._note_unreadable(frame)
            if lenient_message is not None:
                checks = FRAME_CHECKS
            elif looks_meant(frame):
                checks = FRAME_CHECKS[:1]  # It was meant as a message, but no parser can read it.
            else:
                checks = ()
            for _, check in checks:
                violations = check(context, self._history)
                findings += self._findings(
                    violations, frame.seq, frame.sender, context.candidates, lenient_message
                )
            if lenient_message is not None:
                return findings + self._judge_message(frame, lenient_message)
            if message.flaw is Flaw.TOO_DEEP:
                return findings
        elif isinstance(message.value, dict) and "id" in message.value:
            # The other side may answer the message with an error that has its id.
            self._history.side(frame.sender).note_unread(frame.raw)
        return findings + self._judge_message(frame, message)

    def _note_unreadable(self, frame: Frame) -> None:
        """Note a frame that was meant as a message, but that no parser can read."""
        side = self._history.side(frame.sender)
        if frame.terminated or frame.exchange:
            side.note_unread(frame.raw)
        else:
            side.cut_bytes = len(frame.raw)  # the receiver waits for its end

    def _judge_message(self, frame: Frame, message: Message) -> list[Finding]:
        """Judge ``message``, which was read from ``frame``; if it is a batch, judge each element."""
        history = self._history
        if not isinstance(message, Batch):
            return self._judge_single(frame, message, "")
        if is_stray(message) and not frame.exchange:
            history.side(frame.sender).note_unread(frame.raw)
            history.side(frame.sender).notified_seq = 0
            return self._findings_of_frame(stray_array(frame.sender), frame)
        # A context has a single message, so it gets a ``Malformed`` in place of the batch.
        context = MessageContext(frame, frame.sender, Malformed(Flaw.SCALAR), history.candidates)
        findings: list[Finding] = []
        for _, check in BATCH_CHECKS:
            findings += self._findings(
                check(context, message, history), frame.seq, frame.sender, history.candidates
            )
        self._memory_use.added += weight(frame.raw)
        history.side(frame.sender).sent_invalid = True
        for index, item in enumerate(message.items):
            if type(item) is Malformed and item.flaw is Flaw.SCALAR:  # there may be millions of them
                judge = partial(self._judge_single, frame, item, f"/{index}")
                findings += self._noise.judge(NOT_AN_OBJECT, frame, history, self._dispatch, judge)
            else:
                findings += self._judge_single(frame, item, f"/{index}")
        history.side(frame.sender).notified_seq = 0  # An array is not a notification.
        return findings

    # One message

    def _judge_single(self, frame: Frame, message: Single, pointer: str) -> list[Finding]:
        """Judge the message at the JSON Pointer ``pointer`` of ``frame``, and add it to the history."""
        history = self._history
        if history.negotiated is None and history.stateless_seq is None:
            self._recognise_acp(frame, message)
        context = context_of(frame, message, pointer, history)
        plan = self._dispatch.plans[type(message), context.method, frame.sender, context.candidates]
        contents, facts = context.contents, context.known | history.facts
        if facts & UNFAMILIAR:
            member_plans, fits = plan.member_plans, plan.fits
        else:
            member_plans, fits = plan.familiar_member_plans, plan.familiar_fits
        is_object = type(contents) is dict
        member_plan = member_plans[tuple(contents)] if is_object else plan.no_members
        # Plain contents have the right shape and contain nothing that a check searches for.
        if not (member_plan.may_be_plain and is_object and is_plain(contents)):
            if fits is not None and (plan.mandatory if contents is ABSENT else not fits(contents)):
                facts |= MISSHAPEN
                context.known |= MISSHAPEN
            if member_plan.searches:
                facts |= member_plan.mentioned(frame.raw)
        checks, updates = member_plan.selected[facts]
        findings: list[Finding] = []
        for check in checks:
            for violation in check(context, history):
                pointed = violation.pointer
                if history.masked and pointed and is_hidden(frame, pointed, context.answers):
                    continue
                is_unclear = type(message) is ErrorResponse and message.is_unclear
                if is_unclear and violation.rule not in ENVELOPE_RULES:
                    continue
                findings += self._findings((violation,), frame.seq, frame.sender, context.candidates, message)
        if self._judge_carried is not None and context.method in acp.ABOUT_SERVERS:
            findings += self._judge_carried(context, history)
        if frame.refused:
            if isinstance(message, Request) and message.id is not None:
                # Its sender may still cancel the refused request.
                history.side(frame.sender).refused_ids.add(message.id, frame.seq)
            return findings
        size = 0
        if updates or type(message) is Request:
            size = _BYTES_PER_ITEM if pointer else weight(frame.raw)
            self._memory_use.added += size
        remember(context, history, size)
        for update in updates:
            update(context, history)
        return findings

    def _recognise_acp(self, frame: Frame, message: Single) -> None:
        """Judge the session as one of ACP if its first messages show that; ACP is defined for stdio only."""
        history = self._history
        if history.protocol == "acp" or self._judge_carried_in_acp is None:
            return
        if is_acp(frame, message, history):
            history.protocol, history.candidates = "acp", ACP
            self._judge_carried = self._judge_carried_in_acp
            self._dispatch = self._dispatch.for_protocol("acp")

    def forget(self) -> None:
        """Forget the used ids and, if that does not free enough memory, the history.

        Without its history the session is judged as one that is joined now, but its revision stays known.
        """
        history = self._history
        id_bytes = sum(
            side.used_ids.size + side.refused_ids.size for side in (history.client, history.server)
        )
        for side in (history.client, history.server):
            side.used_ids, side.refused_ids = UsedIds(), UsedIds()
        # If the used ids take most of the memory, forgetting them is enough.
        if id_bytes > MOST_BYTES // 2 and measure(history) <= MOST_BYTES // 2:
            history.has_gap = True
            return
        self._mark_gap()
        for side in (history.client, history.server):
            side.pending.clear()
        history.answered_requests.clear()
        history.request_before_initialized = None
        history.supported_versions.clear()
        history.forget_memories()

    def _mark_gap(self) -> None:
        """Record that messages are missing, so that from now on nothing is concluded from their absence."""
        history = self._history
        history.has_gap = True
        history.state = State.UNKNOWN
        for side in (history.client, history.server):
            side.held_lines.release()
