"""Rebuild the bytes of HTTP messages from their recorded heads and bodies.

A trace has bodies without chunks and, if mcpproxy decoded them, without compression. Masks change their
length. To be valid HTTP, a body is split into chunks if its head says so, ``Content-Length`` is corrected if
the exchange is complete, and ``Content-Encoding`` is renamed if the body is written decoded.
"""

from dataclasses import dataclass
from typing import Final

from mcpproxy.judge.session.exchanges import Fields
from mcpproxy.judge.session.frame import (
    CLIENT,
    SERVER,
    ExchangeEnd,
    Frame,
    Headers,
    RequestHead,
    ResponseHead,
    Sender,
)
from mcpproxy.record.trace.records import Encoded, frame_bytes

DECODED_NAME: Final = "X-Recorded-Content-Encoding"
"""The name that replaces ``Content-Encoding`` if the body is written decoded."""

LAST_CHUNK: Final = b"0\r\n\r\n"

Head = RequestHead | ResponseHead


@dataclass(frozen=True, slots=True)
class Framing:
    """How to write a message with a body.

    ``length`` replaces a wrong ``Content-Length``; ``None`` keeps it. If ``is_decoded``, ``Content-Encoding``
    is renamed. If ``is_encoded``, the body is written as it was sent, because no decoded one was recorded.
    """

    length: int | None = None
    is_decoded: bool = False
    is_encoded: bool = False


AS_RECORDED: Final = Framing()


@dataclass(slots=True)
class _Sizes:
    """The sizes of a body in bytes: decoded, and as it was sent with a content coding."""

    decoded: int = 0
    encoded: int = 0


class FramingPlan:
    """Reads the records of a recording once; after ``finish`` it tells how to write each body."""

    def __init__(self) -> None:
        self._requests: Final[dict[int, RequestHead]] = {}
        self._responses: Final[dict[int, ResponseHead]] = {}
        self._sizes: Final[dict[tuple[int, Sender], _Sizes]] = {}
        self._changed: Final[dict[tuple[int, Sender], Framing]] = {}
        """The number of an exchange and a sender -> how to write that body, unless it is ``AS_RECORDED``."""

    def framing(self, exchange: int, sender: Sender) -> Framing:
        """Return how to write the body that ``sender`` sent in an exchange."""
        return self._changed.get((exchange, sender), AS_RECORDED)

    def add_record(self, record: object) -> None:
        """Read the next record of the recording."""
        match record:
            case RequestHead():
                self._requests[record.exchange] = record
            case ResponseHead() if not is_interim(record):
                self._responses[record.exchange] = record
            case Frame() if record.exchange:
                self._sizes_of(record.exchange, record.sender).decoded += len(frame_bytes(record))
            case Encoded():
                self._sizes_of(record.exchange, record.sender).encoded += len(record.data)
            case ExchangeEnd():
                self._plan_exchange(record.exchange, is_whole=not record.cut)
            case _:
                pass

    def finish(self) -> None:
        """Plan the exchanges that have no end in the recording."""
        for exchange in list(self._requests):
            self._plan_exchange(exchange, is_whole=False)

    def _sizes_of(self, exchange: int, sender: Sender) -> _Sizes:
        return self._sizes.setdefault((exchange, sender), _Sizes())

    def _plan_exchange(self, exchange: int, *, is_whole: bool) -> None:
        request, response = self._requests.pop(exchange, None), self._responses.pop(exchange, None)
        if request:
            self._plan_body(request, CLIENT, is_whole=is_whole)
        if response:
            may_have_body = not (request and has_no_body(request, response))
            self._plan_body(response, SERVER, is_whole=is_whole and may_have_body)

    def _plan_body(self, head: Head, sender: Sender, *, is_whole: bool) -> None:
        sizes = self._sizes.pop((head.exchange, sender), _Sizes())
        fields = Fields(head.headers)
        written = sizes.decoded or sizes.encoded
        is_length_wrong = is_whole and fields.get("content-length") not in (None, str(written))
        framing = Framing(
            length=written if is_length_wrong else None,
            is_decoded=bool(sizes.decoded) and "content-encoding" in fields,
            is_encoded=bool(sizes.encoded) and not sizes.decoded,
        )
        if framing != AS_RECORDED:
            self._changed[head.exchange, sender] = framing


def is_interim(head: ResponseHead) -> bool:
    """Whether the response is interim (1xx except 101), so that another one to the same request follows."""
    return head.status < 200 and head.status != 101


def is_chunked(head: Head) -> bool:
    """Whether the body comes in chunks."""
    return "chunked" in (Fields(head.headers).get("transfer-encoding") or "").lower()


def ends_with_connection(request: RequestHead, response: ResponseHead) -> bool:
    """Whether only the end of the connection ends the body of a response."""
    fields = Fields(response.headers)
    return not ("content-length" in fields or is_chunked(response) or has_no_body(request, response))


def head_bytes(head: Head, framing: Framing = AS_RECORDED) -> bytes:
    """Return the bytes of a head, its empty line included."""
    if isinstance(head, RequestHead):
        first = f"{head.method} {head.target} HTTP/{head.version}"
    else:
        first = f"HTTP/{head.version} {head.status} {head.reason}"
    lines = [first, *(f"{name}: {value}" for name, value in _changed_headers(head.headers, framing))]
    # An imported recording may have line feeds where HTTP has none.
    return b"".join(_without_line_ends(line).encode("latin-1", "replace") + b"\r\n" for line in (*lines, ""))


def chunk(data: bytes) -> bytes:
    """Return bytes of a body as a chunk. No bytes give no chunk: an empty one would end the body."""
    return b"%x\r\n%b\r\n" % (len(data), data) if data else b""


def _changed_headers(headers: Headers, framing: Framing) -> Headers:
    changed: list[tuple[str, str]] = []
    for name, value in headers:
        match name.lower():
            case "content-length" if framing.length is not None:
                changed.append((name, str(framing.length)))
            case "content-encoding" if framing.is_decoded:
                changed.append((DECODED_NAME, value))
            case _:
                changed.append((name, value))
    return tuple(changed)


def has_no_body(request: RequestHead, response: ResponseHead) -> bool:
    """Whether a response has no body, whatever its ``Content-Length``."""
    return request.method == "HEAD" or response.status in (101, 204, 304)


def _without_line_ends(text: str) -> str:
    return text.replace("\r", " ").replace("\n", " ")
