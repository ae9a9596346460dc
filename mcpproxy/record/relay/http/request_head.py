"""Parse the head of a request strictly: refuse a head that two parsers could read differently.

The proxy parses a head to decide where the request goes and where its body ends; the server parses it again.
If the two disagreed, a client could hide one request inside another (request smuggling). So the parser
repairs nothing and guesses nothing: a head has exactly one meaning, or the request is refused.

Source: RFC 9112, sections 2 to 6; RFC 9110, sections 5 and 7.
"""

from __future__ import annotations

import re

from mcpproxy.base.authority import AUTHORITY, split_authority
from mcpproxy.base.patterns import pattern

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

LIMIT_BYTES: Final = 64 << 10
"""The longest head, blank line included. Common servers accept 8 to 32 KiB."""

CHUNKED: Final = -1
"""In place of a length in bytes: the body is in chunked coding."""

_TCHAR = rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]"
_REQUEST_LINE: Final = re.compile(rb"(" + _TCHAR + rb"+) ([\x21-\x7e]+) HTTP/([0-9])\.([0-9])\r\n")
# The possessive ++ and *+ prevent slow backtracking in a head that does not match.
_FIELDS: Final = re.compile(rb"(?:" + _TCHAR + rb"++:[\t\x20-\x7e\x80-\xff]*+\r\n)*+\r\n")
_LENGTH: Final = re.compile(rb"[0-9]{1,18}")  # 18 digits fit into 64 bits
_ABSOLUTE: Final = pattern(rb"(?i:(https?)://)([^/?#@]+)(/[^#]*|\?[^#]*)?")
_BARE_LINE_END: Final = pattern(rb"(?<!\r)\n|\r(?=[^\n])")
_CONTROL: Final = pattern(rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")


class Refusal(Exception):  # noqa: N818 # it becomes an answer to the client
    """A request is not forwarded. ``status`` is that of the answer, ``why`` a sentence fragment for the
    client and the recording.

    ``has_body`` is false if the answer must have no body. ``response``, unless it is empty, is sent instead
    of the usual answer.
    """

    def __init__(self, status: int, why: str, *, has_body: bool = True, response: bytes = b"") -> None:
        super().__init__(status, why)
        self.status = status
        self.why = why
        self.has_body = has_body
        self.response = response


class ParsedHead:
    """A parsed head. ``fields`` are its fields in order: the name in lower case, the value without white
    space around it, and the unchanged line without its line end."""

    __slots__ = ("authority", "fields", "host", "length", "method", "options", "path", "target", "version")

    def __init__(self, method: bytes, target: bytes, version: bytes) -> None:
        self.method = method
        self.target = target
        self.version = version  # b"1.1" or b"1.0"
        self.fields: list[tuple[bytes, bytes, bytes]] = []  # name in lower case, value, line
        self.length = 0  # of the body in bytes, or CHUNKED
        self.host: bytes | None = None  # of the Host field; absent only in HTTP/1.0
        self.options: list[bytes] = []  # of the Connection field, in lower case
        self.authority: bytes | None = None  # of a target that is a URL, or the target of CONNECT
        self.path: bytes = target  # path and query; b"" for CONNECT; b"*" for OPTIONS *

    def value(self, name: bytes) -> bytes | None:
        """Return the value of the first field called ``name`` (in lower case), or ``None``."""
        for key, value, _ in self.fields:
            if key == name:
                return value
        return None


def parse(raw: bytes) -> ParsedHead:
    """Parse a complete head, including its blank line.

    Raises:
        Refusal: the head cannot be parsed, has more than one meaning, is too long, or is not HTTP/1.
    """
    if len(raw) > LIMIT_BYTES:
        raise _too_long()
    line = _REQUEST_LINE.match(raw)
    if line is None:
        raise Refusal(400, _why_unreadable(raw))
    method, target, major, minor = line.groups()
    if major != b"1":
        raise Refusal(505, f"HTTP/{major.decode()} is not spoken here, only HTTP/1.1")
    fields = _FIELDS.match(raw, line.end())
    if fields is None or fields.end() != len(raw):
        raise Refusal(400, _why_unreadable(raw))
    head = ParsedHead(method, target, b"1.0" if minor == b"0" else b"1.1")
    for text in raw[line.end() : -4].split(b"\r\n"):
        if text:
            name, _, value = text.partition(b":")
            head.fields.append((name.lower(), value.strip(b" \t"), text))
    _read_fields(head)
    _read_target(head)
    return head


def check_beginning(raw: bytes) -> None:
    """Refuse the beginning of a head, which has no blank line yet, for an error that no further bytes repair.
    ``parse`` finds the other errors.

    Raises:
        Refusal: ``raw`` is too long, begins a TLS handshake, or has a control character or a line that does
            not end with CR LF.
    """
    if len(raw) >= LIMIT_BYTES:
        raise _too_long()
    if raw[:1] in (b"\x16", b"\x80"):
        raise Refusal(400, "this is TLS, and plain HTTP is spoken here; use http:// or give --cert and --key")
    if _BARE_LINE_END.search(raw) or _CONTROL.search(raw):
        raise Refusal(400, _why_unreadable(raw))


def options_of(value: bytes) -> list[bytes]:
    """Return the options in a ``Connection`` field, in lower case."""
    return [option.strip(b" \t").lower() for option in value.split(b",")]


def _read_fields(head: ParsedHead) -> None:
    lengths: list[bytes] = []
    codings: list[bytes] = []
    hosts: list[bytes] = []
    for name, value, _ in head.fields:
        if name == b"content-length":
            lengths.append(value)
        elif name == b"transfer-encoding":
            codings.append(value)
        elif name == b"host":
            hosts.append(value)
        elif name == b"connection":
            head.options += options_of(value)
    if len(hosts) > 1:
        raise Refusal(400, "there is more than one Host field")
    if hosts:
        head.host = hosts[0]
        try:
            split_authority(head.host)
        except ValueError:
            raise Refusal(400, "the Host field is not a host") from None
    elif head.version == b"1.1":
        raise Refusal(400, "the Host field is missing")
    head.length = _body_length(head, lengths, codings)


def _body_length(head: ParsedHead, lengths: list[bytes], codings: list[bytes]) -> int:
    if codings:
        if lengths:
            raise Refusal(400, "there is a Content-Length and a Transfer-Encoding")
        if len(codings) > 1 or codings[0].lower() != b"chunked":
            raise Refusal(400, "the Transfer-Encoding is not chunked alone")
        if head.version == b"1.0":
            raise Refusal(400, "HTTP/1.0 knows no Transfer-Encoding")
        return CHUNKED
    if not lengths:
        return 0
    if len(lengths) > 1:
        raise Refusal(400, "there is more than one Content-Length")
    if _LENGTH.fullmatch(lengths[0]) is None:
        raise Refusal(400, "the Content-Length is not a number")
    return int(lengths[0])


def _read_target(head: ParsedHead) -> None:
    target = head.target
    if head.method == b"CONNECT":
        match = AUTHORITY.fullmatch(target)
        if match is None or not match[2]:
            raise Refusal(400, "the target of CONNECT is not host:port")
        head.authority, head.path = target, b""
    elif target.startswith(b"/"):
        if b"#" in target:
            raise Refusal(400, "the target has a fragment")
    elif target == b"*":
        if head.method != b"OPTIONS":
            raise Refusal(400, "only OPTIONS may have the target *")
    else:
        url = _ABSOLUTE.fullmatch(target)
        if url is None or AUTHORITY.fullmatch(url[2]) is None:
            raise Refusal(400, "the target is neither a path nor a URL")
        head.authority, path = url[2], url[3] or b"/"
        head.path = path if path.startswith(b"/") else b"/" + path


def _too_long() -> Refusal:
    return Refusal(431, f"the head is longer than {LIMIT_BYTES >> 10} KiB")


def _why_unreadable(raw: bytes) -> str:
    """Return why a head cannot be parsed: of several reasons, the most helpful one."""
    if _BARE_LINE_END.search(raw):
        return "a line of the head does not end with CR LF"
    if _CONTROL.search(raw):
        return "the head holds a control character"
    if _REQUEST_LINE.match(raw) is None:
        return "the request line cannot be read"
    for line in raw.split(b"\r\n")[1:]:
        if line[:1] in (b" ", b"\t"):
            return "a header field goes on over several lines"
        name, colon, _ = line.partition(b":")
        if colon and name != name.rstrip(b" \t"):
            return "there is white space between a field name and its colon"
    return "a header field cannot be read"
