"""The gate over HTTP if an addon fails closed: it also refuses bodies that no addon can be asked about,
because they are compressed, too long, or not JSON."""

import re
from string import punctuation
from typing import Final
from urllib.parse import quote, unquote_to_bytes, urljoin

from mcpproxy.base.named_url import LONGEST_URL
from mcpproxy.gate.intercept.addons.closed_gate import LIMIT_BYTES
from mcpproxy.record.relay.http.request_head import Refusal
from mcpproxy.record.relay.http.route import Route

_MOST_PATHS: Final = 1_000
"""How many paths are remembered; if servers name more, or a URL over ``LONGEST_URL``, every path is gated."""
_ABOUT_BODIES: Final = frozenset(
    (
        b"content-length",
        b"content-type",
        b"content-encoding",
        b"transfer-encoding",
        b"trailer",
        b"connection",
        b"keep-alive",
        b"etag",
        b"content-md5",
        b"digest",
    )
)
"""The header fields that describe the body."""


class GatedPaths:
    """The paths to which MCP messages are posted: the endpoint, paths below it, and paths that servers of the
    HTTP+SSE transport name."""

    def __init__(self) -> None:
        self._paths: set[str] = set()
        self._gates_all = False  # whether every path is gated

    def add(self, target: str) -> None:
        """Gate the path of a target or URL."""
        self._paths |= _readings(target)

    def add_named(self, named: str, target: str) -> None:
        """Gate the path of a URL that a server named in its answer to a request to ``target``."""
        if len(named) > LONGEST_URL or len(self._paths) > _MOST_PATHS:
            self._gates_all = True
            return
        url = quote(re.sub("[\t\r\n]", "", named), safe=punctuation, errors="surrogateescape")
        for reading in (url, url.replace("\\", "/")):  # some clients read a backslash as a slash
            try:
                self.add(urljoin(f"http://server{target}", reading))
            except ValueError:  # no URL
                self.add(reading)

    def has(self, target: str) -> bool:
        """Whether a request to this target is gated, however its path is written."""
        if self._gates_all:
            return True
        below = tuple(path + "/" for path in self._paths if path)
        return any(path in self._paths or path.startswith(below) for path in _readings(target))


def _readings(target: str) -> set[str]:
    """Return how servers may read the path of a target or URL: as it is written, or without dot segments.

    Both readings are decoded, in lower case, without empty segments, parameters, or a slash at the end.
    """
    path = re.sub("(?i)^https?://[^/?#]*", "", target)
    path = re.split("[?#]", path, maxsplit=1)[0]
    text = unquote_to_bytes(path.encode("latin-1", "replace")).decode("utf-8", "surrogateescape")
    segments = [name for part in re.split(r"[/\\]", text.casefold()) if (name := part.partition(";")[0])]
    resolved: list[str] = []
    for name in segments:
        if name == "..":
            del resolved[-1:]
        elif name != ".":
            resolved.append(name)
    return {"".join("/" + name for name in names) for names in (segments, resolved)}


def check_request(route: Route, *, is_gated: bool, is_json: bool) -> None:
    """Refuse a request if its head shows that no addon could be asked about its body.

    ``is_gated``: its path is one of ``GatedPaths``. ``is_json``: its head names no media type other than
    JSON.

    Raises:
        Refusal: no addon could be asked about its body, or about what follows it, as after an upgrade.
    """
    head = route.request
    if route.is_last:
        raise Refusal(400, "addons that fail closed see no messages of another protocol")
    if not is_gated or not head.length:
        return
    if head.method != b"POST" or not is_json or _is_coded(head.value(b"content-encoding")):
        raise Refusal(415, "addons that fail closed see only messages that are posted as plain JSON")
    if head.value(b"expect") is not None:
        raise Refusal(417, "addons that fail closed see no body that waits to be asked for")
    if head.length > LIMIT_BYTES:
        raise too_long()


def too_long() -> Refusal:
    """Return the refusal of a request whose body is too long for addons."""
    return Refusal(413, f"addons that fail closed see no body over {LIMIT_BYTES >> 20} MiB")


def _is_coded(coding: bytes | None) -> bool:
    return coding is not None and coding.strip().lower() not in (b"", b"identity")


def error_head(head: bytes, length: int) -> bytes:
    """Return ``head`` for a new body, a JSON error of ``length`` bytes, after which the connection ends."""
    first, *lines = head[:-4].split(b"\r\n")
    kept = [line for line in lines if line.partition(b":")[0].strip().lower() not in _ABOUT_BODIES]
    own = (b"Content-Type: application/json", b"Content-Length: %d" % length, b"Connection: close")
    return b"\r\n".join((first, *kept, *own)) + b"\r\n\r\n"
