"""Requests of an agent to its client: permissions, files, terminals and elicitations.

Terminals exist in version 1 only. A terminal that is shown in a tool call need not be one of the client's:
extensions let an agent choose its id. So only the terminal methods are judged.

Source: https://agentclientprotocol.com/protocol/v1/tool-calls
"""

from collections.abc import Iterator
from typing import Final

from mcpproxy.base.slotted import field, slotted
from mcpproxy.judge.checks.acp.acp_sessions import Sessions, all_was_seen
from mcpproxy.judge.checks.engine.context import MessageContext, Violation
from mcpproxy.judge.checks.engine.rows import ACP_ONLY, Check, RuleFamily, StateUpdate
from mcpproxy.judge.session.frame import CLIENT, SERVER
from mcpproxy.judge.session.history import History
from mcpproxy.protocol import acp
from mcpproxy.protocol.jsonrpc import Notification, Request, Response
from mcpproxy.protocol.message_parts import member, or_none
from mcpproxy.protocol.wording import shown

MAX_REMEMBERED: Final = 4096
"""How many terminals and how many elicitations are remembered."""


@slotted()
class ClientObjects:
    """The terminals and the elicitations of a connection, by id.

    ``terminals`` maps each id to whether the terminal was released. ``forgot_some`` is set once an entry was
    dropped: from then on an unknown id is not reported.
    """

    terminals: dict[str, bool] = field(default_factory=dict[str, bool])
    elicitations: dict[str, None] = field(default_factory=dict[str, None])
    forgot_some: bool = False

    def shrink(self) -> None:
        """Drop the oldest entries if there are too many."""
        for table in (self.terminals, self.elicitations):
            if len(table) > MAX_REMEMBERED:
                self.forgot_some = True
                del table[next(iter(table))]


# Permissions


def permission_outcome(context: MessageContext[Response], history: History) -> Iterator[Violation]:
    """Report a choice that was not offered, or a choice in a turn that the client had cancelled (ACP-012).

    A turn is the agent's work on one prompt. An answer with an error is not reported: it is how a client
    confirms that the request was cancelled.
    """
    request = context.answers
    if request is None or context.sender != CLIENT:
        return
    outcome = member(context.message.result, "outcome")
    kind, choice = member(outcome, "outcome"), member(outcome, "optionId")
    at = context.at + "/result/outcome"
    if kind == "selected" and isinstance(choice, str):
        options = member(request.params, "options")
        offered = [member(o, "optionId") for o in options] if isinstance(options, list) else []
        if isinstance(options, list) and choice not in offered:
            problem = f"client selected {shown(choice)}, which is not an option that the agent offered"
            yield Violation("ACP-012", "A-035", problem, pointer=at + "/optionId", related=(request.seq,))
    session = history.of(Sessions).of(member(request.params, "sessionId"))
    if session is None or not isinstance(kind, str) or kind == "cancelled":
        return
    cancel_seq = session.turn.last_cancel_seq
    if request.seq < cancel_seq:
        problem = f'client answered {shown(kind)} after it had cancelled the turn; "cancelled" was expected'
        related = (request.seq, cancel_seq)
        yield Violation("ACP-012", "A-036", problem, pointer=at + "/outcome", related=related)


# Terminals


def invalid_terminal(context: MessageContext[Request], history: History) -> Iterator[Violation]:
    """Report the use of a terminal that was released or never created (ACP-013).

    Releasing a terminal twice is not reported: a release makes it invalid for all *other* methods.
    """
    id, objects = member(context.message.params, "terminalId"), history.of(ClientObjects)
    if not isinstance(id, str) or context.sender != SERVER:
        return
    method, pointer = context.message.method, context.at + "/params/terminalId"
    was_released = objects.terminals.get(id)
    if was_released and method != "terminal/release":
        problem = f"agent sent {method} for terminal {shown(id)}, which it had released"
        yield Violation("ACP-013", "A-037", problem, pointer=pointer)
    elif was_released is None and not objects.forgot_some and all_was_seen(history):
        problem = f"agent sent {method} for terminal {shown(id)}, which the client had not created"
        yield Violation("ACP-013", "A-038", problem, pointer=pointer)


def remember_terminal(context: MessageContext[Response], history: History) -> None:
    """Record the terminal that the client created or released."""
    objects = history.of(ClientObjects)
    if context.method == "terminal/create":
        id, was_released = member(context.message.result, "terminalId"), False
    else:
        id = member(context.answers.params, "terminalId") if context.answers else None
        was_released = True
    if isinstance(id, str) and context.sender == CLIENT:
        objects.terminals.pop(id, None)
        objects.terminals[id] = was_released
        objects.shrink()


# Files


def zero_line(context: MessageContext[Request | Notification], history: History) -> Iterator[Violation]:
    """Report the first line number below one in a message (ACP-014)."""
    for path in acp.LINES[context.message.method]:
        for pointer, line in acp.values_at(or_none(context.message.params), path):
            if type(line) is int and line < 1:
                problem = f"agent gave {line} as the number of a line; the first line is 1"
                yield Violation("ACP-014", "A-040", problem, pointer=f"{context.at}/params{pointer}")
                return


# Elicitations


def concurrent_elicitation(context: MessageContext[Request], history: History) -> Iterator[Violation]:
    """Report a URL elicitation with the id of one that is unanswered (ACP-022)."""
    id = _elicitation_id(context)
    if id is None or context.sender != SERVER:
        return
    for request in history.server.pending.values():
        if request.method == context.method and member(request.params, "elicitationId") == id:
            problem = f"agent sent elicitation {shown(id)} while another with this id is unanswered"
            pointer = context.at + "/params/elicitationId"
            yield Violation("ACP-022", "A-055", problem, pointer=pointer, related=(request.seq,))
            return


def unknown_elicitation(context: MessageContext[Notification], history: History) -> Iterator[Violation]:
    """Report the completion of an elicitation that the agent never requested (ACP-022)."""
    id, objects = member(context.message.params, "elicitationId"), history.of(ClientObjects)
    if not isinstance(id, str) or context.sender != SERVER or id in objects.elicitations:
        return
    if not objects.forgot_some and all_was_seen(history):
        problem = f"agent completed elicitation {shown(id)}, which it had not requested"
        yield Violation("ACP-022", "A-054", problem, pointer=context.at + "/params/elicitationId")


def remember_elicitation(context: MessageContext[Request], history: History) -> None:
    """Record the id of a URL elicitation."""
    id, objects = _elicitation_id(context), history.of(ClientObjects)
    if id is not None and context.sender == SERVER:
        objects.elicitations[id] = None
        objects.shrink()


def _elicitation_id(context: MessageContext[Request]) -> str | None:
    """Return the id of a URL elicitation; ``None`` for a form, which has none."""
    params = context.message.params
    id = member(params, "elicitationId") if member(params, "mode") == "url" else None
    return id if isinstance(id, str) else None


_USES_TERMINAL: Final = ("terminal/output", "terminal/wait_for_exit", "terminal/kill", "terminal/release")
_VERSION_1: Final = (acp.FIRST,)
_LINE: Final = (b'"line"',)
_CREATE_ELICITATION: Final = ("elicitation/create",)

FAMILY: Final = RuleFamily(
    checks=(
        Check(("ACP-012",), permission_outcome, (Response,), ("session/request_permission",), ACP_ONLY),
        Check(("ACP-013",), invalid_terminal, (Request,), _USES_TERMINAL, ACP_ONLY, within=_VERSION_1),
        Check(("ACP-014",), zero_line, (Request,), tuple(acp.LINES), ACP_ONLY, SERVER, mentions=_LINE),
        Check(
            ("ACP-014",), zero_line, (Notification,), ("session/update",), ACP_ONLY, SERVER, mentions=_LINE
        ),
        Check(("ACP-022",), concurrent_elicitation, (Request,), _CREATE_ELICITATION, ACP_ONLY),
        Check(("ACP-022",), unknown_elicitation, (Notification,), ("elicitation/complete",), ACP_ONLY),
    ),
    updates=(
        StateUpdate(remember_terminal, (Response,), ("terminal/create", "terminal/release"), ACP_ONLY),
        StateUpdate(remember_elicitation, (Request,), _CREATE_ELICITATION, ACP_ONLY),
    ),
)
