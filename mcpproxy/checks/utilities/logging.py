"""Log messages and their levels.

In the stateful revisions one level applies to the whole session. From 2026-07-28 on each request asks for its
own log messages, which are sent only on its stream. On stdio log messages name no request, so they may belong
to any pending request that asked for them.

``mcpproxy.checks.basic.shapes`` checks the members of levels and log messages.

Source: https://modelcontextprotocol.io/specification/2025-11-25/server/utilities/logging
"""

from collections.abc import Iterable, Iterator
from typing import Final

from mcpproxy.base.slotted import slotted
from mcpproxy.checks.engine.context import MessageContext, Violation, member
from mcpproxy.checks.engine.rows import LOG_LEVEL_GIVEN, Check, RuleFamily, StateUpdate
from mcpproxy.checks.opt_in.credentials import credentials_in
from mcpproxy.protocol.jsonrpc import JSON, Absent, Notification, Request, Response
from mcpproxy.protocol.revisions import STATEFUL, STATELESS
from mcpproxy.protocol.wording import shown
from mcpproxy.session.frame import SERVER
from mcpproxy.session.history import History, SentRequest

LEVEL_KEY: Final = "io.modelcontextprotocol/logLevel"

SUBSCRIPTION_KEY: Final = "io.modelcontextprotocol/subscriptionId"

LEVELS: Final = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
"""The levels, the least severe first."""

MESSAGE: Final = ("notifications/message",)


@slotted()
class LogLevel:
    """The level that logging/setLevel has set, and the frame and exchange of the response that accepted it.

    ``level`` is empty while none is set, and while it is uncertain which one. ``requested`` says whether any
    stateless request ever asked for log messages.
    """

    level: str = ""
    seq: int = 0
    exchange: int = 0
    requested: bool = False


# One level for the session


def below_level(context: MessageContext[Notification], history: History) -> Iterable[Violation]:
    """Report a log message below the level that the client has set (LOG-002)."""
    in_force, level = history.of(LogLevel), _level(context)
    if not in_force.level or not level or _severity(level) >= _severity(in_force.level):
        return ()
    waiting = [asked for asked in history.client.pending.values() if not asked.stateless]
    if any(asked.method == "logging/setLevel" for asked in waiting):
        return ()  # Another level was requested, and may already apply.
    exchange = context.frame.exchange
    if exchange and (exchange <= in_force.exchange or any(asked.seq < in_force.seq for asked in waiting)):
        return ()  # It may have been sent on another stream before the level was set.
    problem = (
        f"server sent a log message of level {level}, although the client set the level {in_force.level}"
    )
    return (
        Violation("LOG-002", "R-167", problem, pointer=context.at + "/params/level", related=(in_force.seq,)),
    )


def took_unknown_level(context: MessageContext, history: History) -> Iterable[Violation]:
    """Report a logging/setLevel with an unknown level that was accepted (LOG-001)."""
    asked = context.answers
    return () if asked is None or asked.stateless else _took_unknown(asked, context)


# A level for each request


def served_unknown_level(context: MessageContext, history: History) -> Iterable[Violation]:
    """Report a stateless request with an unknown log level that was accepted (LOG-001)."""
    asked = context.answers
    return () if asked is None or not asked.stateless else _took_unknown(asked, context)


def unrequested(context: MessageContext[Notification], history: History) -> Iterator[Violation]:
    """Report log messages that no request asked for (LOG-004), that are below the level which the request
    asked for (LOG-005), or that follow the response to it (LOG-006).
    """
    if history.negotiated is not None or history.stateless_seq is None or history.has_gap:
        return
    client, level = history.client, _level(context)
    under_way = list(client.pending.values())
    if _on_subscription(context, under_way):
        return  # SUB-008 reports it.
    about = f"server sent a log message{f' of level {level}' if level else ''}"
    at = context.at + "/method"
    if context.frame.exchange and not under_way and client.last_answered_seq:
        problem = f"{about} after the response to its request"
        yield Violation("LOG-006", "R-171", problem, pointer=at, related=(client.last_answered_seq,))
    elif not client.fully_read:
        return
    elif not (wanting := [asked for asked in under_way if _wanted(asked) is not None]):
        problem = f"{about}, but no request under way asked for them with {LEVEL_KEY}"
        # On stdio it may be a late message of a request that did ask.
        may_be_late = history.of(LogLevel).requested
        yield Violation("LOG-004", "R-169", problem, pointer=at, at_most="warning" if may_be_late else None)
    elif level and (lowest := _lowest(wanting)) and _severity(level) < _severity(lowest):
        problem = f"{about}, but the request asked for {lowest} and above"
        related = tuple(asked.seq for asked in wanting[:1])
        yield Violation("LOG-005", "R-170", problem, pointer=context.at + "/params/level", related=related)


def _on_subscription(context: MessageContext[Notification], under_way: list[SentRequest]) -> bool:
    """Whether a message came on a listen stream, or names a subscription."""
    message = context.message
    listens = bool(under_way) and all(asked.method == "subscriptions/listen" for asked in under_way)
    claims = member(message.params, "_meta", SUBSCRIPTION_KEY) is not None
    return claims or (listens and bool(context.frame.exchange))


def _lowest(wanting: list[SentRequest]) -> str:
    """Return the least severe of the levels that these requests set; empty if one of them is not a level."""
    levels = [_wanted(asked) for asked in wanting]
    known = [level for level in levels if isinstance(level, str) and level in LEVELS]
    return min(known, key=_severity) if len(known) == len(levels) else ""


def _took_unknown(asked: SentRequest, context: MessageContext) -> Iterable[Violation]:
    level = _wanted(asked)
    if not isinstance(level, str) or level in LEVELS:
        return ()
    problem = (
        f"server accepted the log level {shown(level)}, which is not one of the eight, instead of refusing it"
    )
    at = context.at + "/result"
    # Refusing it is only a SHOULD.
    return (
        Violation(
            "LOG-001", "R-166", problem, pointer=at, related=(asked.seq,), blame=SERVER, at_most="warning"
        ),
    )


# The content of a log message


def credentials(context: MessageContext[Notification], history: History) -> Iterator[Violation]:
    """Report a log message that seems to contain a credential (LOG-003)."""
    message = context.message
    for pointer, what in credentials_in(member(message.params, "data")):
        problem = f"server sent a log message that seems to contain {what}"
        # Whether a value is a credential is always a guess.
        yield Violation(
            "LOG-003", "R-168", problem, pointer=f"{context.at}/params/data{pointer}", at_most="warning"
        )


# Levels


def _level(context: MessageContext[Notification]) -> str:
    """Return the level of a log message, empty if it is not valid."""
    message = context.message
    level = member(message.params, "level")
    return level if isinstance(level, str) and level in LEVELS else ""


def _severity(level: str) -> int:
    return LEVELS.index(level)


def _wanted(asked: SentRequest) -> JSON:
    """Return the level that a request sets, valid or not; ``None`` if it sets none."""
    if asked.stateless:
        return _requested(asked.params)
    return member(asked.params, "level") if asked.method == "logging/setLevel" else None


def _requested(params: "JSON | Absent") -> JSON:
    return member(params, "_meta", LEVEL_KEY)


# What is recorded


def remember_level(context: MessageContext, history: History) -> None:
    """Record the level that the server accepted; none if others are pending, because the order is unknown."""
    asked, in_force = context.answers, history.of(LogLevel)
    if asked is None or asked.stateless:
        return
    level = _wanted(asked)
    others = (other for other in history.client.pending.values() if other.method == "logging/setLevel")
    certain = isinstance(level, str) and level in LEVELS and asked.seq > in_force.seq and not any(others)
    in_force.level = str(level) if certain else ""
    in_force.seq, in_force.exchange = context.seq, context.frame.exchange


def remember_request(context: MessageContext, history: History) -> None:
    """Record that a stateless request asked for log messages."""
    if context.stateless and context.asked is not None and _wanted(context.asked) is not None:
        history.of(LogLevel).requested = True
        history.facts |= LOG_LEVEL_GIVEN


FAMILY: Final = RuleFamily(
    checks=(
        Check(("LOG-001",), took_unknown_level, (Response,), ("logging/setLevel",)),
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
