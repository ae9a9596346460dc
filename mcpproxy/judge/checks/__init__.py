"""Checks: the functions that decide whether a message breaks a requirement.

Each module covers one part of the specification. It has the check functions, the state that they need, and at
the end ``FAMILY``: rows that say which rules each function reports, and for which messages it is called. If a
module has no ``FAMILY``, its rows are in another module, or it only has what other modules share. A rule
without a check function is a permission or cannot be observed in the traffic; its TOML table in ``rules/``
says which.
"""

from typing import Final

from mcpproxy.judge.checks.acp import (
    acp_sessions,
    client_methods,
    handshake,
    members,
    offers,
    reported_work,
    turns,
    updates,
)
from mcpproxy.judge.checks.basic import (
    capabilities,
    content,
    frames,
    icons,
    lifecycle,
    meta,
    rpc,
    shapes,
    unanswered,
    unclear_requests,
)
from mcpproxy.judge.checks.client import elicitation, roots, sampling
from mcpproxy.judge.checks.engine.context import CheckFunction
from mcpproxy.judge.checks.engine.dispatch import Dispatch
from mcpproxy.judge.checks.engine.rows import RuleFamily
from mcpproxy.judge.checks.opt_in import deprecated
from mcpproxy.judge.checks.security import addresses, deceptive_text
from mcpproxy.judge.checks.server import apps, prompts, resources, skills, tool_calls, tools
from mcpproxy.judge.checks.stateless import (
    caching,
    discovery,
    era,
    error_codes,
    input_required,
    self_contained,
    subscriptions,
    unretried,
)
from mcpproxy.judge.checks.transports import (
    authorization,
    cors,
    headers,
    http,
    issuers,
    proofs,
    sessions,
    stdio,
    streams,
)
from mcpproxy.judge.checks.utilities import (
    cancellation,
    completion,
    logging,
    pagination,
    progress,
    tasks,
    tasks_extension,
)

FAMILIES: Final[tuple[RuleFamily, ...]] = (
    # JSON-RPC: frames, envelopes, ids, shapes, and the framing on stdio
    frames.FAMILY,
    rpc.FAMILY,
    unclear_requests.FAMILY,
    unanswered.FAMILY,
    stdio.FAMILY,
    shapes.FAMILY,
    # The handshake and what it negotiates
    lifecycle.FAMILY,
    capabilities.FAMILY,
    era.FAMILY,
    # Stateless requests
    self_contained.FAMILY,
    discovery.FAMILY,
    error_codes.FAMILY,
    headers.FAMILY,
    input_required.FAMILY,
    unretried.FAMILY,
    caching.FAMILY,
    subscriptions.FAMILY,
    # Utilities for any request
    cancellation.FAMILY,
    progress.FAMILY,
    pagination.FAMILY,
    meta.FAMILY,
    icons.FAMILY,
    # What a server offers
    tools.FAMILY,
    tool_calls.FAMILY,
    apps.FAMILY,
    content.FAMILY,
    resources.FAMILY,
    skills.FAMILY,
    prompts.FAMILY,
    completion.FAMILY,
    logging.FAMILY,
    tasks.FAMILY,
    tasks_extension.FAMILY,
    # What a client offers
    roots.FAMILY,
    sampling.FAMILY,
    elicitation.FAMILY,
    # Deceptive texts and addresses
    deceptive_text.FAMILY,
    addresses.FAMILY,
    # Deprecated features
    deprecated.FAMILY,
    # HTTP
    http.FAMILY,
    cors.FAMILY,
    streams.FAMILY,
    sessions.FAMILY,
    authorization.FAMILY,
    proofs.FAMILY,
    issuers.FAMILY,
    # The Agent Client Protocol
    handshake.FAMILY,
    members.FAMILY,
    acp_sessions.FAMILY,
    offers.FAMILY,
    updates.FAMILY,
    client_methods.FAMILY,
    turns.FAMILY,
    reported_work.FAMILY,
)

STANDARD: Final = Dispatch(FAMILIES)
"""The checks that run without being enabled; ``for_protocol`` returns those of ACP sessions."""

FRAME_CHECKS: Final[tuple[tuple[tuple[str, ...], CheckFunction], ...]] = (
    (("RPC-021",), frames.utf8),
    (("RPC-001",), frames.lenient_json),
)
"""Checks of a frame whose bytes are not JSON text, with their rules. Each runs once per frame at most."""

BATCH_CHECKS: Final = (
    (("RPC-017", "RPC-018"), frames.batch),
    (("LIFE-001",), lifecycle.batched_initialize),
)
"""Checks of a JSON-RPC batch as a whole, each with its rules."""

ENVELOPE_RULES: Final = frozenset(
    {"PROTO-002", "PROTO-007", "RPC-007", "RPC-009", "RPC-012", "RPC-015", "RPC-022"}
)
"""The only rules that are reported for an answer with both a result and an error, or neither.

Violations of other rules would be consequences of that fault.
"""

SPLIT_CHECKS: Final = (
    (("STDIO-001",), stdio.split_message),
    (("STDIO-002", "STDIO-003"), stdio.spread_output),
)
"""The checks of a message, and of another value, that was written over several lines, with their rules."""
