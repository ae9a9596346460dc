"""``_meta``: the names of its keys, and the values that other standards define.

Almost every message may have one, and nearly all keys are the same few, so each key is looked at once.

Source: https://modelcontextprotocol.io/specification/2025-11-25/basic/index#_meta
"""

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Final

from mcpproxy.checks.breach import Breach, Passing, as_object, member
from mcpproxy.checks.described import METHODS, described
from mcpproxy.checks.table import ASKS, Decider, Family
from mcpproxy.protocol.jsonrpc import JSON, JSONObject, Notification, Request, Response
from mcpproxy.protocol.revisions import CAPABILITIES_KEY, STATELESS, VERSION_KEY
from mcpproxy.protocol.wording import kind, shown, token
from mcpproxy.session.history import History

KNOWN: Final = frozenset(
    {
        "progressToken",
        VERSION_KEY,
        CAPABILITIES_KEY,
        "io.modelcontextprotocol/clientInfo",
        "io.modelcontextprotocol/serverInfo",
        "io.modelcontextprotocol/logLevel",
        "io.modelcontextprotocol/subscriptionId",
        "io.modelcontextprotocol/related-task",
        "io.modelcontextprotocol/model-immediate-response",
        # What the official extensions and the registry define
        "io.modelcontextprotocol/tasks",
        "io.modelcontextprotocol/ui",
        "io.modelcontextprotocol/oauth-client-credentials",
        "io.modelcontextprotocol/enterprise-managed-authorization",
        "io.modelcontextprotocol.registry/official",
        "io.modelcontextprotocol.registry/publisher-provided",
    }
)
"""The keys that some revision defines. A client may use those of a newer one before it knows the server's."""

_LABEL: Final = r"[^\W\d_](?:[^\W_]|-)*(?<!-)"
_PREFIX: Final = re.compile(rf"{_LABEL}(?:\.{_LABEL})*")
_NAME: Final = re.compile(r"(?:[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)?")

_OWNERS: Final = frozenset({"modelcontextprotocol", "mcp"})

_TRACEPARENT: Final = re.compile(
    r"(?!ff)(?:00|[0-9a-f]{2}(?=.{53}(?:-|$)))-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(?:(?<!^00.{53})-.*)?"
)
