"""Requests that are never answered, although their peer could have answered.

Source: https://modelcontextprotocol.io/specification/2025-11-25/basic#responses
"""

from collections.abc import Iterator
from typing import Final

from mcpproxy.checks.engine.context import Violation, shortened, spelled
from mcpproxy.checks.engine.rows import EventCheck, RuleFamily
from mcpproxy.session.frame import CLIENT, Close, Signal, other
from mcpproxy.session.history import History, SentRequest

_PROBE: Final = "server/discover"

MAY_STAY_UNANSWERED: Final = ("initialize", _PROBE, "subscriptions/listen")
"""Requests whose missing answer RPC-008 does not report: another rule does, or none."""

ANSWER_TIMEOUT_NS: Final = 30_000_000_000
"""How long a request must have waited before a missing answer is reported."""


def unanswered(event: Signal | Close, history: History) -> Iterator[Violation]:
    """Report a request that was never answered although later ones were (RPC-008; LIFE-004 for a ping)."""
    if not isinstance(event, Close) or event.ending == "cut" or history.blind or history.over_http:
        return
    for asker in (CLIENT, "server"):
        side, responder = history.side(asker), other(asker)
        passed_over: list[SentRequest] = []
        if not history.side(responder).was_read:
            continue
        for asked in side.pending.values():
            if side.refused_seq < asked.seq < side.last_answered_seq and _waited(asked, event):
                rule = ("LIFE-004", "R-040") if asked.method == "ping" else ("RPC-008", "R-010")
                if asked.cancelled or asked.method in MAY_STAY_UNANSWERED:
                    continue
                if asked.stateless and history.stateful_seq is not None:
                    continue  # A probe of the other era may stay unanswered.
                passed_over.append(asked)
                what = f"{shortened(asked.method)} ({spelled(asked.id)})"
                problem = f"{responder} never answered {what}, but answered later requests"
                yield Violation(
                    *rule,
                    problem,
                    blame=responder,
                    frame=asked.seq,
                    candidates=asked.candidates,
                )
        if asker == CLIENT:
            yield from _left_behind(event, history, passed_over)


def _left_behind(event: Close, history: History, reported: list[SentRequest]) -> Iterator[Violation]:
    """Report what the server had not answered when it exited by itself (RPC-008)."""
    how, ended_ns = history.own_end(event), history.server.closed_ns
    if not how or ended_ns is None:
        return
    left = [
        asked
        for asked in history.client.pending.values()
        if not asked.cancelled
        and (asked.method == _PROBE or asked.method not in MAY_STAY_UNANSWERED)
        and asked.at_ns < ended_ns
        and asked.seq > history.client.refused_seq
        and not (asked.stateless and history.stateful_seq is not None)
        and not any(asked is one for one in reported)
    ]
    if left:
        first = left[0]
        more = f" and {len(left) - 1} more" if len(left) > 1 else ""
        problem = f"server {how} and left {shortened(first.method)} ({spelled(first.id)}){more} unanswered"
        yield Violation(
            "RPC-008",
            "R-010",
            problem,
            related=tuple(asked.seq for asked in left[1:]),
            blame="server",
            frame=first.seq,
            # A server of the older era need not answer a probe; that it exits is worth knowing.
            at_most="info" if all(asked.method == _PROBE for asked in left) else None,
            candidates=first.candidates,
        )


def _waited(asked: SentRequest, event: Close) -> bool:
    return event.observed_at_ns - asked.at_ns >= ANSWER_TIMEOUT_NS


FAMILY: Final = RuleFamily(events=(EventCheck(("RPC-008", "LIFE-004"), unanswered),))
