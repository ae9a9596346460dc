"""What addons import: programs that see the messages of a session, and may change, drop or answer them.

    from mcpproxy.addons import Addon, Answer, Message, Session

    class Clock(Addon):
        def request(self, session: Session, message: Message) -> Answer | None:
            if message.tool == "clock":
                return message.answer({"content": [{"type": "text", "text": "noon"}]})
            return None

``mcpproxy --addon clock.py -- COMMAND`` makes one object of each class in ``clock.py`` that derives from
``Addon``. Its hooks may be functions or coroutine functions. A hook that returns ``None`` or the message that
it got lets the message pass, every byte of it.
"""

import json
from collections.abc import Mapping
from enum import Enum
from typing import Any, Final, Literal, Self, TypeAlias, cast

from mcpproxy.protocol.error_message import error_message
from mcpproxy.protocol.jsonrpc import Flaw, read
from mcpproxy.protocol.message_parts import target_of
from mcpproxy.protocol.raw_json import put, value_bytes, with_value, without_value

__all__ = ["DROP", "Addon", "Answer", "Finding", "Message", "Result", "Session"]

Sender: TypeAlias = Literal["client", "server"]


class _Drop(Enum):
    DROP = "drop"


DROP: Final = _Drop.DROP
"""What a hook returns for a message that its receiver is not to get."""


_UNREAD: Final = object()


class Message:
    """A JSON-RPC message. It never changes: the methods return a new one.

    A hook always gets a JSON object. What its members are is up to its sender: ``params`` may be a list, and
    an ``id`` an object. ``method``, ``id``, ``params`` and ``tool`` of bytes from ``with_raw`` that are not
    JSON raise the ``ValueError`` of ``json``.
    """

    __slots__ = ("_value", "raw", "sender")

    def __init__(self, raw: bytes, sender: Sender) -> None:
        self.raw: Final = raw
        """The bytes that the sender has sent, without a line feed."""
        self.sender: Final = sender
        self._value: Any = _UNREAD

    @property
    def json(self) -> Any:
        """The message as Python has JSON. Changes in it change nothing.

        Of members with the same name it has the last. It may nest 1,000 levels deep, and whole numbers with
        more than 1,000 digits are floats.

        Raises:
            ValueError: the bytes are not JSON.
        """
        if self._value is _UNREAD:
            value = read(self.raw)
            if isinstance(value, Flaw):
                raise ValueError(value.value)
            self._value = value
        return self._value

    @property
    def method(self) -> str:
        """The method of a request or a notification; empty for a response."""
        method = self._member("method")
        return method if isinstance(method, str) else ""

    @property
    def id(self) -> Any:
        """The id, of whatever type it is; ``None`` for a notification."""
        return self._member("id")

    @property
    def params(self) -> Any:
        """The parameters, of whatever type they are; an empty dictionary if there are none."""
        return self._member("params", {})

    @property
    def tool(self) -> str:
        """The tool that a request calls; empty for anything else, and where the name is not a string."""
        return (target_of("tools/call", self.params) or "") if self.method == "tools/call" else ""

    def _member(self, name: str, absent: object = None) -> Any:
        value = self.json
        return cast("dict[str, object]", value).get(name, absent) if isinstance(value, dict) else absent

    def set(self, pointer: str, value: object) -> Self:
        """Return the message with ``value`` at a JSON Pointer; every other byte stays.

        Objects that are missing on the way are added.

        Raises:
            ValueError: it is no JSON Pointer, or JSON has no such value (NaN).
        """
        tokens, text = _tokens(pointer), _written(value)
        return self.with_raw(with_value(self.raw, tokens, text) or put(self.raw, tuple(tokens), text))

    def remove(self, pointer: str) -> Self:
        """Return the message without what is at a JSON Pointer; the same message if nothing is there.

        Raises:
            ValueError: it is no JSON Pointer.
        """
        without = without_value(self.raw, _tokens(pointer))
        return self if without is None else self.with_raw(without)

    def with_raw(self, raw: bytes) -> Self:
        """Return a message of these bytes. They need not be JSON; on stdio line feeds become spaces."""
        return type(self)(raw, self.sender)

    def answer(self, result: Mapping[str, object]) -> "Answer":
        """Return the answer to this request; its receiver does not get the request.

        Raises:
            ValueError: JSON has no such result (NaN).
        """
        return Answer(b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (self._written_id, _written(result)))

    def error(self, code: int, text: str, data: object = None) -> "Answer":
        """Return an error as the answer to this request; its receiver does not get the request."""
        return Answer(error_message(code, text, self._written_id, None if data is None else _written(data)))

    @property
    def _written_id(self) -> bytes:
        # The id as it was written: reading and writing it again could change a large number.
        return value_bytes(self.raw, ("id",)) or b"null"

    def __repr__(self) -> str:
        return f"Message({self.raw[:200]!r}, {self.sender!r})"


class Answer:
    """An answer to a request, from ``Message.answer`` or ``Message.error``; ``raw`` are its bytes."""

    __slots__ = ("raw",)

    def __init__(self, raw: bytes) -> None:
        self.raw: Final = raw


class Session:
    """A session, which may keep what an addon wants to remember in ``memory``.

    ``id`` is the ``Mcp-Session-Id`` over HTTP, otherwise empty. Messages over HTTP without one are one
    session.
    """

    __slots__ = ("id", "memory", "transport")

    def __init__(self, id: str, transport: Literal["stdio", "http"]) -> None:
        self.id: Final = id
        self.transport: Final = transport
        self.memory: Final[dict[str, Any]] = {}


class Finding:
    """What the judge has found: the rule, whom it blames, the text, and the number of the frame."""

    __slots__ = ("blame", "frame", "rule", "text")

    def __init__(self, rule: str, blame: str, text: str, frame: int) -> None:
        self.rule: Final = rule
        self.blame: Final = blame
        self.text: Final = text
        self.frame: Final = frame


Result: TypeAlias = Message | Answer | Literal[_Drop.DROP] | None
"""What a hook returns: another message, an answer to a request, ``DROP``, or ``None``."""


class Addon:
    """The base of all addons. A hook that a class does not have is not called.

    The hooks, each a function or a coroutine function::

        request(session, message) -> Result
        response(session, request, message) -> Result     # request is None if it was not seen
        notification(session, message) -> Result
        opened(session), closed(session)
        finding(session, finding)
    """

    budget_s: float = 1.0
    """How long a hook may take. After that it has failed."""
    fail_open: bool = True
    """Whether a message passes if the hook fails. Otherwise a request is answered with an error, a response
    is replaced by one, and a notification is dropped; and so is everything that no hook can be asked about,
    such as a batch, or bytes that are not JSON."""
    concurrent: bool = False
    """Whether hooks may run at the same time, if all addons allow it. They are called in the
    order of the messages, which are delivered in that order, too."""


def _tokens(pointer: str) -> list[str]:
    if not pointer.startswith("/"):
        raise ValueError(f"{pointer!r} is not a JSON Pointer: write it as /params/name")
    return [token.replace("~1", "/").replace("~0", "~") for token in pointer.split("/")[1:]]


def _written(value: object) -> bytes:
    try:
        return _json_text(value, ascii=False).encode()
    except UnicodeEncodeError:  # half of a surrogate pair, which JSON can only have as an escape
        return _json_text(value, ascii=True).encode()


def _json_text(value: object, *, ascii: bool) -> str:
    return json.dumps(value, ensure_ascii=ascii, separators=(",", ":"), allow_nan=False)
