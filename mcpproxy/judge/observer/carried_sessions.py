"""Judge the MCP sessions that an ACP connection carries (see ``protocol.mcp_in_acp``).

There is one judge for each *channel*: an MCP server, or a connection to one. When an ACP message that carries
an MCP message is judged, the MCP message is judged as part of its own session. Both have the same frame, and
findings blame the ACP peer that sent it. Either peer may be the MCP client: the agent uses the servers of its
client, and a conductor (which runs a chain of ACP proxies) uses those of its proxy. An ACP error that is not
MCP's ends an MCP request like a cancellation.

These judges do not receive the end of the recording, because the judge of ACP reports unanswered requests.
"""

from functools import lru_cache
from typing import Final

from mcpproxy.base.slotted import slotted
from mcpproxy.judge.checks.engine.context import MessageContext
from mcpproxy.judge.checks.engine.dispatch import Dispatch
from mcpproxy.judge.checks.engine.rows import ANY_PROTOCOL
from mcpproxy.judge.observer.findings import Envelope, FindingBuilder
from mcpproxy.judge.observer.memory_limit import MemoryUse
from mcpproxy.judge.observer.message_judge import MessageJudge
from mcpproxy.judge.session.frame import CLIENT, SERVER, Finding, Frame, Gap, Sender
from mcpproxy.judge.session.history import History, keep_latest
from mcpproxy.protocol import mcp_in_acp
from mcpproxy.protocol.jsonrpc import ErrorResponse, Notification, Request, Response
from mcpproxy.protocol.jsontext import compact_json
from mcpproxy.protocol.mcp_in_acp import Carried, Channel
from mcpproxy.protocol.message_parts import as_object, member
from mcpproxy.protocol.wording import shown

MAX_REMEMBERED: Final = 256
"""The number of sessions that are judged at a time, and of names of servers that are remembered."""

_LEFT_OUT: Final = {
    # The ACP sessions share the server. Each may have its own MCP client with its own tokens and lists.
    "serverId": frozenset({"PROG-002", "PROG-004", "PROG-005", "PROM-003", "RES-005", "TOOL-006"}),
    # MCP requests have no ids. So nothing shows which request was cancelled, or has a subscription.
    "connectionId": frozenset({"PROG-002", *(f"SUB-{number:03}" for number in range(3, 11))}),
}
"""By ``Channel.by``: rules that correct sessions of the channel may seem to break."""


@slotted(eq=False)
class _Session:
    """An MCP session. Its findings use ``name``: the name of its server, or else the server's id.

    ``client`` is the ACP peer that is the MCP client.
    """

    judge: MessageJudge
    name: str
    client: Sender

    def role(self, sender: Sender) -> Sender:
        """Return the role in MCP of an ACP peer."""
        return CLIENT if sender == self.client else SERVER


class CarriedSessions:
    """Judges the MCP sessions in one ACP connection with the checks in ``dispatch``."""

    def __init__(self, build_findings: FindingBuilder, dispatch: Dispatch, memory_use: MemoryUse) -> None:
        self._build_findings: Final = build_findings
        self._dispatch: Final = dispatch
        self._memory_use: Final = memory_use
        self._sessions: Final[dict[Channel, _Session]] = {}
        self._names: Final[dict[str, str]] = {}
        """Id of a server -> its name, as the ACP client gave it."""
        self._forgot_some = False
        """Whether sessions were forgotten because there were too many, so a new session may be an old one."""

    @property
    def remembered(self) -> object:
        """The state of this object, for measuring its size."""
        return self._sessions, self._names

    def observe_gap(self, gap: Gap) -> None:
        """Note that messages are missing, perhaps some of every session."""
        for session in self._sessions.values():
            session.judge.observe(gap)

    def forget_finished(self) -> None:
        """Forget answered requests in all sessions."""
        for session in self._sessions.values():
            session.judge.history.forget_finished()

    def forget(self) -> None:
        """Forget all sessions: that of a server is judged on as joined late, that of a connection no more."""
        self._sessions.clear()
        self._names.clear()

    def judge(self, context: MessageContext, history: History) -> list[Finding]:
        """Judge the MCP message in an ACP message whose method is one of ``acp.ABOUT_SERVERS``.

        ``history`` is the history of the ACP connection before the message.
        """
        message = context.message
        if context.method == mcp_in_acp.MESSAGE:
            return self._judge_carried(context, history)
        if context.frame.refused:
            return []
        match context.method:
            case mcp_in_acp.CONNECT:
                if isinstance(message, Response):
                    self._begin_connected_session(context, message, history)
            case mcp_in_acp.DISCONNECT:
                if isinstance(message, Response) and context.answers is not None:
                    channel = mcp_in_acp.channel_of(context.answers.params)
                    if channel is not None:
                        self._sessions.pop(channel, None)
            case _:
                if isinstance(message, Request):
                    self._remember_names(message)
        return []

    def _remember_names(self, message: Request) -> None:
        servers = member(message.params, "mcpServers")
        for server in servers if isinstance(servers, list) else ():
            id, name = mcp_in_acp.name_in(server, "serverId", "id"), mcp_in_acp.name_in(server, "name")
            if id is not None and name is not None and member(server, "type") == "acp":
                keep_latest(self._names, id, name, MAX_REMEMBERED)

    def _begin_connected_session(self, context: MessageContext, message: Response, history: History) -> None:
        """Begin the session of a new connection."""
        name, request = mcp_in_acp.name_in(message.result, "connectionId"), context.answers
        if name is None or request is None:
            return
        id = mcp_in_acp.name_in(request.params, "serverId", "acpId") or name
        channel = Channel("connectionId", name)
        known = self._sessions.pop(channel, None)
        if known is None or known.client == request.sender:  # Otherwise both peers use this name.
            self._begin_session(channel, id, request.sender, history, joined_late=history.has_gap)

    def _begin_session(
        self, channel: Channel, id: str, client: Sender, history: History, *, joined_late: bool
    ) -> _Session:
        """Begin the session of a channel; ``id`` is the id of its server, or else the channel's name."""
        judge = MessageJudge(
            self._build_findings,
            self._dispatch,
            self._memory_use,
            revision=mcp_in_acp.SERVER_REVISION if channel.by == "serverId" else None,
            joined_late=joined_late,
            masked=history.masked,
        )
        session, count = _Session(judge, self._names.get(id, id), client), len(self._sessions)
        keep_latest(self._sessions, channel, session, MAX_REMEMBERED)
        self._forgot_some = self._forgot_some or len(self._sessions) <= count
        return session

    def _session_of(self, channel: Channel) -> _Session | None:
        """Return the session of a channel, marked as the most recently used; ``None`` if it is unknown."""
        session = self._sessions.pop(channel, None)
        if session is not None:
            self._sessions[channel] = session
        return session

    def _judge_carried(self, context: MessageContext, history: History) -> list[Finding]:
        """Judge the MCP message in ``mcp/message``."""
        message, request = context.message, context.answers
        if isinstance(message, Request | Notification):
            channel, carried = mcp_in_acp.channel_of(message.params), mcp_in_acp.carried_call(message)
            if channel is None or carried is None:
                return []
            session = self._session_of(channel)
            if session is None:
                # The MCP client of a connection is the peer that opened it. That of a server is the sender of
                # the first request, because servers of this revision send none and there is no handshake.
                if channel.by == "connectionId" or isinstance(message, Notification):
                    return []
                is_late = history.has_gap or self._forgot_some
                session = self._begin_session(
                    channel, channel.name, context.sender, history, joined_late=is_late
                )
            if channel.by == "connectionId" and _names_an_id(carried):
                return []
            return self._judge_in_session(session, context, carried, channel)
        if request is None or not isinstance(message, Response | ErrorResponse):
            return []
        channel = mcp_in_acp.channel_of(request.params)
        session = self._session_of(channel) if channel is not None else None
        id = mcp_in_acp.mcp_id(request.id, as_object(request.params) or {})
        if channel is None or session is None or id is None:
            return []
        requestor = session.judge.history.side(session.role(request.sender))
        mcp_request = requestor.pending.get(id)
        if mcp_request is None or mcp_request.seq != request.seq:
            return []
        carried = mcp_in_acp.carried_answer(message, channel, id)
        if carried is not None:
            return self._judge_in_session(session, context, carried, channel)
        if not context.frame.refused:
            mcp_request.cancelled = True
            requestor.pending.pop(id)
        return []

    def _judge_in_session(
        self, session: _Session, context: MessageContext, carried: Carried, channel: Channel
    ) -> list[Finding]:
        """Judge an MCP message as part of its session."""
        outer, build_findings = context.frame, self._build_findings
        frame = Frame(
            outer.seq,
            session.role(outer.sender),
            compact_json(carried.message.value),  # pyright: ignore[reportArgumentType] # it is an object
            outer.observed_at_ns,
            refused=outer.refused,
        ).with_message(carried.message)
        build_findings.envelope = Envelope(
            context.at + carried.at,
            f"{context.at}/params/requestId" if channel.by == "serverId" else None,
            f"in the MCP session {shown(session.name)}: ",
            session.client,
            _rules_left_out(self._dispatch, channel.by),
        )
        try:
            return session.judge.judge_frame(frame)
        finally:
            build_findings.envelope = None


@lru_cache(maxsize=64)
def _rules_left_out(dispatch: Dispatch, by: str) -> frozenset[str]:
    """Return the rules that MCP messages in an ACP message are not judged by.

    ``by`` is ``Channel.by``. If the channel is a connection, they include the rules about the JSON-RPC
    envelope, which only the ACP message has.
    """
    rows = dispatch.message_checks if by == "connectionId" else ()
    return _LEFT_OUT[by].union(*(row.rules for row in rows if row.protocols == ANY_PROTOCOL))


def _names_an_id(carried: Carried) -> bool:
    """Whether a message refers to a request by its id. The MCP requests of a connection have no ids."""
    message = carried.message
    return isinstance(message, Notification) and message.method == "notifications/cancelled"
