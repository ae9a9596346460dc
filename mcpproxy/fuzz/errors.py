"""The exceptions of the fuzzer."""

from mcpproxy.errors import McpProxyError


class NotFuzzedError(McpProxyError):
    """A recording or a server with which the fuzzer cannot begin."""


class NotBackError(McpProxyError):
    """A server behind a URL does not answer any more; becomes a fault that is not confirmed."""
