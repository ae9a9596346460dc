"""Collect who takes part in a session, and which protocol revision they use."""

from typing import Any, cast

from mcpproxy.base.slotted import slotted
from mcpproxy.protocol import acp

_META = "io.modelcontextprotocol/"
VERSION_META = _META + "protocolVersion"
_CLIENT_META = _META + "clientInfo"
_SERVER_META = _META + "serverInfo"


@slotted()
class SessionFacts:
    """One session: names and versions of its peers, and its revision. A text is empty if it is not known.

    ``name`` is the short name of an HTTP session in the trace, or the id of an ACP session; other sessions
    have an empty name. ``protocol`` is ``mcp`` or ``acp``. Texts from peers are cut, because they may have
    any length.
    """

    name: str = ""
    protocol: str = "mcp"
    client: str = ""
    client_version: str = ""
    server: str = ""
    server_version: str = ""
    revision: str = ""

    def take_initialize(self, params: dict[str, Any]) -> None:
        """Take the facts from the params of ``initialize``."""
        if acp.is_initialize(params):
            self.protocol = "acp"
        self._set_client(params.get("clientInfo") or params.get("info"))
        self._set_revision(params.get("protocolVersion"))

    def forget_initialize(self) -> None:
        """Forget the client, because the answer to its ``initialize`` gave the id of another session.

        A session with a name or a known server keeps its client.
        """
        if not self.name and not self.server:
            self.client = self.client_version = self.revision = ""

    def take_meta(self, meta: dict[str, Any]) -> None:
        """Take the facts from the ``_meta`` of a request that names its revision itself."""
        self._set_revision(meta.get(VERSION_META))
        self._set_client(meta.get(_CLIENT_META))

    def take_result(self, result: dict[str, Any]) -> None:
        """Take the facts from a result of the server."""
        if "protocolVersion" in result:
            self._set_revision(result["protocolVersion"])
            self._set_server(result.get("serverInfo") or result.get("agentInfo") or result.get("info"))
        elif isinstance(meta := result.get("_meta"), dict):
            self._set_server(cast("dict[str, Any]", meta).get(_SERVER_META))

    def _set_client(self, info: object) -> None:
        if name_and_version := _implementation(info):
            self.client, self.client_version = name_and_version

    def _set_server(self, info: object) -> None:
        if name_and_version := _implementation(info):
            self.server, self.server_version = name_and_version

    def _set_revision(self, version: object) -> None:
        if type(version) is int or isinstance(version, str):
            self.revision = str(version)[:64]


def _implementation(info: object) -> tuple[str, str] | None:
    """Return name and version in ``clientInfo`` or ``serverInfo``; ``None`` if there is no name."""
    if not isinstance(info, dict):
        return None
    members = cast("dict[str, Any]", info)
    name, version = members.get("name"), members.get("version")
    if not isinstance(name, str) or not name:
        return None
    return name[:200], version[:100] if isinstance(version, str) else ""
