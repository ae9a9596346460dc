"""Interpret ``Connection`` and ``Upgrade``: which header fields of a head are not forwarded, and whether a
server has agreed to an upgrade.

Fields for one connection only are not forwarded, in requests and in answers.

A field that ``Connection`` names is removed, and so is its name in ``Connection``. Not removed are:

- options about the connection itself (``close``, ``keep-alive``, ``TE``, ``Upgrade``, ``HTTP2-Settings``) and
  their fields, because each client connection has one upstream connection (to the server), which ends and is
  upgraded with it;
- fields that frame the message, or that are meant for its final receiver. No sender may name them in
  ``Connection``. A request that does is refused; in an answer such a field stays, and only its name is
  removed from ``Connection``.

Fields between a client and its proxy (``Proxy-Authenticate``, ``Proxy-Authentication-Info``,
``Proxy-Authorization``, ``Proxy-Connection``) are always removed.

Source: RFC 9110, sections 7.6.1, 7.8, 11.7 and 15.2.2.
"""

from __future__ import annotations

import re

from mcpproxy.base.patterns import pattern
from mcpproxy.record.relay.http.request_head import LIMIT_BYTES, options_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Final

_STATUS_LINE: Final = pattern(rb"HTTP/1\.[01] ([0-9]{3})")
_HEAD_END: Final = re.compile(rb"\r?\n\r?\n")

_FORWARDED_OPTIONS: Final = frozenset((b"close", b"keep-alive", b"te", b"upgrade", b"http2-settings", b""))
"""Connection options that are forwarded; the empty one stands between two commas."""

_END_TO_END: Final = frozenset(
    (
        *(b"host", b"content-length", b"transfer-encoding", b"authorization", b"origin", b"mcp-session-id"),
        *(b"content-type", b"content-encoding", b"content-range", b"cache-control", b"cookie", b"set-cookie"),
        *(b"location", b"www-authenticate", b"mcp-protocol-version", b"date", b"vary"),
    )
)
"""Fields that are never meant for one connection only. Those whose names begin with ``access-control-`` are
not either."""

_PROXY_FIELDS: Final = frozenset(
    (b"proxy-authorization", b"proxy-connection", b"proxy-authenticate", b"proxy-authentication-info")
)


class HopByHop:
    """Removes from a head the fields that are not forwarded: those that its ``Connection`` names, and those
    for a proxy.

    Args:
        options: the options in ``Connection``, in lower case.

    Attributes:
        named: the options that are not forwarded.
        end_to_end: those of ``named`` that no sender may name.
    """

    __slots__ = ("end_to_end", "named")

    def __init__(self, options: Iterable[bytes]) -> None:
        self.named = {option for option in options if option not in _FORWARDED_OPTIONS}
        self.end_to_end = {
            option for option in self.named if option in _END_TO_END or option.startswith(b"access-control-")
        }

    def kept(self, name: bytes, value: bytes, line: bytes) -> bytes | None:
        """Return the line to forward for a field; ``None`` if the field is not forwarded.

        ``name`` is in lower case, ``value`` has no white space around it.
        """
        if name in _PROXY_FIELDS or (name in self.named and name not in self.end_to_end):
            return None
        if name != b"connection" or not self.named:
            return line
        options = [option for option in value.split(b",") if option.strip(b" \t").lower() not in self.named]
        kept = b",".join(options).strip(b" \t,")
        return line[: len(name)] + b": " + kept if kept else None

    @property
    def note(self) -> str:
        """A text for the recording about the options in ``Connection`` that are not forwarded, and whether
        their fields are; empty if there are none."""
        removed = b", ".join(sorted(self.named - self.end_to_end)).decode("latin-1")
        stays = b", ".join(sorted(self.end_to_end)).decode("latin-1")
        parts = [f"Connection names {removed}, which therefore goes no further"] if removed else []
        parts += [f"Connection names {stays}, which is not for one connection and stays"] if stays else []
        return "; ".join(parts)


def without_hops(head: bytes) -> tuple[bytes, str]:
    """Return the head of an answer without the fields that are not forwarded, and a note about them.

    A head that cannot be parsed, or has no such fields, is returned unchanged, with an empty note.
    """
    first, *lines = head[:-4].split(b"\r\n")
    fields: list[tuple[bytes, bytes, bytes]] = []
    options: list[bytes] = []
    for line in lines:
        name, colon, value = line.partition(b":")
        if not colon or name != name.strip() or not name:
            return head, ""  # two parsers could read it differently, so it stays unchanged
        fields.append((name.lower(), value.strip(b" \t"), line))
        if name.lower() == b"connection":
            options += options_of(value)
    hops = HopByHop(options)
    kept = [line for field in fields if (line := hops.kept(*field)) is not None]
    proxy_fields = sorted({name.decode("latin-1") for name, _, _ in fields if name in _PROXY_FIELDS})
    notes = [hops.note, f"{', '.join(proxy_fields)} is for the proxy" if proxy_fields else ""]
    note = "; ".join(filter(None, notes))
    return (b"\r\n".join((first, *kept)) + b"\r\n\r\n", note) if note else (head, "")


def may_have_hops(head: bytes) -> bool:
    """Whether a head, perhaps incomplete, may have fields that are not forwarded; a quick test."""
    lower = head.lower()
    if b"\nproxy-" in lower:
        return True
    at = lower.find(b"\nconnection:")
    while at >= 0:
        if lower[at + 12 : lower.find(b"\n", at + 1)].strip() not in (b"close", b"keep-alive", b"upgrade"):
            return True
        at = lower.find(b"\nconnection:", at + 1)
    return False


class UpgradeResponse:
    """Reads a copy of the answer to a request with ``Upgrade``: interim heads (1xx), and the final head."""

    __slots__ = ("_seen",)

    def __init__(self) -> None:
        self._seen = b""

    def feed(self, data: bytes) -> int | None:
        """Read the next bytes of the server. Return the final status, ``None`` if the head is not complete
        yet, 0 if the answer is not HTTP/1 or its head is longer than ``LIMIT_BYTES``."""
        self._seen += data
        while end := _HEAD_END.search(self._seen):
            line = _STATUS_LINE.match(self._seen)
            status = int(line[1]) if line else 0
            if status == 101 or not 100 <= status < 200:
                return status
            self._seen = self._seen[end.end() :]  # 100 Continue, 103 Early Hints
        return 0 if len(self._seen) > LIMIT_BYTES else None
