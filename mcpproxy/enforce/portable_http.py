"""The HTTP proxy with enforced rules, for systems that have no fork (Windows)."""

from mcpproxy.enforce.http import EnforcingProxy
from mcpproxy.relay.http.portable import PortableProxy


class PortableEnforcingProxy(PortableProxy, EnforcingProxy):
    """The proxy of ``portable.py`` that judges as that of ``http.py`` does."""

    def _leave_recorder(self, unwritten: bytes) -> None:
        self._store_until_journaled = self.keep_until_journaled  # drops the crash buffer
        super()._leave_recorder(unwritten)
