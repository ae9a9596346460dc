"""Log messages and their levels.

In the stateful revisions one level applies to the whole session. From 2026-07-28 on each request sets the
level of its own log messages. Over HTTP a log message is sent on the stream of its request. On stdio a log
message does not say which request it belongs to, so it may belong to any pending request that set a level.

``checks.basic.shapes`` checks the members of requests and log messages.

Source: https://modelcontextprotocol.io/specification/2025-11-25/server/utilities/logging
"""

from collections.abc import Iterable, Iterator
from typing import Final

from mcpproxy.base.slotted import slotted
from mcpproxy.judge.checks.engine.context import MessageContext, Violation
from mcpproxy.judge.checks.engine.rows import LOG_LEVEL_GIVEN, Check, RuleFamily, StateUpdate
from mcpproxy.judge.checks.opt_in.credentials import credentials_in
from mcpproxy.judge.session.frame import SERVER
from mcpproxy.judge.session.history import History, SentRequest
from mcpproxy.protocol.jsonrpc import JSON, Absent, Notification, Request, Response
from mcpproxy.protocol.message_parts import member
from mcpproxy.protocol.meta_keys import LOG_LEVEL_KEY, SUBSCRIPTION_ID_KEY
from mcpproxy.protocol.methods import LISTEN
from mcpproxy.protocol.revisions import STATEFUL, STATELESS
from mcpproxy.protocol.wording import shown

LEVELS: Final = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
"""The levels, the least severe first."""

MESSAGE: Final = ("notifications/message",)


@slotted()
class LogLevel:
    """The level that logging/setLevel has set, and the frame and exchange of the response that accepted it.

    ``level`` is empty while no level is set or the level is uncertain. ``was_requested`` is set once a
    stateless request has set a level, which asks for log messages.
    """

    level: str = ""
    seq: int = 0
    exchange: int = 0
    was_requested: bool = False


# One level for the session


def below_level(context: MessageContext[Notification], history: History) -> Iterable[Violation]:
    """Report a log message below the level that the client has set (LOG-002)."""
    session_level, level = history.of(LogLevel), _level(context)
    if not session_level.level or not level or _rank(level) >= _rank(session_level.level):
        return ()
    pending_requests = [request for request in history.client.pending.values() if not request.stateless]
    if any(request.method == "logging/setLevel" for request in pending_requests):
        return ()  # The client has requested another level, which may already apply.
    exchange = context.frame.exchange
    if exchange and (
        exchange <= session_level.exchange
        or any(request.seq < session_level.seq for request in pending_requests)
    ):
        return ()  # The log message may have been sent on another stream before the level was set.
    problem = (
        f"server sent a log message of level {level}, although the client set the level {session_level.level}"
    )
    return (
        Violation(
            "LOG-002", "R-167", problem, pointer=context.at + "/params/level", related=(session_level.seq,)
        ),
    )


def accepted_unknown_level(context: MessageContext, history: History) -> Iterable[Violation]:
    """Report a server that accepted a logging/setLevel with an unknown level (LOG-001)."""
    request = context.answers
    return () if request is None or request.stateless else _accepted_unknown(request, context)


# A level for each request


def served_unknown_level(context: MessageContext, history: History) -> Iterable[Violation]:
    """Report a server that accepted a stateless request with an unknown log level (LOG-001)."""
    request = context.answers
    return () if request is None or not request.stateless else _accepted_unknown(request, context)


def unrequested(context: MessageContext[Notification], history: History) -> Iterator[Violation]:
    """Report a log message that no request asked for (LOG-004), that is below the level of its request
    (LOG-005), or that follows the response to its request (LOG-006).
    """
    if history.negotiated is not None or history.stateless_seq is None or history.has_gap:
        return
    client, level = history.client, _level(context)
    pending = list(client.pending.values())
    if _on_subscription(context, pending):
        return  # SUB-008 reports log messages of subscriptions.
    described = f"server sent a log message{f' of level {level}' if level else ''}"
    pointer = context.at + "/method"
    if context.frame.exchange and not pending and client.last_answered_seq:
        problem = f"{described} after the response to its request"
        yield Violation("LOG-006", "R-171", problem, pointer=pointer, related=(client.last_answered_seq,))
    elif not client.fully_read:
        return
    elif not (level_setters := [request for request in pending if _level_set_by(request) is not None]):
        problem = f"{described}, but no request under way asked for log messages with {LOG_LEVEL_KEY}"
        # On stdio the log message may be a late one, of an earlier request that set a level.
        may_be_late = history.of(LogLevel).was_requested
        yield Violation(
            "LOG-004", "R-169", problem, pointer=pointer, at_most="warning" if may_be_late else None
        )
    elif level and (lowest_level := _lowest_level(level_setters)) and _rank(level) < _rank(lowest_level):
        problem = f"{described}, but the request asked for {lowest_level} and above"
        related = tuple(request.seq for request in level_setters[:1])
        yield Violation("LOG-005", "R-170", problem, pointer=context.at + "/params/level", related=related)


def _on_subscription(context: MessageContext[Notification], pending: list[SentRequest]) -> bool:
    """Whether a message came on the stream of a subscription, or names a subscription."""
    message = context.message
    is_listening = bool(pending) and all(request.method == LISTEN for request in pending)
    names_subscription = member(message.params, "_meta", SUBSCRIPTION_ID_KEY) is not None
    return names_subscription or (is_listening and bool(context.frame.exchange))


def _lowest_level(level_setters: list[SentRequest]) -> str:
    """Return the least severe of the levels that these requests set; empty if one of them is not a level."""
    levels = [_level_set_by(request) for request in level_setters]
    valid_levels = [level for level in levels if isinstance(level, str) and level in LEVELS]
    return min(valid_levels, key=_rank) if len(valid_levels) == len(levels) else ""


def _accepted_unknown(request: SentRequest, context: MessageContext) -> Iterable[Violation]:
    """Report a result in answer to a request that sets an unknown level (LOG-001)."""
    level = _level_set_by(request)
    if not isinstance(level, str) or level in LEVELS:
        return ()
    problem = (
        f"server accepted the log level {shown(level)}, which is not one of the eight, instead of refusing it"
    )
    pointer = context.at + "/result"
    # A warning only: the specification says that a server SHOULD refuse an unknown level.
    return (
        Violation(
            "LOG-001",
            "R-166",
            problem,
            pointer=pointer,
            related=(request.seq,),
            blame=SERVER,
            at_most="warning",
        ),
    )


# The content of a log message


def credentials(context: MessageContext[Notification], history: History) -> Iterator[Violation]:
    """Report a log message that seems to contain a credential (LOG-003)."""
    message = context.message
    for pointer, description in credentials_in(member(message.params, "data")):
        problem = f"server sent a log message that seems to contain {description}"
        # Whether a value is a credential is always a guess.
        yield Violation(
            "LOG-003", "R-168", problem, pointer=f"{context.at}/params/data{pointer}", at_most="warning"
        )


# Levels


def _level(context: MessageContext[Notification]) -> str:
    """Return the level of a log message; empty if it is not one of ``LEVELS``."""
    message = context.message
    level = member(message.params, "level")
    return level if isinstance(level, str) and level in LEVELS else ""


def _rank(level: str) -> int:
    """Return the rank of a level: the higher, the more severe."""
    return LEVELS.index(level)


def _level_set_by(request: SentRequest) -> JSON:
    """Return the level that a request sets, valid or not; ``None`` if it sets none."""
    if request.stateless:
        return _level_in_meta(request.params)
    return member(request.params, "level") if request.method == "logging/setLevel" else None


def _level_in_meta(params: "JSON | Absent") -> JSON:
    return member(params, "_meta", LOG_LEVEL_KEY)


# The state


def remember_level(context: MessageContext, history: History) -> None:
    """Record the level that the server accepted.

    While another logging/setLevel is pending the level is uncertain, because the server may have handled the
    two in any order.
    """
    request, session_level = context.answers, history.of(LogLevel)
    if request is None or request.stateless:
        return
    level = _level_set_by(request)
    has_rival = any(rival.method == "logging/setLevel" for rival in history.client.pending.values())
    is_certain = (
        isinstance(level, str) and level in LEVELS and request.seq > session_level.seq and not has_rival
    )
    session_level.level = str(level) if is_certain else ""
    session_level.seq, session_level.exchange = context.seq, context.frame.exchange


def remember_request(context: MessageContext, history: History) -> None:
    """Record that a stateless request asked for log messages."""
    if context.stateless and context.asked is not None and _level_set_by(context.asked) is not None:
        history.of(LogLevel).was_requested = True
        history.facts |= LOG_LEVEL_GIVEN


FAMILY: Final = RuleFamily(
    checks=(
        Check(("LOG-001",), accepted_unknown_level, (Response,), ("logging/setLevel",)),
        Check(
            ("LOG-001",),
            served_unknown_level,
            (Response,),
            sender=SERVER,
            within=STATELESS,
            given=LOG_LEVEL_GIVEN,
        ),
        Check(("LOG-002",), below_level, (Notification,), MESSAGE, within=STATEFUL),
        Check(("LOG-003",), credentials, (Notification,), MESSAGE),
        Check(("LOG-004", "LOG-005", "LOG-006"), unrequested, (Notification,), MESSAGE, within=STATELESS),
    ),
    updates=(
        StateUpdate(remember_level, (Response,), ("logging/setLevel",)),
        StateUpdate(
            remember_request, (Request,), within=STATELESS, members=("_meta",), mentions=(b'logLevel"',)
        ),
    ),
)
