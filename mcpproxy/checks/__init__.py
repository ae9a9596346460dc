"""Checks: the functions that decide whether a message breaks a requirement.

Each module holds one family of the specification: what it remembers, what it checks, and at its end
the table that says which rules a function decides and on what it looks. A rule that none of them
names is a permission or cannot be seen on the wire; its table in ``rules/`` says so.
"""

from typing import Final

from mcpproxy.checks import (
    acp,
    acp_sessions,
    authorization,
    caching,
    cancellation,
    capabilities,
    completion,
    content,
    deprecated,
    discovery,
    elicitation,
    era,
    errors,
    frames,
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
from mcpproxy.checks.breach import Check
from mcpproxy.checks.dispatch import Dispatch
from mcpproxy.checks.table import Family

FAMILIES: Final[tuple[Family, ...]] = (
    # JSON-RPC framing and what carries it
    frames.FAMILY,
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
    # What will go
    deprecated.FAMILY,
    # HTTP
    http.FAMILY,
    streams.FAMILY,
    sessions.FAMILY,
    authorization.FAMILY,
    # The other protocol
    acp.FAMILY,
    acp_sessions.FAMILY,
)

STANDARD: Final = Dispatch(FAMILIES)
"""What every session is judged by."""

FRAME_CHECKS: Final[tuple[tuple[tuple[str, ...], Check], ...]] = (
    (("RPC-021",), frames.utf8),
    (("RPC-001",), frames.lenient_json),
)
"""Checks of bytes that are no proper JSON text, told once per frame."""

BATCH_CHECKS: Final = (
    (("RPC-017", "RPC-018"), frames.batch),
    (("LIFE-001",), lifecycle.batched_initialize),
)
"""Checks of an array as a whole."""

SPLIT_CHECKS: Final = ((("STDIO-001",), stdio.split_message),)
"""Checks of a message that was spread over lines."""


def decided_rules() -> frozenset[str]:
    """The codes of all rules that some check decides."""
    from mcpproxy.checks import opt_in

    return Dispatch((*FAMILIES, *opt_in.FAMILIES)).rules.union(
        code for codes, _ in (*FRAME_CHECKS, *BATCH_CHECKS, *SPLIT_CHECKS) for code in codes
    )
