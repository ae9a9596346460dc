"""A client of one session that can send any bytes and reports what the server answers.

    async with connected_stdio(["python", "server.py"]) as client:
        await client.initialize()
        tools = await client.list("tools/list")
        result = await client.call("echo", {"text": "hi"})

``request`` and ``notify`` send well-formed messages of the client's ``revision``; ``send`` takes any bytes.
Requests of the server are answered automatically, as by a host without a user. Durations are in seconds.
"""

from typing import Final

from mcpproxy.peers.validate.answers import Answer, Pending
from mcpproxy.peers.validate.connection import RpcConnection, dumps
from mcpproxy.peers.validate.errors import (
    AlreadyInitializedError,
    HttpStatusError,
    MalformedAnswerError,
    NotInitializedError,
    RefusedError,
    ToolFailedError,
    ToolNotFoundError,
    UnansweredError,
    UnsupportedVersionError,
)
from mcpproxy.protocol.error_message import INVALID_PARAMS
from mcpproxy.protocol.jsonrpc import ABSENT, JSON, JSONObject
from mcpproxy.protocol.message_parts import member
from mcpproxy.protocol.revisions import STATEFUL, STATELESS
from mcpproxy.protocol.wording import shown

_MAX_PAGES: Final = 1000
"""How many pages of a list are read at most."""


class Client(RpcConnection):
    """An MCP client: opens the session as its revision requires, requests lists, and calls tools."""

    async def connect(self) -> Answer:
        """Open the session as the revision requires: ``initialize`` and ``initialized``, or ``discover``.

        Raises:
            ValidateError: the session cannot be opened.
        """
        if self.is_stateless:
            return await self.discover()
        answer = await self.initialize()
        await self.initialized()
        await self.wire.open_stream()
        return answer

    async def initialize(self, version: str | None = None) -> Answer:
        """Send ``initialize``, and adopt the revision that the server offers.

        ``version`` is the revision to ask for, by default ours. If a server over HTTP refuses because it
        supports only HTTP+SSE, the request is sent again over that transport.

        Raises:
            AlreadyInitializedError: the session is open already.
            UnsupportedVersionError: the server offers a revision that has no ``initialize``, or that
                this client does not know.
            RefusedError: the server answered with an error.
            ValidateError: there is no response, or it is malformed.
        """
        if self.is_initialized:
            raise AlreadyInitializedError("the session is open already")
        params = self.initialize_params(version)
        try:
            answer = await self.request("initialize", params)
        except HttpStatusError as fault:
            if not await self.wire.fall_back(fault.status, self.timeout_s):
                raise
            answer = await self.request("initialize", params)
        if answer.is_error:
            raise self._refusal_error("initialize", answer)
        offered = answer.members.get("protocolVersion")
        if not isinstance(offered, str):
            raise MalformedAnswerError("the result of initialize names no protocolVersion", answer.frames)
        if offered not in STATEFUL:
            flaw = "has no initialize" if offered in STATELESS else "mcpproxy does not know"
            raise UnsupportedVersionError(
                f"the server offers {shown(offered)}, a revision that {flaw}",
                answer.frames,
                (offered,),
            )
        self.server = answer.members
        self.revision = offered
        self.is_initialized = True
        self.wire.version = offered
        return answer

    def initialize_params(self, version: str | None = None) -> JSONObject:
        """Return the params of ``initialize``; ``version`` is by default our revision."""
        return {
            "protocolVersion": self.revision if version is None else version,
            "capabilities": self.capabilities,
            "clientInfo": self.info,
        }

    async def begin_older_initialize(self) -> Pending:
        """Send ``initialize`` for the newest revision with a handshake; do not wait for the response.

        This ignores the revision of this client.

        Raises:
            GoneError: the server is gone.
            TimedOutError: the server does not read its input.
        """
        id = self.new_id()
        params = self.initialize_params(STATEFUL[-1])
        message: JSONObject = {"jsonrpc": "2.0", "id": id, "method": "initialize", "params": params}
        return await self.begin_raw(dumps(message), id, "initialize")

    async def initialized(self) -> int:
        """Send ``notifications/initialized``, and return the number of its frame."""
        return await self.notify("notifications/initialized")

    async def discover(self) -> Answer:
        """Send ``server/discover``, which needs no session.

        Raises:
            UnsupportedVersionError: the server does not support our revision.
            RefusedError: the server answered with another error.
            ValidateError: there is no response, or it is malformed.
        """
        answer = await self.request("server/discover")
        if answer.is_error:
            data = answer.error.get("data")
            supported = member(data, "supported")
            if isinstance(supported, list):
                offered = tuple(version for version in supported if isinstance(version, str))
                raise UnsupportedVersionError(
                    f"the server speaks {', '.join(offered) or 'no revision at all'}", answer.frames, offered
                )
            raise self._refusal_error("server/discover", answer)
        self.server = answer.members
        self.is_initialized = True
        self.wire.version = self.revision
        return answer

    # Common requests

    async def ping(self) -> Answer:
        """Send ``ping``, or ``server/discover`` if ``is_stateless``.

        Raises:
            ValidateError: there is no response, or it is malformed.
        """
        return await self.request(self.ping_method)

    async def list(self, method: str) -> list[JSONObject]:
        """Return the items of a list, from all its pages; ``method`` is for example ``tools/list``.

        Items that are not objects are left out.

        Raises:
            NotInitializedError: the session is not open.
            RefusedError: the server answered with an error.
            MalformedAnswerError: the result has no list, its cursor is no string, or its pages do not end.
            ValidateError: there is no response, or it is malformed.
        """
        self._must_be_open()
        listed = "resourceTemplates" if method == "resources/templates/list" else method.partition("/")[0]
        items: list[JSONObject] = []
        cursor: JSON = None
        used_cursors: set[str] = set()
        for _ in range(_MAX_PAGES):
            answer = await self.request(method, ABSENT if cursor is None else {"cursor": cursor})
            if answer.is_error:
                raise self._refusal_error(method, answer)
            page = answer.members.get(listed)
            if not isinstance(page, list):
                raise MalformedAnswerError(f"the result of {method} has no list {listed}", answer.frames)
            items += [item for item in page if isinstance(item, dict)]
            cursor = answer.members.get("nextCursor")
            if cursor is None:
                return items
            if not isinstance(cursor, str):
                raise MalformedAnswerError(f"{method} gives a cursor that is not a string", answer.frames)
            if cursor in used_cursors:
                text = f"{method} gives the cursor {shown(cursor)} a second time: its pages have no end"
                raise MalformedAnswerError(text, answer.frames)
            used_cursors.add(cursor)
        raise MalformedAnswerError(f"{method} has more than {_MAX_PAGES} pages")

    async def call(self, name: str, arguments: JSONObject | None = None) -> JSONObject:
        """Call a tool and return its result.

        Raises:
            NotInitializedError: the session is not open.
            ToolNotFoundError: the server answered with the error -32602, whose message contains the name.
            ToolFailedError: the result has ``isError``.
            RefusedError: the server answered with another error.
            ValidateError: there is no response, or it is malformed.
        """
        self._must_be_open()
        answer = await self.request("tools/call", {"name": name, "arguments": arguments or {}})
        if answer.is_error:
            text = str(answer.error.get("message", ""))
            if answer.code == INVALID_PARAMS and name in text:
                raise ToolNotFoundError(f"there is no tool {shown(name)}: {text}", answer.frames)
            raise self._refusal_error(f"tools/call {shown(name)}", answer)
        if answer.members.get("isError") is True:
            raise ToolFailedError(f"the tool {shown(name)} failed: {_text_of(answer.members)}", answer.frames)
        return answer.members

    async def alive(self) -> bool:
        """Send a ping (see ``ping``), and return whether the server answers it, if only with an error.

        Raises:
            ValidateError: the answer is malformed or has another id.
        """
        try:
            await self.ping()
        except (UnansweredError, HttpStatusError):
            return False
        return True

    def _must_be_open(self) -> None:
        if not self.is_initialized:
            raise NotInitializedError("the session is not open yet; call initialize or discover first")

    def _refusal_error(self, what: str, answer: Answer) -> RefusedError:
        code, message = answer.code, answer.error.get("message")
        words = f", {shown(message)}" if message else ""
        text = f"the server refused {what}: error {shown(code)}{words}"
        return RefusedError(text, answer.frames, code, message)


def _text_of(result: JSONObject) -> str:
    """Return the beginning of the first text in the result of a tool; if there is none, say so."""
    content = result.get("content")
    for item in content if isinstance(content, list) else ():
        if isinstance(item, dict) and isinstance(item.get("text"), str):
            return str(item["text"])[:200]
    return "it does not say why"
