"""The header fields that MCP defines over HTTP: their names in lower case, as parsed heads have them.

Source: https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http#request-metadata
"""

from typing import Final

SESSION_ID: Final = "mcp-session-id"
"""Names the session, in the revisions from 2025-03-26 to 2025-11-25; later ones are stateless."""

PROTOCOL_VERSION: Final = "mcp-protocol-version"

METHOD: Final = "mcp-method"
NAME: Final = "mcp-name"
PARAM_PREFIX: Final = "mcp-param-"
"""``METHOD``, ``NAME`` and fields with ``PARAM_PREFIX`` repeat parts of the body of a stateless request."""
