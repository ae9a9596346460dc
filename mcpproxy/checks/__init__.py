"""Checks: the functions that decide whether a message breaks a requirement.

Each module holds one family of the specification: what it remembers, what it checks, and at its end
the table that says which rules a function decides and on what it looks. The dispatch below is
derived from these tables. A rule that none of them names is a permission or cannot be seen on the
wire; its table in ``rules/`` says so.
"""

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Final

from mcpproxy.checks import (
    authorization,
    caching,
    cancellation,
    capabilities,
    completion,
    content,
    discovery,
    elicitation,
    era,
    errors,
    headers,
    http,
    icons,
    input_required,
    lifecycle,
    logging,
    meta,
    pagination,
    progress,
    prompts,
    resources,
    roots,
    rpc,
    sampling,
    sessions,
    shapes,
    stateless,
    stdio,
    streams,
    subscriptions,
    tasks,
    tasks_extension,
    tool_calls,
    tools,
)
from mcpproxy.checks.breach import Check, HttpCheck
from mcpproxy.checks.table import Decider, EventDecider, Family, HttpDecider, Kind, Moment, Note, Write
from mcpproxy.session.http import Traffic

FAMILIES: Final[tuple[Family, ...]] = (
    # JSON-RPC framing and what carries it
    rpc.FAMILY,
    stdio.FAMILY,
    shapes.FAMILY,
    # The handshake and what it settles
    lifecycle.FAMILY,
    capabilities.FAMILY,
    era.FAMILY,
    # Requests that stand alone
    stateless.FAMILY,
    discovery.FAMILY,
    errors.FAMILY,
    headers.FAMILY,
    input_required.FAMILY,
    caching.FAMILY,
    subscriptions.FAMILY,
    # What accompanies any request
    cancellation.FAMILY,
    progress.FAMILY,
    pagination.FAMILY,
    meta.FAMILY,
    icons.FAMILY,
    # What a server offers
    tools.FAMILY,
    tool_calls.FAMILY,
    content.FAMILY,
    resources.FAMILY,
    prompts.FAMILY,
    completion.FAMILY,
    logging.FAMILY,
    tasks.FAMILY,
    tasks_extension.FAMILY,
    # What a client offers
    roots.FAMILY,
    sampling.FAMILY,
    elicitation.FAMILY,
    # HTTP
    http.FAMILY,
    streams.FAMILY,
    sessions.FAMILY,
    authorization.FAMILY,
)

CHECKS: Final[tuple[Decider, ...]] = tuple(row for family in FAMILIES for row in family.checks)
HTTP_CHECKS: Final[tuple[HttpDecider, ...]] = tuple(row for family in FAMILIES for row in family.http)
EVENT_CHECKS: Final[tuple[EventDecider, ...]] = tuple(row for family in FAMILIES for row in family.events)
NOTES: Final[tuple[Note, ...]] = tuple(row for family in FAMILIES for row in family.notes)

FRAME_CHECKS: Final[tuple[tuple[tuple[str, ...], Check], ...]] = (
    (("RPC-021",), rpc.utf8),
    (("RPC-001",), rpc.lenient_json),
)
"""Checks of bytes that are no proper JSON text, told once per frame."""

BATCH_CHECKS: Final = (
    (("RPC-017", "RPC-018"), rpc.batch),
    (("LIFE-001",), lifecycle.batched_initialize),
)
"""Checks of an array as a whole."""

SPLIT_CHECKS: Final = ((("STDIO-001",), stdio.split_message),)
"""Checks of a message that was spread over lines."""


@lru_cache(maxsize=1024)  # clients choose the methods
def http_checks_for(moment: Moment, traffic: Traffic, method: str) -> tuple[HttpCheck, ...]:
    """The checks that an exchange of this kind meets at this moment, in the table's order."""
    return tuple(
        decider.check
        for decider in HTTP_CHECKS
        if moment in decider.moments
        and traffic in decider.traffic
        and (not decider.methods or method in decider.methods)
    )


@lru_cache(maxsize=1024)  # peers choose the method names
def checks_for(kind: Kind, method: str) -> tuple[Check, ...]:
    """The checks that a message of this kind and method meets, in the table's order."""
    return tuple(
        decider.check
        for decider in CHECKS
        if kind in decider.kinds and (not decider.methods or method in decider.methods)
    )


@lru_cache(maxsize=1024)
def notes_for(kind: Kind, method: str) -> tuple[Write, ...]:
    """What the families write down of a message of this kind and method."""
    return tuple(
        note.write for note in NOTES if kind in note.kinds and (not note.methods or method in note.methods)
    )


def decided_rules() -> frozenset[str]:
    """The codes of all rules that some check decides."""
    rows: Iterable[tuple[tuple[str, ...], Callable[..., object]]] = (
        *((row.rules, row.check) for row in (*CHECKS, *HTTP_CHECKS, *EVENT_CHECKS)),
        *FRAME_CHECKS,
        *BATCH_CHECKS,
        *SPLIT_CHECKS,
    )
    return frozenset(code for rules, _ in rows for code in rules)
