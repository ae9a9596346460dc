"""The HTTP proxy with enforced rules, for systems that have no fork (Windows)."""

from mcpproxy.enforce.http import EnforcingProxy
from mcpproxy.relay.http.portable import PortableProxy


class PortableEnforcingProxy(PortableProxy, EnforcingProxy):
    """A ``PortableProxy`` that judges as ``EnforcingProxy`` does."""

    def _leave_recorder(self, unwritten: bytes) -> None:
        # ``Proxy.finish`` has replaced ``keep_until_journaled`` by a function that discards. Put here too, it
        # replaces the last reference to the crash buffer.
        self._store_until_journaled = self.keep_until_journaled
        super()._leave_recorder(unwritten)
