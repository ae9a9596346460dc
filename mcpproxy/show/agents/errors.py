"""The error of a tool."""

from mcpproxy.errors import McpProxyError


class AgentError(McpProxyError):
    """A tool cannot do what its caller wants. The text says what is wrong and what to do next."""
