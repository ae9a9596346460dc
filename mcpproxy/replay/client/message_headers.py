"""The header fields that a correct client sends with a message over Streamable HTTP."""

from typing import Final

from mcpproxy.protocol.jsonrpc import Absent, Message, Notification, Request, Response
from mcpproxy.protocol.message_parts import member, text_member
from mcpproxy.protocol.mirrors import ANNOTATION, Mirrors, argument, read_mirrors
from mcpproxy.protocol.revisions import STATELESS, VERSION_KEY
from mcpproxy.replay.client.request_headers import encoded_name

_NAME_MEMBERS: Final = ("name", "uri", "taskId")
"""Members of params that the header ``Mcp-Name`` repeats."""

_ANNOTATION: Final = ANNOTATION.encode()


class MessageHeaders:
    """The headers for one server.

    ``mirrors`` maps the name of a listed tool to the arguments that the tool requires in headers.
    """

    def __init__(self, mirrors: dict[str, Mirrors]) -> None:
        self.mirrors: Final = mirrors

    def of(self, message: Message | None, session_id: str, version: str) -> list[tuple[str, str]]:
        """Return the headers for ``message``, or for a request without a body if that is ``None``.

        ``session_id`` and ``version``, the negotiated revision, are empty while they are not known.
        """
        accept = "text/event-stream" if message is None else "application/json, text/event-stream"
        headers = [("Accept", accept)]
        if message is not None:
            headers.append(("Content-Type", "application/json"))
        if session_id:
            headers.append(("Mcp-Session-Id", session_id))
        call = message if isinstance(message, Request | Notification) else None
        own_version = stateless_version(call)
        if version := own_version or version:
            headers.append(("MCP-Protocol-Version", version))
        if call and (version in STATELESS or own_version):
            headers.append(("Mcp-Method", call.method))
            names = (text_member(call.params, name) for name in _NAME_MEMBERS)
            name = next((name for name in names if name is not None), None)
            if name is not None:
                headers.append(("Mcp-Name", encoded_name(name)))
            headers += self._argument_headers(call)
        return headers

    def learn(self, raw: bytes, message: Message) -> None:
        """Note the tools in a message of the server that require arguments in headers."""
        if _ANNOTATION in raw and isinstance(message, Response):
            tools = member(message.result, "tools")
            for tool in tools if isinstance(tools, list) else ():
                if isinstance(tool, dict) and isinstance(name := tool.get("name"), str):
                    self.mirrors[name] = read_mirrors(tool.get("inputSchema"))

    def _argument_headers(self, request: Request | Notification) -> list[tuple[str, str]]:
        """Return the headers with those arguments of a call that its tool requires in headers."""
        params = None if isinstance(request.params, Absent) else request.params
        if request.method != "tools/call" or not isinstance(params, dict):
            return []
        mirrors = self.mirrors.get(str(params.get("name")))
        headers: list[tuple[str, str]] = []
        for path, header in mirrors.headers if mirrors else ():
            value = argument(params.get("arguments"), path)
            if isinstance(value, bool | int | str):
                text = str(value).lower() if isinstance(value, bool) else str(value)
                headers.append((f"Mcp-Param-{header}", encoded_name(text)))
        return headers


def stateless_version(call: Request | Notification | None) -> str:
    """Return the revision that a stateless request names; empty for every other message."""
    return (text_member(call.params, "_meta", VERSION_KEY) if call else None) or ""
