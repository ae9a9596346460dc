"""Rewrite the server's own address in answers, because the client knows the server by the proxy's address.

If an answer names the server's own origin (scheme, host and port), the client connects there directly, past
the proxy, or compares the addresses and gives up. Three things are rewritten:

- always: the ``endpoint`` event of the HTTP+SSE transport (2024-11-05), if it is an absolute URL. Otherwise
  the client would refuse the address, or bypass the proxy;
- always: the origin in ``Location``, ``Content-Location`` and ``Link``. The server names its own address
  there because the proxy has put it into ``Host``; without the proxy it would have named the address that
  the client knows. The first head on each upstream connection decides whether its answers are searched. Once
  an address was replaced, the answers of every connection whose first head comes later are searched;
- with ``--rewrite-origin``: ``WWW-Authenticate``, protected resource metadata and, if the server is its own
  authorization server, the metadata of that server: its issuer and every endpoint on the same origin.

A `Rewriter` reads the answers of one connection, as far as they may contain such an address or header fields
that are not forwarded (see ``connection_fields``), which it removes. Bytes that it cannot parse are forwarded
unchanged. It holds back at most one head, one event or one document.
"""

from __future__ import annotations

import re

from mcpproxy.base.authority import is_loopback
from mcpproxy.base.patterns import pattern
from mcpproxy.record.relay.http.body_end import BodyCounter, ChunkedCounter, LengthCounter, read_chunks
from mcpproxy.record.relay.http.connection_fields import without_hops
from mcpproxy.record.relay.http.request_head import LIMIT_BYTES, Refusal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Final

    from mcpproxy.record.relay.http.resolve import Upstream
    from mcpproxy.record.relay.http.route import Route

DOCUMENT_BYTES: Final = 1 << 20
"""The longest metadata document that is rewritten."""

_METADATA: Final = pattern(
    rb"[^?]*/\.well-known/(?:oauth-protected-resource|oauth-authorization-server|openid-configuration)(?:[/?]|\Z)"
)
"""Paths of the metadata. The path of the described resource may come before or after (RFC 8414, RFC 9728)."""

_STATUS_LINE: Final = pattern(rb"HTTP/1\.[01] ([0-9]{3})[ \r]")
# An SSE event, or comments, with the blank line at the end
_BLOCK: Final = pattern(rb"(.*?)(?:\r\n\r\n|\n\n|\r\r)", re.DOTALL)
_ENDPOINT: Final = pattern(rb"(?:\A|[\r\n])event:[ ]?endpoint(?=[\r\n]|\Z)")
# Possessive: a line feed after a carriage return could also be a line of its own, in 2**n ways for n lines.
_COMMENTS: Final = pattern(rb"(?:(?::[^\r\n]*+)?(?:\r\n|\r|\n|\Z))*+")

# The part of an answer to which the next bytes belong.
_HEAD: Final = 0
_PASS: Final = 1  # a body that is forwarded unchanged
_DOCUMENT: Final = 2  # a body that is rewritten as a whole
_EVENT: Final = 3  # the event that may be rewritten, or comments before it


class Rewriting:
    """Replaces addresses of the server in a text; all connections share one object.

    Args:
        upstream: the server. If it is on loopback, all loopback names count as its name.
        endpoint: the path of the MCP endpoint at the proxy.
        scheme: the scheme of the proxy's address.
        is_full: rewrite everything that is listed at the top of this file, as with ``--rewrite-origin``.
    """

    def __init__(self, upstream: Upstream, endpoint: str, scheme: str, *, is_full: bool) -> None:
        self.is_full = is_full
        self.has_moved = False
        """Whether a header field has named the server: then the answers of every connection whose first head
        comes later are searched."""
        self._scheme = scheme
        self._endpoint = endpoint
        hosts = {f"[{upstream.host}]" if ":" in upstream.host else upstream.host}
        if is_loopback(upstream.host):
            hosts |= {"localhost", "127.0.0.1", "[::1]"}
        names = "|".join(map(re.escape, sorted(hosts)))
        port = f":{upstream.port}"
        if upstream.port == (443 if upstream.is_tls else 80):
            port = f"(?:{port})?"
        # JSON may escape a slash as \/, and some servers do.
        path = re.escape(upstream.path).replace("/", "(?P=slash)")
        path = f"(?P<path>{path}(?![^\\s\"'?#,]))?" if path else "(?P<path>)"
        secure = "s" if upstream.is_tls else ""
        upstream_url = f"http{secure}:(?P<slash>\\\\?/)(?P=slash)(?:{names}){port}(?![A-Za-z0-9.:@-]){path}"
        self._upstream_url = re.compile(upstream_url.encode("ascii"), re.IGNORECASE)
        origin = f"(http{secure}:)?(//(?:{names}){port})(?![A-Za-z0-9.:@-])".encode("ascii")
        self._location = re.compile(rb"([ \t]*)" + origin, re.IGNORECASE)
        self._link = re.compile(rb"(?<=<)()" + origin, re.IGNORECASE)

    def rewriter(self, on_rewrite: Callable[[str], None]) -> Rewriter:
        """Return a rewriter for a new connection. ``on_rewrite`` gets a sentence about each rewriting."""
        return Rewriter(self, on_rewrite)

    def apply_to_field(self, line: bytes, host: bytes) -> tuple[bytes, str]:
        """Return a header line with the server's origin replaced by the proxy's, and a text about that.
        ``host`` is the proxy's host and port.

        Only the origin of a URL that is the field's value, or a target in ``Link``, is replaced; the rest of
        the URL stays. If nothing is replaced, the text is empty.
        """
        name = line.partition(b":")[0].lower()
        if name in (b"location", b"content-location"):
            match = self._location.match(line, len(name) + 1)
            matches = [match] if match else []
        else:
            matches = list(self._link.finditer(line)) if name == b"link" else []
        new, end = b"", 0
        for match in matches:
            scheme = self._scheme.encode() + b":" if match[2] else b""
            new += line[end : match.start()] + match[1] + scheme + b"//" + host
            end = match.end()
        if not matches:
            return line, ""
        theirs = ((matches[0][2] or b"") + matches[0][3]).decode("latin-1")
        return new + line[end:], f"{line[: len(name)].decode('latin-1')} named {theirs}"

    def apply(self, text: bytes, host: bytes) -> bytes:
        """Return ``text`` with the server's origin replaced by the proxy's, which clients call ``host``.

        If the path of the server's endpoint follows, it is replaced by the path of the proxy's endpoint.
        """
        proxy_url = f"{self._scheme}://".encode() + host
        endpoint = self._endpoint.encode("ascii")

        def our_address(match: re.Match[bytes]) -> bytes:
            return (proxy_url + (endpoint if match["path"] else b"")).replace(b"/", match["slash"])

        return self._upstream_url.sub(our_address, text)


class Rewriter:
    """Rewrites the answers of one connection. Once ``is_done``, the caller forwards everything unchanged.

    Args:
        rewriting: what replaces addresses, or ``None`` if none are replaced.
        on_rewrite: called with a sentence about each change.
        removes_hops: remove the header fields that are not forwarded.
        reads_all: read every answer, not only the first. ``removes_hops`` and ``--rewrite-origin`` imply it.
    """

    def __init__(
        self,
        rewriting: Rewriting | None,
        on_rewrite: Callable[[str], None],
        *,
        removes_hops: bool = False,
        reads_all: bool = False,
    ) -> None:
        self.is_done = False
        self.reads_all = reads_all or removes_hops or (rewriting is not None and rewriting.is_full)
        self._removes_hops = removes_hops
        self._rewriting = rewriting
        self._on_rewrite = on_rewrite
        self._expected: list[Route] = []  # the routes of the requests that have no answer yet
        self._stage = _HEAD
        self._held = b""  # bytes that are not forwarded yet
        self._host = b""  # the Host of the request that is being answered: the proxy's name
        self._head = b""  # the head of a document, which may get another Content-Length
        self._counted = 0  # held bytes of a document in chunks that ``_body`` has counted
        # ``None`` without a body, or if it lasts until the end of the connection.
        self._body: BodyCounter | None = None

    def read_all(self, *, removes_hops: bool) -> None:
        """From now on read each head; with ``removes_hops`` remove the fields that are not forwarded."""
        self.reads_all = True
        self._removes_hops = self._removes_hops or removes_hops

    def expect(self, route: Route) -> None:
        """Note that a request is forwarded, so that its answer is expected."""
        self._expected.append(route)

    def feed(self, data: bytes) -> bytes:
        """Rewrite the next bytes of the server. Return the bytes to send to the client."""
        self._held += data
        out: list[bytes] = []
        while self._held and not self.is_done:
            if self._stage == _HEAD:
                part = self._on_head()
            elif self._stage == _PASS:
                part = self._on_body()
            elif self._stage == _DOCUMENT:
                part = self._on_document()
            else:
                part = self._on_event()
            if part is None:
                break
            out.append(part)
        if self.is_done:
            out.append(self._take_held(len(self._held)))
        return b"".join(out)

    def end(self) -> bytes:
        """Note that the server sends nothing more. Return the bytes that were still held back."""
        self.is_done = True
        held = self._take_held(len(self._held))
        return self._head + held if self._stage == _DOCUMENT else held

    def _take_held(self, size: int) -> bytes:
        """Remove and return the first ``size`` held bytes."""
        taken, self._held = self._held[:size], self._held[size:]
        return taken

    def _give_up(self) -> bytes:
        """From now on forward everything unchanged."""
        self.is_done = True
        return b""

    def _on_head(self) -> bytes | None:
        """Read the head of an answer, and decide how its body is treated; ``None`` if it is incomplete."""
        end = self._held.find(b"\r\n\r\n") + 4
        if end < 4:
            return None if len(self._held) <= LIMIT_BYTES else self._give_up()
        line = _STATUS_LINE.match(self._held)
        if line is None or not self._expected:
            return self._give_up()
        status = int(line[1])
        self._host = self._expected[0].request.host or b""
        head = self._take_held(end)
        if status == 101:
            self.is_done = True
            return self._rewrite_head(head)
        if status < 200:
            return self._rewrite_head(head)
        route = self._expected.pop(0)
        fields = (line.partition(b":") for line in head.split(b"\r\n")[1:])
        values = {name.strip().lower(): value.strip() for name, _, value in fields}
        self._body, is_empty = _body_counter(status, route.request.method, values)
        is_plain = values.get(b"content-encoding", b"identity").lower() == b"identity"
        kind = values.get(b"content-type", b"").lower()
        has_event = (
            self._rewriting is not None
            and route.wants_stream
            and kind.startswith(b"text/event-stream")
            and not is_empty
        )
        if has_event and is_plain and not isinstance(self._body, LengthCounter):
            self._stage = _EVENT
            return self._rewrite_head(head)
        # A body without a known end is the last on its connection, and passes unchanged.
        if not self.reads_all or (self._body is None and not is_empty):
            self.is_done = True
            return self._rewrite_head(head)
        if is_empty:
            return self._rewrite_head(head)
        is_full = self._rewriting is not None and self._rewriting.is_full
        is_metadata = is_full and _METADATA.match(route.request.path) is not None and is_plain
        if is_metadata and not (isinstance(self._body, LengthCounter) and self._body.left > DOCUMENT_BYTES):
            self._head = self._rewrite_head(head)
            self._stage, self._counted = _DOCUMENT, 0
            return b""
        self._stage = _PASS
        return self._rewrite_head(head)

    def _rewrite_head(self, head: bytes) -> bytes:
        """Return the head without fields that are not forwarded, and with the server's address replaced."""
        if self._removes_hops:
            head, what = without_hops(head)
            if what:
                self._on_rewrite(what)
        if self._rewriting is None or not self._host:
            return head
        return b"\r\n".join(self._rewrite_line(self._rewriting, line) for line in head.split(b"\r\n"))

    def _rewrite_line(self, rewriting: Rewriting, line: bytes) -> bytes:
        if rewriting.is_full and line[:17].lower() == b"www-authenticate:":
            return self._rewrite_text(line, "WWW-Authenticate")
        new, what = rewriting.apply_to_field(line, self._host)
        if what:
            rewriting.has_moved = True
            self._on_rewrite(f"{what}, upstream's own address; the client was given ours")
        return new

    def _on_body(self) -> bytes | None:
        """Forward the held bytes of a body unchanged."""
        assert self._body is not None
        try:
            passed = self._take_held(self._body.feed(self._held, 0))
        except Refusal:  # the body is not in the coding that its head names
            return self._give_up()
        if self._body.is_over:
            self._stage = _HEAD
        return passed

    def _on_document(self) -> bytes | None:
        """Rewrite the document once it is complete; return ``None`` until then.

        A document in chunks that is too long is forwarded unchanged.
        """
        body = self._body
        head, size = self._head, len(self._held)
        if isinstance(body, LengthCounter):
            if size < body.left:
                return None
            document = self._rewrite_text(self._take_held(body.left), "the metadata")
            length = b"\r\nContent-Length: %d\r\n" % len(document)
            head = re.sub(rb"(?i)\r\nContent-Length:[^\r]*\r\n", length, head)
        else:
            assert body is not None
            try:
                self._counted = body.feed(self._held, self._counted)
            except Refusal:  # the body is not in the coding that its head names
                self.is_done = True
                return head
            if not body.is_over:
                if size <= DOCUMENT_BYTES:
                    return None
                self._stage, self._head = _PASS, b""
                return head + self._take_held(self._counted)
            raw = self._take_held(self._counted)
            content, end, _ = read_chunks(raw)
            document = _chunk(self._rewrite_text(content, "the metadata")) + raw[end:]
        self._stage, self._head = _HEAD, b""
        return head + document

    def _on_event(self) -> bytes | None:
        """Rewrite the first event if it is an ``endpoint`` event; comments before it are forwarded.

        Return ``None`` while the event is incomplete.
        """
        content, stop = self._held, len(self._held)
        if self._body is not None:
            content, stop, is_over = read_chunks(self._held)
            if is_over:  # the stream has ended without an event
                return self._forward_unchanged()
        position = 0
        while block := _BLOCK.match(content, position):
            if _ENDPOINT.search(block[1]):
                event = self._rewrite_text(block[0], "the endpoint event")
                if event == block[0]:
                    return self._forward_unchanged()
                new = content[:position] + event + content[block.end() :]
                raw = self._take_held(stop)
                if self._body is not None:
                    self._body.feed(raw, 0)
                    new = _chunk(new)
                return new + self._forward_unchanged()
            if not _COMMENTS.fullmatch(block[1]):
                return self._forward_unchanged()
            position = block.end()
        if len(self._held) > LIMIT_BYTES:
            return self._forward_unchanged()
        if content and position == len(content) and stop == len(self._held):  # nothing but comments
            if self._body is not None:
                self._body.feed(self._held, 0)
            return self._take_held(stop)
        return None

    def _forward_unchanged(self) -> bytes:
        """Forward the remaining bytes of this answer unchanged, and all later answers too unless they may be
        rewritten."""
        if self.reads_all and self._body is not None:
            self._stage = _PASS
        else:
            self.is_done = True
        return b""

    def _rewrite_text(self, text: bytes, where: str) -> bytes:
        """Return ``text`` with the server's address replaced. If that changes it, report ``where``."""
        new = self._rewriting.apply(text, self._host) if self._rewriting and self._host else text
        if new != text:
            self._on_rewrite(f"{where} named upstream's own address; the client was given ours")
        return new


def may_name_server(head: bytes) -> bool:
    """Whether a head has a field whose URL may be one of the server, and would then be rewritten."""
    lower = head.lower()
    return b"location:" in lower or b"\nlink:" in lower


def _body_counter(status: int, method: bytes, values: dict[bytes, bytes]) -> tuple[BodyCounter | None, bool]:
    """Return the counter of an answer's body, and whether there is no body (RFC 9112, section 6.3).

    The counter is ``None`` if there is no body, or if its end is not known before the connection ends.
    """
    if method == b"HEAD" or status in (204, 304):
        return None, True
    if b"transfer-encoding" in values:
        return (ChunkedCounter() if values[b"transfer-encoding"].lower() == b"chunked" else None), False
    length = values.get(b"content-length", b"")
    if length.isdigit():
        return (LengthCounter(int(length)), False) if int(length) else (None, True)
    return None, False


def _chunk(content: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(content), content)
