"""What is known of a session besides its messages: who takes part, and by which revision."""

from typing import Any, cast

from mcpproxy.base.slotted import slotted


@slotted()
class SessionFacts:
    """One session: names and versions of its peers. Empty texts are unknown.

    ``name`` is the short name of an HTTP session or the id of an ACP session; empty for the others.
    """

    name: str = ""
    protocol: str = "mcp"
    client: str = ""
    client_version: str = ""
    server: str = ""
    server_version: str = ""
    revision: str = ""

    def set_client(self, info: object) -> None:
        """Take the client's description of itself."""
        if found := implementation(info):
            self.client, self.client_version = found

    def set_server(self, info: object) -> None:
        """Take the server's description of itself."""
        if found := implementation(info):
            self.server, self.server_version = found

    def set_revision(self, version: object) -> None:
        """Take the revision that was agreed on, or the version of ACP."""
        if type(version) is int or isinstance(version, str):
            self.revision = str(version)[:64]


def implementation(info: object) -> tuple[str, str] | None:
    """Return name and version of an ``Implementation``; ``None`` if it is none."""
    if not isinstance(info, dict):
        return None
    members = cast("dict[str, Any]", info)
    name, version = members.get("name"), members.get("version")
    if not isinstance(name, str) or not name:
        return None
    return name[:200], version[:100] if isinstance(version, str) else ""
