"""The keys that the specification gives a meaning to in ``_meta``.

Source: https://modelcontextprotocol.io/specification/2026-07-28/basic#meta
"""

from typing import Final

# In the stateless revisions

VERSION_KEY: Final = "io.modelcontextprotocol/protocolVersion"
"""Marks a request as stateless and names its revision."""

CAPABILITIES_KEY: Final = "io.modelcontextprotocol/clientCapabilities"
"""The capabilities of the client, in every request."""

CLIENT_INFO_KEY: Final = "io.modelcontextprotocol/clientInfo"
"""The client's name and version, in a request."""

SERVER_INFO_KEY: Final = "io.modelcontextprotocol/serverInfo"
"""The server's name and version, in a result."""

LOG_LEVEL_KEY: Final = "io.modelcontextprotocol/logLevel"
"""The least level of the log messages that a request asks for."""

SUBSCRIPTION_ID_KEY: Final = "io.modelcontextprotocol/subscriptionId"
"""The ID of the ``subscriptions/listen`` request that a notification, or the final result, belongs to."""

# With tasks

RELATED_TASK_KEY: Final = "io.modelcontextprotocol/related-task"
"""The task that a message belongs to, as ``{"taskId": ...}``."""
