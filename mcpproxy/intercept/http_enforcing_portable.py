"""The HTTP proxy with enforced rules, for systems that have no fork (Windows)."""

from mcpproxy.intercept.http_enforcing import EnforcingProxy
from mcpproxy.relay.http.portable import PortableProxy


class PortableEnforcingProxy(PortableProxy, EnforcingProxy):
    """A ``PortableProxy`` that judges as ``EnforcingProxy`` does."""
