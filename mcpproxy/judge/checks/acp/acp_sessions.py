"""The sessions of the Agent Client Protocol: a client opens them after initialize, before it uses them.

The client is an editor, the server of the connection an agent. What happens in a session is judged by
``turns`` (prompts and stop reasons) and ``reported_work`` (tool calls).

Source: https://agentclientprotocol.com/protocol/v1/session-setup
"""

from collections.abc import Iterator
from typing import Final

from mcpproxy.base.slotted import field, slotted
from mcpproxy.judge.checks.engine.context import MessageContext, Violation
from mcpproxy.judge.checks.engine.rows import ACP_ONLY, ANSWERS, Check, RuleFamily, StateUpdate
from mcpproxy.judge.session.frame import CLIENT, SERVER
from mcpproxy.judge.session.history import History
from mcpproxy.protocol import acp
from mcpproxy.protocol.jsonrpc import ErrorResponse, Notification, Request, Response
from mcpproxy.protocol.message_parts import member
from mcpproxy.protocol.wording import shown

MAX_REMEMBERED: Final = 4096
"""The number of sessions that are remembered."""

_CREATING: Final = ("session/new", "session/fork")
"""Requests that create a session: the client learns its id from the answer."""

_NOT_OPENING: Final = ("session/list", "session/delete")
"""Methods whose result may contain a session id without opening that session."""


@slotted()
class AcpSession:
    """One session of an agent.

    - ``is_open`` is set once the agent has opened the session, or the client has prompted it; not while
      the first session/load or session/resume of the session is unanswered.
    - ``is_new`` is set if session/new created the session, and the client has neither closed nor deleted it.
    - ``turn`` is what ``turns`` remembers about the latest prompt.
    - ``calls`` are the tool calls that the agent reported.
    """

    is_open: bool = False
    is_new: bool = False
    turn: "PromptTurn" = field(default_factory=lambda: PromptTurn())
    calls: "ReportedCalls" = field(default_factory=lambda: ReportedCalls())


@slotted()
class PromptTurn:
    """The agent's work on one prompt.

    ``busy`` is set during a turn, ``cancel_seq`` and ``cancel_ns`` are the frame and the time of the first
    session/cancel in that turn. ``last_cancel_seq`` is the latest frame that cancelled any turn of the
    session. The other fields are used in version 2 only. ``idle_seq`` is the frame of the latest state update
    that said that the agent is idle. ``works`` is set while the agent says that it works. ``has_stopped`` is
    set once it gave a stop reason in this session. ``prompt_seq`` is the frame of the prompt that found the
    agent idle, 0 once its work has ended; the last three fields say what the agent has done since then.
    """

    busy: bool = False
    cancel_seq: int = 0
    cancel_ns: int = 0
    last_cancel_seq: int = 0
    idle_seq: int = 0
    works: bool = False
    has_stopped: bool = False
    prompt_seq: int = 0
    prompt_accepted: bool = False
    message_reported: bool = False
    work_reported: bool = False


@slotted()
class ReportedCalls:
    """The tool calls that an agent reported in a session, in version 1.

    ``known`` are the ids of all, ``unfinished`` those of the running turn that have not ended, ``cancelled``
    those that had not ended when the agent confirmed the client's cancel. ``forgot_some`` is set once an
    id was dropped from ``known``.
    """

    known: dict[str, None] = field(default_factory=dict[str, None])
    unfinished: dict[str, None] = field(default_factory=dict[str, None])
    cancelled: dict[str, None] = field(default_factory=dict[str, None])
    forgot_some: bool = False


@slotted()
class Sessions:
    """The sessions of a connection.

    ``open`` has, by id and oldest first, those that are open or about to be loaded or resumed.
    ``mentioned`` are all session ids that either side has sent in a place where the other side learns of a
    session. ``forgot_some`` is set once a session was dropped from ``open`` or ``mentioned``: from then on an
    unknown id is not reported. ``initialize_failed`` is set if the latest initialize was answered with an
    error. ``sent_too_early`` is set once the client sent a session request before the handshake was complete:
    only the first such request is reported. ``has_extensions`` is set once either side has sent a message
    that the protocol does not define: such a message may open sessions, terminals and more.
    """

    open: dict[str, AcpSession] = field(default_factory=dict[str, AcpSession])
    mentioned: dict[str, None] = field(default_factory=dict[str, None])
    forgot_some: bool = False
    initialize_failed: bool = False
    sent_too_early: bool = False
    has_extensions: bool = False

    def add(self, id: str) -> AcpSession:
        """Return the session with this id, which is new if it was unknown; drop the oldest if need be."""
        session = self.open.setdefault(id, AcpSession())
        if len(self.open) > MAX_REMEMBERED:
            self.forgot_some = True
            del self.open[next(iter(self.open))]
        return session

    def mention(self, id: object) -> None:
        """Record that both sides may know the session with this id."""
        if isinstance(id, str) and id not in self.mentioned:
            self.mentioned[id] = None
            if len(self.mentioned) > MAX_REMEMBERED:
                self.forgot_some = True
                del self.mentioned[next(iter(self.mentioned))]

    def of(self, id: object) -> AcpSession | None:
        """Return the session with this id, ``None`` if it is not in ``open``."""
        return self.open.get(id) if isinstance(id, str) else None


def all_was_seen(history: History) -> bool:
    """Whether everything that both sides may refer to was seen, so that an unknown id is a fault.

    False if the handshake or other messages are missing or could not be read, or if there were extensions.
    """
    return (
        history.negotiated is not None
        and not history.has_gap
        and history.client.fully_read
        and history.server.fully_read
        and not history.of(Sessions).has_extensions
    )


def session_id(context: MessageContext) -> str | None:
    """Return the session id in the params of a request or notification; ``None`` if there is none."""
    params = context.contents
    id = params.get("sessionId") if type(params) is dict else None
    return id if type(id) is str else None


# Before there is a session


def early_message(context: MessageContext[Request | Notification], history: History) -> Iterator[Violation]:
    """Report the first message about sessions that the client sends before initialize has succeeded
    (ACP-006).
    """
    message, sessions = context.message, history.of(Sessions)
    if sessions.sent_too_early or history.has_gap:
        return
    if not message.method.startswith("session/") or history.negotiated is not None:
        return
    initialize = history.initialize
    if initialize is None:
        problem, related = f"client sent {message.method} before initialize", ()
    elif not history.initialize_answered:
        problem, related = f"client sent {message.method} before initialize was answered", (initialize.seq,)
    elif sessions.initialize_failed:
        problem, related = f"client sent {message.method} although initialize failed", (initialize.seq,)
    else:
        return  # The result does not say which version was chosen; another rule reports that.
    yield Violation("ACP-006", "A-018", problem, pointer=context.at + "/method", related=related)


def remember_message(context: MessageContext[Request | Notification], history: History) -> None:
    """Record which session the message is about, and whether it is an extension or came too early."""
    message, sessions = context.message, history.of(Sessions)
    id = session_id(context)
    if id is not None and id not in sessions.mentioned:
        sessions.mention(id)
    if not acp.is_defined(message.method):
        sessions.has_extensions = True
    elif history.negotiated is None and context.sender == CLIENT and message.method.startswith("session/"):
        sessions.sent_too_early = True


def unknown_session(context: MessageContext[Request | Notification], history: History) -> Iterator[Violation]:
    """Report a session id that was not opened on this connection (ACP-007)."""
    message, sessions = context.message, history.of(Sessions)
    id = session_id(context)
    if id is None or context.sender != CLIENT or id in sessions.open:
        return
    if sessions.forgot_some or sessions.sent_too_early or history.has_gap or history.negotiated is None:
        return
    if not history.server.fully_read:
        return
    problem = f"client sent {message.method} for session {shown(id)}, which was not opened on this connection"
    pointer = context.at + "/params/sessionId"
    if message.method == "session/prompt":
        yield Violation("ACP-007", "A-019", problem, pointer=pointer)
    else:
        yield Violation("ACP-007", "A-020", problem, pointer=pointer)


def unknown_agent_session(
    context: MessageContext[Request | Notification], history: History
) -> Iterator[Violation]:
    """Report an agent's message about a session that neither side has opened or named before (ACP-018)."""
    sessions, id = history.of(Sessions), session_id(context)
    if id is None or id in sessions.mentioned or context.sender != SERVER:
        return
    if sessions.forgot_some or not all_was_seen(history):
        return
    # The agent may report about a new session before the answer that names it.
    if any(request.method in _CREATING for request in history.client.pending.values()):
        return
    problem = f"agent sent {context.method} for session {shown(id)}, which nothing has opened"
    yield Violation("ACP-018", "A-045", problem, pointer=context.at + "/params/sessionId")


def repeated_session_id(context: MessageContext[Response], history: History) -> Iterator[Violation]:
    """Report a new session with the id of an earlier one that is still open (ACP-021)."""
    id = member(context.message.result, "sessionId")
    session = history.of(Sessions).of(id)
    if context.sender == SERVER and session is not None and session.is_new:
        problem = f"agent gave a new session the id {shown(id)}, which another open session has"
        yield Violation("ACP-021", "A-053", problem, pointer=context.at + "/result/sessionId")


def batched_setup(context: MessageContext[Request], history: History) -> Iterator[Violation]:
    """Report a request in a batch, in version 2, although it changes which later messages are valid
    (ACP-024).
    """
    if context.at and context.sender == CLIENT and context.candidates == (acp.SECOND,):
        problem = f"client put {context.message.method} into a batch; later messages depend on its answer"
        yield Violation("ACP-024", "A-058", problem, pointer=context.at + "/method")


def remember_opening(context: MessageContext, history: History) -> None:
    """Record the session that session/load or session/resume is to open."""
    id = session_id(context)
    if id is not None and context.sender == CLIENT:
        history.of(Sessions).add(id)


def remember_subagent(context: MessageContext[Notification], history: History) -> None:
    """Record the session of a subagent, which the agent announces in the session above it."""
    update, sessions = member(context.message.params, "update"), history.of(Sessions)
    id = member(update, "sessionId")
    if member(update, "sessionUpdate") == "subagent_update" and isinstance(id, str):
        sessions.mention(id)
        sessions.add(id).is_open = True


def remember_end(context: MessageContext, history: History) -> None:
    """Record that the client closes or deletes a session: the agent may give its id to a new one."""
    session = history.of(Sessions).of(session_id(context))
    if session is not None and context.sender == CLIENT:
        session.is_new = False


def remember_answer(context: MessageContext, history: History) -> None:
    """Record the sessions that a result opens or names, and whether initialize failed.

    A session that was closed, or that could not be opened, is forgotten.
    """
    request, message, sessions = context.answers, context.message, history.of(Sessions)
    if request is None or context.sender != SERVER:
        return
    if request is history.initialize:
        sessions.initialize_failed = isinstance(message, ErrorResponse)
    requested_id = member(request.params, "sessionId")
    if isinstance(message, Response):
        opened_id = member(message.result, "sessionId")
        sessions.mention(opened_id)
        if request.method == "session/list":
            listed = member(message.result, "sessions")
            for listed_session in listed if isinstance(listed, list) else ():
                sessions.mention(member(listed_session, "sessionId"))
        if (
            isinstance(opened_id, str)
            and request.method.startswith("session/")
            and request.method not in _NOT_OPENING
        ):
            session = sessions.add(opened_id)
            session.is_open, session.is_new = True, request.method == "session/new"
        if request.method in acp.SETUP and isinstance(requested_id, str):
            sessions.add(requested_id).is_open = True
        if request.method == "session/close" and isinstance(requested_id, str):
            sessions.open.pop(requested_id, None)
    elif request.method in ("session/load", "session/resume") and isinstance(requested_id, str):
        # A session that was open before stays open: only the new attempt to open it has failed.
        session = sessions.open.get(requested_id)
        if session is not None and not session.is_open:
            del sessions.open[requested_id]


_NOT_IN_BATCHES: Final = ("initialize", "auth/login", "session/new", "session/resume", "session/prompt")
"""Requests that must not be in a batch, because later messages depend on their answers."""
_FROM_AGENT: Final = (
    "session/request_permission",
    "fs/read_text_file",
    "fs/write_text_file",
    "terminal/create",
    "elicitation/create",
)
"""Requests of the agent that name a session."""

FAMILY: Final = RuleFamily(
    checks=(
        Check(("ACP-006",), early_message, (Request,), (), ACP_ONLY, CLIENT),
        Check(("ACP-006",), early_message, (Notification,), (), ACP_ONLY, CLIENT),
        Check(("ACP-007",), unknown_session, (Request,), acp.USES_SESSION, ACP_ONLY),
        Check(("ACP-007",), unknown_session, (Notification,), ("session/cancel",), ACP_ONLY),
        Check(("ACP-018",), unknown_agent_session, (Request,), _FROM_AGENT, ACP_ONLY),
        Check(("ACP-018",), unknown_agent_session, (Notification,), ("session/update",), ACP_ONLY),
        Check(("ACP-021",), repeated_session_id, (Response,), ("session/new",), ACP_ONLY),
        Check(("ACP-024",), batched_setup, (Request,), _NOT_IN_BATCHES, ACP_ONLY),
    ),
    updates=(
        StateUpdate(remember_message, (Request, Notification), (), ACP_ONLY),
        StateUpdate(remember_opening, (Request,), ("session/load", "session/resume"), ACP_ONLY),
        StateUpdate(remember_end, (Request,), ("session/close", "session/delete"), ACP_ONLY),
        StateUpdate(remember_answer, ANSWERS, (), ACP_ONLY),
        StateUpdate(
            remember_subagent,
            (Notification,),
            ("session/update",),
            ACP_ONLY,
            SERVER,
            mentions=(b'"subagent_update"',),
        ),
    ),
)
