"""The header fields that MCP defines over HTTP: their names in lower case, as parsed heads have them.

Source: https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http#request-metadata
"""

from typing import Final

SESSION_ID: Final = "mcp-session-id"
"""Names the session, from 2025-03-26 until the stateless revisions."""

PROTOCOL_VERSION: Final = "mcp-protocol-version"

METHOD: Final = "mcp-method"
NAME: Final = "mcp-name"
PARAM_PREFIX: Final = "mcp-param-"
"""These three repeat parts of the body of a stateless request."""
