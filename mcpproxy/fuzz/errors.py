"""The exceptions of the fuzzer."""

from mcpproxy.errors import McpProxyError


class NotFuzzedError(McpProxyError):
    """A recording or a server with which the fuzzer cannot begin."""
