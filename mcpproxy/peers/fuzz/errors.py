"""The exceptions of the fuzzer."""

from mcpproxy.errors import McpProxyError


class NotFuzzedError(McpProxyError):
    """The recording has no request to change, or the server does not answer the unchanged recording."""


class NotBackError(McpProxyError):
    """A server behind a URL no longer answers, so its fault is reported as not confirmed."""
