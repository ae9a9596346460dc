"""The names that addons import. An addon sees the messages of a session and may change, drop or answer them.

    from mcpproxy.addons import Addon, Answer, Message, Session

    class Clock(Addon):
        def request(self, session: Session, message: Message) -> Answer | None:
            if message.tool == "clock":
                return message.answer({"content": [{"type": "text", "text": "noon"}]})
            return None

``mcpproxy --addon clock.py -- COMMAND`` makes one object of each class in ``clock.py`` that derives from
``Addon``. Its hooks may be functions or coroutine functions. A hook that returns ``None`` or its
message lets the message pass unchanged, byte for byte.
"""

import json
from collections.abc import Mapping
from enum import Enum
from typing import Any, Final, Literal, Self, TypeAlias, cast

from mcpproxy.protocol.error_message import error_message
from mcpproxy.protocol.jsonrpc import Flaw, read
from mcpproxy.protocol.message_parts import target_of
from mcpproxy.protocol.raw_json import value_bytes, with_value, without_value
from mcpproxy.protocol.wording import pointer_steps

__all__ = ["DROP", "Addon", "Answer", "Finding", "Message", "Result", "Session"]

Sender: TypeAlias = Literal["client", "server"]


class _Drop(Enum):
    DROP = "drop"


DROP: Final = _Drop.DROP
"""The result of a hook that drops its message: the receiver does not get it."""


_UNREAD: Final = object()
"""The value of a message whose JSON has not been parsed yet."""


class Message:
    """A JSON-RPC message. It is immutable: ``set``, ``remove`` and ``with_raw`` return a new message.

    A hook always gets a JSON object, whose members may be of any type: ``params`` may be a list, and ``id``
    an object. If the bytes come from ``with_raw`` and are not JSON, ``method``, ``id``, ``params`` and
    ``tool`` raise ``ValueError``, as the property ``json`` does.
    """

    __slots__ = ("_value", "raw", "sender")

    def __init__(self, raw: bytes, sender: Sender) -> None:
        self.raw: Final = raw
        """The bytes of the message, without the line feed that ends it on stdio."""
        self.sender: Final = sender
        self._value: Any = _UNREAD

    @property
    def json(self) -> Any:
        """The message as parsed JSON. A change in this value does not change the message.

        Of members with the same name, only the last is kept. Integers of more than 1,000 digits are floats.

        Raises:
            ValueError: the bytes are not JSON, or are nested too deep to be read (about 1,000 levels).
        """
        if self._value is _UNREAD:
            value = read(self.raw)
            if isinstance(value, Flaw):
                raise ValueError(value.value)
            self._value = value
        return self._value

    @property
    def method(self) -> str:
        """The method of a request or a notification; empty if the message has none that is a string."""
        method = self._member("method")
        return method if isinstance(method, str) else ""

    @property
    def id(self) -> Any:
        """The id, of whatever type it is; ``None`` if it is missing, as in a notification, or is null."""
        return self._member("id")

    @property
    def params(self) -> Any:
        """The parameters, of whatever type they are; an empty dictionary if there are none."""
        return self._member("params", {})

    @property
    def tool(self) -> str:
        """The tool that a ``tools/call`` request names; empty for any other message or type of name."""
        return (target_of("tools/call", self.params) or "") if self.method == "tools/call" else ""

    def _member(self, name: str, absent: object = None) -> Any:
        value = self.json
        return cast("dict[str, object]", value).get(name, absent) if isinstance(value, dict) else absent

    def set(self, pointer: str, value: object) -> Self:
        """Return the message with ``value`` at a JSON Pointer; every other byte stays.

        The value replaces an existing one, or is added to an existing object or array; a new element of an
        array has the index ``-`` or the next one. Objects that are missing on the way are added. A value on
        the way that cannot contain the next one, such as an array without that index, is replaced by an
        object; so are bytes that are not JSON.

        Raises:
            ValueError: ``pointer`` does not begin with ``/``, or JSON has no such value (NaN).
            TypeError: JSON has no such type.
        """
        tokens, text = _pointer_tokens(pointer), _json_bytes(value)
        while (raw := with_value(self.raw, tokens, text)) is None:
            text, tokens = b"{%b:%b}" % (_json_bytes(tokens[-1]), text), tokens[:-1]
        return self.with_raw(raw)

    def remove(self, pointer: str) -> Self:
        """Return the message without the value at a JSON Pointer; the same message if there is no such value.

        Raises:
            ValueError: ``pointer`` does not begin with ``/``.
        """
        without = without_value(self.raw, _pointer_tokens(pointer))
        return self if without is None else self.with_raw(without)

    def with_raw(self, raw: bytes) -> Self:
        """Return a message of these bytes. They need not be JSON; on stdio, line feeds become spaces."""
        return type(self)(raw, self.sender)

    def answer(self, result: Mapping[str, object]) -> "Answer":
        """Return an answer with ``result`` to this request. The request does not reach its receiver.

        Raises:
            ValueError: JSON has no such result (NaN).
            TypeError: JSON has no such type.
        """
        return Answer(b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (self._id_bytes, _json_bytes(result)))

    def error(self, code: int, text: str, data: object = None) -> "Answer":
        """Return an error as the answer to this request. The request does not reach its receiver.

        Raises:
            ValueError: JSON has no such ``data`` (NaN).
            TypeError: JSON has no such type.
        """
        return Answer(error_message(code, text, self._id_bytes, None if data is None else _json_bytes(data)))

    @property
    def _id_bytes(self) -> bytes:
        # The id byte for byte: parsing and writing it again could change a large number.
        return value_bytes(self.raw, ("id",)) or b"null"

    def __repr__(self) -> str:
        return f"Message({self.raw[:200]!r}, {self.sender!r})"


class Answer:
    """An answer to a request, from ``Message.answer`` or ``Message.error``; ``raw`` holds its bytes."""

    __slots__ = ("raw",)

    def __init__(self, raw: bytes) -> None:
        self.raw: Final = raw


class Session:
    """A session. Addons may keep values in ``memory`` from one hook to the next.

    ``id`` is the ``Mcp-Session-Id`` over HTTP, otherwise empty. All HTTP messages without a session id
    belong to one session.
    """

    __slots__ = ("id", "memory", "transport")

    def __init__(self, id: str, transport: Literal["stdio", "http"]) -> None:
        self.id: Final = id
        self.transport: Final = transport
        self.memory: Final[dict[str, Any]] = {}


class Finding:
    """A rule that a peer has broken: its code, who is to blame, the text, the frame (0 for the session)."""

    __slots__ = ("blame", "frame", "rule", "text")

    def __init__(self, rule: str, blame: str, text: str, frame: int) -> None:
        self.rule: Final = rule
        self.blame: Final = blame
        self.text: Final = text
        self.frame: Final = frame


Result: TypeAlias = Message | Answer | Literal[_Drop.DROP] | None
"""The result of a hook: another message, an answer to a request (16 MiB at most), ``DROP``, or ``None``."""


class Addon:
    """The base class of addons. Only the hooks that a class defines are called.

    The hooks, each a function or a coroutine function::

        request(session, message) -> Result
        response(session, request, message) -> Result     # request is None if it was not seen
        notification(session, message) -> Result
        opened(session), closed(session)
        finding(session, finding)     # over HTTP always with the session without an id
    """

    budget_s: float = 1.0
    """How many seconds a hook may take. A hook that takes longer has failed. For a hook that is no coroutine
    function, the limit is the sum of the budgets of all addons."""
    fail_open: bool = True
    """Whether a message passes if a hook fails. If false, a request is answered with an error, a response is
    replaced by an error, and a notification is dropped. Data for which no hook can be called, such as a batch
    or bytes that are not JSON, is then dropped as well."""
    concurrent: bool = False
    """Whether the hooks for several messages may run at the same time. All addons must allow it. Hooks are
    called, and messages delivered, in the order in which the messages arrived."""


def _pointer_tokens(pointer: str) -> list[str]:
    if not pointer.startswith("/"):
        raise ValueError(f"{pointer!r} is not a JSON Pointer: write it as /params/name")
    return pointer_steps(pointer)


def _json_bytes(value: object) -> bytes:
    try:
        return _json_text(value, ascii=False).encode()
    except UnicodeEncodeError:  # half of a surrogate pair, which JSON can only have as an escape
        return _json_text(value, ascii=True).encode()


def _json_text(value: object, *, ascii: bool) -> str:
    return json.dumps(value, ensure_ascii=ascii, separators=(",", ":"), allow_nan=False)
