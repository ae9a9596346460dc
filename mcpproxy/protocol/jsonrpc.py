"""Parse the bytes of a frame as a JSON-RPC 2.0 message.

A frame has the bytes that a transport delimits: a line on stdio, an HTTP body, an event of a stream. Parsing
reports no faults. A request whose id is a list is still parsed as a request; the checks report the fault. A
frame is ``Malformed`` only if it cannot be parsed as JSON, if its value is neither an object nor an array, or
if the kind of the object is not clear: a method *and* a result or error, a method that is not a string, or no
method and nothing that makes it an answer (``is_answer``).

orjson reads integers beyond 64 bits as floats. So a frame with enough digits in a row for such an integer is
parsed again by ``json``, unless it is an object that orjson writes as the same bytes. A frame whose id is
still a large float (``1e20``) is parsed once more, with exact numbers.

The message classes are not frozen, although no code changes them: freezing would triple the time to create a
message. ``value`` is the whole JSON object of a message. The envelope of a ``regular`` message is certainly
correct: the version, the id (except in an answer), and params or a result that is an object. Error responses
have no such mark. ``repeats`` is false if it is certain that no object in the message has two members of one
name. Most messages are regular and repeat nothing, so the checks for these faults skip them.

Source: https://modelcontextprotocol.io/specification/2025-11-25/basic/index#messages
"""

import json
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, Literal, NoReturn, TypeAlias, cast

import orjson

from mcpproxy.base.slotted import field, slotted

if TYPE_CHECKING:
    from decimal import Decimal

JSON: TypeAlias = "dict[str, JSON] | list[JSON] | str | int | float | bool | None"
JSONObject: TypeAlias = dict[str, JSON]
RequestId: TypeAlias = int | str


class Absent(Enum):
    """The value of an absent member, which differs from null."""

    ABSENT = "absent"

    def __repr__(self) -> str:
        return "ABSENT"


ABSENT: Final = Absent.ABSENT


class Flaw(Enum):
    """Why bytes are not a JSON-RPC message."""

    EMPTY = "the frame is empty"
    NOT_JSON = "the frame is not JSON"
    NOT_UTF8 = "the frame is not UTF-8"
    TOO_DEEP = "the frame nests deeper than we read"
    SCALAR = "the frame is JSON, but not an object"
    NO_KIND = "the object has no method, result or error"
    MIXED_KIND = "the object has a method and a result or error"
    BAD_METHOD = "the method is not a string"


NOT_JSON: Final = frozenset({Flaw.EMPTY, Flaw.NOT_JSON, Flaw.NOT_UTF8})
"""The flaws of bytes that are not JSON."""


@slotted()
class Request:
    """A method with an id. ``id`` is ``None`` if the member is neither a string nor a whole number."""

    value: JSONObject
    method: str
    id: RequestId | None
    params: "JSON | Absent"
    regular: bool = field(default=False, compare=False, repr=False)
    repeats: bool = field(default=True, compare=False, repr=False)


@slotted()
class Notification:
    """A method that needs no answer. An ``id`` that it should not have is kept in ``value`` only."""

    value: JSONObject
    method: str
    params: "JSON | Absent"
    regular: bool = field(default=False, compare=False, repr=False)
    repeats: bool = field(default=True, compare=False, repr=False)


@slotted()
class Response:
    """An answer with a ``result``, of any type, and no ``error``."""

    value: JSONObject
    id: RequestId | Absent | None
    result: JSON
    regular: bool = field(default=False, compare=False, repr=False)
    repeats: bool = field(default=True, compare=False, repr=False)


@slotted()
class ErrorResponse:
    """An answer with an ``error``, or with both ``result`` and ``error``.

    It may also have neither, if it has an id and its ``jsonrpc`` is ``"2.0"``.
    """

    value: JSONObject
    id: RequestId | Absent | None
    error: "JSON | Absent"
    repeats: bool = field(default=True, compare=False, repr=False)

    @property
    def is_unclear(self) -> bool:
        """Whether the answer has both a result and an error, or neither."""
        return self.error is ABSENT or "result" in self.value


@slotted(frozen=True)
class Malformed:
    """A frame, or an element of a batch, that is not a message. ``value`` is its JSON value, if any."""

    flaw: Flaw
    value: "JSON | Absent" = ABSENT


Single: TypeAlias = Request | Notification | Response | ErrorResponse | Malformed


@slotted(frozen=True)
class Batch:
    """A JSON array; each element is parsed separately."""

    items: tuple[Single, ...]


Message: TypeAlias = Single | Batch

_MAX_INTEGER_DIGITS: Final = 1_000
"""A longer integer (its sign counts) is not converted to ``int``: that takes long and may be refused."""

Kind: TypeAlias = Literal["request", "notification", "response", "error", "malformed"]


def read(raw: bytes) -> "JSON | Flaw":
    """Return the value of a JSON text as ``parse`` reads it, or the flaw if the text cannot be read."""
    if raw.translate(_TO_ZEROS).find(_LARGE_INTEGER) < 0 or not has_large_integer(raw):
        try:
            value: JSON = orjson.loads(raw)
            return value
        except orjson.JSONDecodeError:
            pass
    return _reread(raw)


def parse(raw: bytes) -> Message:
    """Parse one frame. Never raises, for any bytes."""
    try:
        value: JSON = orjson.loads(raw)
    except orjson.JSONDecodeError:
        reread = _reread(raw)
        if isinstance(reread, Flaw):
            return Malformed(reread)
        return _message_of(reread, raw)
    if type(value) is dict:
        # Most peers write JSON as orjson does. If the bytes are equal, parsing lost no digit and no name.
        try:
            if orjson.dumps(value) == raw:
                return classify(value, value, False)
        except orjson.JSONEncodeError:
            pass  # nested deeper than orjson can write
    if raw.translate(_TO_ZEROS).find(_LARGE_INTEGER) >= 0 and has_large_integer(raw):
        reread = _reread(raw)
        return _message_of(value if isinstance(reread, Flaw) else reread, raw)
    return _message_of(value, raw)


_LARGE_INTEGER: Final = b"0" * 20
_LARGE_NEGATIVE: Final = b"-" + b"0" * 19
"""Every integer beyond 64 bits has at least 20 digits, or a minus sign and 19 digits. So a text that has
one of these, once its digits are zeros, is parsed exactly."""
_TO_ZEROS: Final = bytes(0x30 if 0x30 <= byte <= 0x39 or byte == 0x2D else 0x20 for byte in range(256))
"""Maps digits and minus signs to 0, so that one search finds both kinds of integers, and other bytes to
spaces. Searching the result takes a tenth of the time of a regular expression."""
_TO_SIGNED_ZEROS: Final = _TO_ZEROS[:0x2D] + b"-" + _TO_ZEROS[0x2E:]


def has_large_integer(raw: bytes) -> bool:
    """Whether a text has enough digits in a row for an integer beyond 64 bits. Minus signs are not digits."""
    zeros = raw.translate(_TO_SIGNED_ZEROS)
    return zeros.find(_LARGE_INTEGER) >= 0 or zeros.find(_LARGE_NEGATIVE) >= 0


def _message_of(value: JSON, raw: bytes) -> Message:
    """Return the message with the JSON value ``value``, which was parsed from ``raw``."""
    if type(value) is dict:
        is_rounded = type(value.get("id")) is float and _may_have_rounded_id(value)
        return classify(value, _parse_exactly(raw) if is_rounded else value)
    if type(value) is not list:
        return Malformed(Flaw.SCALAR, value)
    exact = _parse_exactly(raw) if any(_may_have_rounded_id(item) for item in value) else value
    exact_items = cast("list[Any]", exact) if isinstance(exact, list) else value
    pairs = zip(value, exact_items, strict=True)
    return Batch(
        tuple(
            classify(item, exact_item) if type(item) is dict else Malformed(Flaw.SCALAR, item)
            for item, exact_item in pairs
        )
    )


def _may_have_rounded_id(value: JSON) -> bool:
    """Whether the id of a message is a number that conversion to float may have changed."""
    id = value.get("id") if type(value) is dict else None
    return type(id) is float and abs(id) >= 2**53


def _parse_exactly(raw: bytes) -> Any:
    """Parse the frame again, with numbers as they were written; ``None`` if ``json`` refuses it."""
    from decimal import Decimal  # imported here: it takes a third of a megabyte, and few frames need it

    try:
        return json.loads(raw, parse_float=Decimal)
    except (ValueError, RecursionError):
        return None


def parse_leniently(raw: bytes) -> Message | None:
    """Parse invalid JSON text in the way that lenient peers do.

    Bytes that are not UTF-8 are replaced, and NaN and Infinity are accepted as numbers. Return ``None`` if
    the text is still not an object or array.
    """
    try:
        value: JSON = json.loads(raw.decode("utf-8", "replace"), parse_int=integer)
    except (ValueError, RecursionError):
        return None
    return _message_of(value, raw) if isinstance(value, dict | list) else None


def _reread(raw: bytes) -> "JSON | Flaw":
    """Parse text with the module ``json``, which is slower than orjson but reads what orjson cannot.

    orjson rejects lone surrogate escapes, and reads integers beyond 64 bits as floats.
    """
    if not raw.strip(b" \t\r\n"):
        return Flaw.EMPTY
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        return Flaw.NOT_UTF8
    try:
        return cast("JSON", json.loads(text, parse_constant=refuse_constant, parse_int=integer))
    except RecursionError:
        return Flaw.TOO_DEEP
    except ValueError:
        return Flaw.NOT_JSON


def integer(digits: str) -> int | float:
    """Parse a whole number. One of more than ``_MAX_INTEGER_DIGITS`` becomes an infinite float."""
    return int(digits) if len(digits) <= _MAX_INTEGER_DIGITS else float(digits)


def refuse_constant(name: str) -> NoReturn:
    """Refuse ``NaN`` and infinities: Python reads them, but they are JavaScript (RFC 8259 section 6).

    Raises:
        ValueError: always.
    """
    raise ValueError(f"{name} is not a JSON number")


def is_answer(value: JSONObject) -> bool:
    """Whether an object without a method answers a request.

    A line of a log may happen to have an id, and the body of an HTTP error often has a member ``error`` that
    is not JSON-RPC's, as in OAuth. So an object without ``"jsonrpc": "2.0"`` counts as an answer only if it
    has a result, or has an error and either an id or an integer as the error's code.
    """
    if "result" in value:
        return True
    error = value.get("error", ABSENT)
    if value.get("jsonrpc") == "2.0":
        return error is not ABSENT or "id" in value
    if error is ABSENT:
        return False
    return "id" in value or (type(error) is dict and type(error.get("code")) is int)


def classify(value: JSONObject, exact: Any, repeats: bool = True) -> Single:
    """Return the message with the JSON object ``value``; its kind follows from the members.

    ``exact`` is the same object, but parsed again if the id may have been rounded. ``repeats`` is explained
    at the top of the module.
    """
    regular = value.get("jsonrpc") == "2.0"
    id = value.get("id", ABSENT)
    if "method" not in value:
        if type(id) is not int and type(id) is not str:
            id = ABSENT if id is ABSENT else request_id(_id_in(exact))
        if "result" in value and "error" not in value:
            result = value["result"]
            return Response(value, id, result, regular and type(result) is dict, repeats)
        if not is_answer(value):
            return Malformed(Flaw.NO_KIND, value)
        return ErrorResponse(value, id, value.get("error", ABSENT), repeats)
    if "result" in value or "error" in value:
        return Malformed(Flaw.MIXED_KIND, value)
    method = value["method"]
    if not isinstance(method, str):
        return Malformed(Flaw.BAD_METHOD, value)
    params = value.get("params", ABSENT)
    if type(params) is not dict and params is not ABSENT:
        regular = False
    if id is ABSENT:
        return Notification(value, method, params, regular, repeats)
    # A message with the name of a notification and an id is not a request: peers do not answer it.
    if method.startswith("notifications/"):
        return Notification(value, method, params, False, repeats)
    if type(id) is int or type(id) is str:
        return Request(value, method, id, params, regular, repeats)
    return Request(value, method, request_id(_id_in(exact)), params, False, repeats)


def _id_in(exact: Any) -> Any:
    """Return the id of an object that was parsed exactly."""
    return cast("dict[str, Any]", exact).get("id") if isinstance(exact, dict) else None


def request_id(value: "JSON | Decimal") -> RequestId | None:
    """Return ``value`` as a request id, ``None`` if it is neither a string nor a whole number.

    A number written with a fraction or an exponent counts only up to 4096 digits.

    ``1`` and ``1.0`` are the same JSON number; ``1`` and ``"1"`` are different ids.
    """
    if type(value) is int or type(value) is str:
        return value
    if value is None or isinstance(value, bool | list | dict):
        return None
    if isinstance(value, int | str | float):
        return int(value) if isinstance(value, float) and value.is_integer() else None
    # The exponent is limited, because converting 1e999999999 to an integer would take very long.
    is_whole = value.is_finite() and value.adjusted() < 4096 and value == value.to_integral_value()
    return int(value) if is_whole else None


def with_other_type(id: RequestId) -> RequestId | None:
    """Return an id as the other JSON type: ``"7"`` for ``7``; ``None`` if it is no integer, or too long."""
    if isinstance(id, int):
        return str(id)
    digits = id.removeprefix("-")
    return int(id) if digits.isascii() and digits.isdecimal() and len(id) < 20 else None
