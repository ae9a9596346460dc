"""The HTTP proxy with enforced rules, for systems that have no fork (Windows)."""

from mcpproxy.enforce.http import EnforcingProxy
from mcpproxy.relay.http.portable import PortableProxy


class PortableEnforcingProxy(PortableProxy, EnforcingProxy):
    """A ``PortableProxy`` that judges as ``EnforcingProxy`` does."""

    def _leave_recorder(self, unwritten: bytes) -> None:
        # ``_store_until_journaled`` is the last reference to the crash buffer. It is replaced by the function
        # that discards, which ``Proxy.finish`` has assigned to ``keep_until_journaled``.
        self._store_until_journaled = self.keep_until_journaled
        super()._leave_recorder(unwritten)
