"""The HTTP proxy with enforced rules, for systems that have no fork (Windows)."""

from mcpproxy.enforce.http import EnforcingProxy
from mcpproxy.relay.http.portable import PortableProxy


class PortableEnforcingProxy(PortableProxy, EnforcingProxy):
    """The proxy of ``portable.py`` that judges as that of ``http.py`` does."""

    def _leave_recorder(self, unwritten: bytes) -> None:
        # ``finish`` has replaced ``keep_until_journaled``. Now nothing refers to the crash buffer any more.
        self._store_until_journaled = self.keep_until_journaled
        super()._leave_recorder(unwritten)
