"""A raw client of one session: it can say anything, and tells what came of it.

    async with connected_stdio(["python", "server.py"]) as client:
        await client.initialize()
        tools = await client.list("tools/list")
        result = await client.call("echo", {"text": "hi"})

It follows the protocol unless it is told otherwise: ``request`` and ``notify`` say well-formed messages, in
the manner of the era of its ``revision``; ``send`` takes any bytes. What the server asks in return is
answered as a host without a user would. Durations are seconds.
"""

from typing import Final

from mcpproxy.protocol.jsonrpc import (
    ABSENT,
    JSON,
    JSONObject,
)
from mcpproxy.protocol.revisions import STATEFUL
from mcpproxy.protocol.wording import shown
from mcpproxy.validate.answers import Answer
from mcpproxy.validate.connection import Connection
from mcpproxy.validate.errors import (
    AlreadyInitializedError,
    GoneError,
    HttpStatusError,
    MalformedAnswerError,
    NotInitializedError,
    RefusedError,
    TimedOutError,
    ToolFailedError,
    ToolNotFoundError,
    UnsupportedVersionError,
)

_PAGES: Final = 1000
_NO_SUCH_TOOL: Final = -32602
_OLDER: Final = (400, 404, 405)
"""What a server that speaks HTTP+SSE alone may say to a message at the address of its stream."""


class Client(Connection):
    """An MCP client: opens the session as its revision asks for, and does what clients do every day."""

    async def connect(self) -> Answer:
        """Open the session as the revision asks for: ``initialize`` and ``initialized``, or ``discover``.

        Raises:
            ValidateError: the server does not take part in it.
        """
        if self.is_stateless:
            return await self.discover()
        answer = await self.initialize()
        await self.initialized()
        await self.wire.open_stream()
        return answer

    async def initialize(self, version: str | None = None) -> Answer:
        """Ask to open a session.

        Raises:
            AlreadyInitializedError: that was done before.
            UnsupportedVersionError: the server offers another revision that we do not know.
            RefusedError: it refused.
            ValidateError: no answer came, or none that can be read.
        """
        if self.is_initialized:
            raise AlreadyInitializedError("the session is open already")
        params = self.initialize_params(version)
        try:
            answer = await self.request("initialize", params)
        except HttpStatusError as fault:
            older = fault.status in _OLDER and await self.wire.fall_back(self.timeout_s)
            if not older:
                raise
            answer = await self.request("initialize", params)
        if answer.is_error:
            raise self._refused("initialize", answer)
        offered = answer.members.get("protocolVersion")
        if not isinstance(offered, str):
            raise MalformedAnswerError(
                "the result of initialize names no protocolVersion", answer.frames
            ) from None
        if offered not in STATEFUL:
            raise UnsupportedVersionError(
                f"the server offers {shown(offered)}, a revision that is not known here",
                answer.frames,
                (offered,),
            )
        self.server = answer.members
        self.revision = offered
        self.is_initialized = True
        self.wire.version = offered
        return answer

    def initialize_params(self, version: str | None = None) -> JSONObject:
        """The params of ``initialize``."""
        return {
            "protocolVersion": self.revision if version is None else version,
            "capabilities": self.capabilities,
            "clientInfo": self.info,
        }

    async def initialized(self) -> int:
        """Say that the session is open; the number of the frame."""
        return await self.notify("notifications/initialized")

    async def discover(self) -> Answer:
        """Ask the server what it is, which no session is needed for.

        Raises:
            UnsupportedVersionError: it does not speak our revision.
            RefusedError: it refused for another reason.
            ValidateError: no answer came, or none that can be read.
        """
        answer = await self.request("server/discover")
        if answer.is_error:
            data = answer.error.get("data")
            supported = data.get("supported") if isinstance(data, dict) else None
            if isinstance(supported, list):
                offered = tuple(version for version in supported if isinstance(version, str))
                raise UnsupportedVersionError(
                    f"the server speaks {', '.join(offered) or 'no revision at all'}", answer.frames, offered
                )
            raise self._refused("server/discover", answer)
        self.server = answer.members
        self.is_initialized = True
        self.wire.version = self.revision
        return answer

    # What a client does every day

    async def ping(self) -> Answer:
        """See whether the server is there; in the stateless era, which has no ping, by another question."""
        return await self.request("server/discover" if self.is_stateless else "ping")

    async def list(self, method: str) -> list[JSONObject]:
        """All items of a list, page after page.

        Raises:
            RefusedError: the server refused.
            MalformedAnswerError: the result holds no list, or its pages have no end.
            ValidateError: no answer came, or none that can be read.
        """
        self._must_be_open()
        member = method.partition("/")[0]
        member = "resourceTemplates" if method == "resources/templates/list" else member
        items: list[JSONObject] = []
        cursor: JSON = None
        seen: set[str] = set()
        for _ in range(_PAGES):
            answer = await self.request(method, ABSENT if cursor is None else {"cursor": cursor})
            if answer.is_error:
                raise self._refused(method, answer)
            page = answer.members.get(member)
            if not isinstance(page, list):
                raise MalformedAnswerError(f"the result of {method} has no list {member}", answer.frames)
            items += [item for item in page if isinstance(item, dict)]
            cursor = answer.members.get("nextCursor")
            if cursor is None:
                return items
            if not isinstance(cursor, str) or cursor in seen:
                raise MalformedAnswerError(
                    f"{method} gives the cursor {shown(cursor)} a second time: its pages have no end"
                    if isinstance(cursor, str)
                    else f"{method} gives a cursor that is no string",
                    answer.frames,
                )
            seen.add(cursor)
        raise MalformedAnswerError(f"{method} has more than {_PAGES} pages")

    async def call(self, name: str, arguments: JSONObject | None = None) -> JSONObject:
        """Call a tool; its result.

        Raises:
            ToolNotFoundError: there is none of that name.
            ToolFailedError: it failed, and says so in its result.
            RefusedError: the server refused.
            ValidateError: no answer came, or none that can be read.
        """
        self._must_be_open()
        answer = await self.request("tools/call", {"name": name, "arguments": arguments or {}})
        if answer.is_error:
            text = str(answer.error.get("message", ""))
            if answer.code == _NO_SUCH_TOOL and name in text:
                raise ToolNotFoundError(f"there is no tool {shown(name)}: {text}", answer.frames)
            raise self._refused(f"tools/call {shown(name)}", answer)
        if answer.members.get("isError") is True:
            raise ToolFailedError(f"the tool {shown(name)} failed: {_text_of(answer.members)}", answer.frames)
        return answer.members

    async def alive(self) -> bool:
        """Whether the server still answers."""
        try:
            await self.ping()
        except (GoneError, TimedOutError, HttpStatusError):
            return False
        return True

    def _must_be_open(self) -> None:
        if not self.is_initialized:
            raise NotInitializedError("the session is not open yet; call initialize or discover first")

    def _refused(self, what: str, answer: Answer) -> RefusedError:
        code, message = answer.code, answer.error.get("message")
        text = f", {shown(message)}" if message else ""
        text = f"the server refused {what}: error {shown(code)}{text}"
        return RefusedError(text, answer.frames, code, message)


def _text_of(result: JSONObject) -> str:
    content = result.get("content")
    for item in content if isinstance(content, list) else ():
        if isinstance(item, dict) and isinstance(item.get("text"), str):
            return str(item["text"])[:200]
    return "it does not say why"
