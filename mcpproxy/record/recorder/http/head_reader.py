"""Read the heads of HTTP messages: mask them, and extract the facts that the assembly needs.

Peers repeat their heads, so a short head that equals an earlier one byte for byte is usually not read again.
"""

from typing import Final

from mcpproxy.base.slotted import slotted
from mcpproxy.judge.session.exchanges import Fields
from mcpproxy.judge.session.frame import Headers, RequestHead, ResponseHead
from mcpproxy.protocol.header_names import SESSION_ID
from mcpproxy.record.framing.coding import codings
from mcpproxy.record.framing.heads import USUAL_HEAD_BYTES
from mcpproxy.record.framing.http1 import RequestStart, ResponseStart
from mcpproxy.record.recorder.masking import ID_LENGTH, Masker

_MAX_CACHED: Final = 256
"""How many heads are cached; then the cache is cleared."""


@slotted()
class MaskedHead:
    """A head after masking.

    ``headers`` and ``target`` (of a request) are masked. ``ids`` are the session ids in the head, unmasked,
    so that they can be found in other messages, and with ``mcpproxy model`` the credentials; short ones are
    left out. ``streams``: the body of a response is an event stream. ``coding``: the content coding of the
    body, empty for none. ``endpoint``: the request goes to the MCP endpoint. ``resumes``: the request names
    the last event that the client got (Last-Event-ID); in that id, all session ids of the connection are
    masked."""

    headers: Headers
    ids: tuple[str, ...]
    streams: bool
    coding: str
    target: str = ""
    endpoint: bool = True
    resumes: bool = False

    def of_request(self, start: RequestStart, seq: int, exchange: int, connection: int) -> RequestHead:
        """Return the event of this head, which was read from ``start``."""
        return RequestHead(
            seq,
            exchange,
            connection,
            method=start.method,
            target=self.target,
            headers=self.headers,
            endpoint=self.endpoint,
            version=start.version,
            observed_at_ns=start.at_ns,
        )

    def of_response(self, start: ResponseStart, seq: int, exchange: int, connection: int) -> ResponseHead:
        """Return the event of this head, which was read from ``start``."""
        return ResponseHead(
            seq,
            exchange,
            connection,
            status=start.status,
            headers=self.headers,
            reason=start.reason,
            version=start.version,
            by_proxy=start.by == "proxy",
            observed_at_ns=start.at_ns,
        )


class HeadReader:
    """Reads the heads of one recording, made by a reverse or (``is_forward``) a forward proxy.

    ``endpoint`` is the path of the MCP endpoint. With ``learns_keys``, the credentials in the head of a
    request are also masked in the messages of its connection, as session ids are.
    """

    def __init__(self, mask: Masker, endpoint: str, *, is_forward: bool, learns_keys: bool = False) -> None:
        self._mask = mask
        self._endpoint = endpoint
        self._is_forward = is_forward
        self._learns_keys = learns_keys
        self._cached_heads: dict[bytes, MaskedHead] = {}

    def read(self, start: RequestStart | ResponseStart, ids: tuple[str, ...]) -> MaskedHead:
        """Mask a head of a connection whose session ids so far are ``ids``."""
        if self._mask.has_learned:  # masking a URL depends on earlier messages too, so do not cache
            return self._mask_head(start, ids)
        head = self._cached_heads.get(start.raw)
        if head is None:
            head = self._mask_head(start, ids)
            if len(start.raw) <= USUAL_HEAD_BYTES and not head.resumes:
                if len(self._cached_heads) >= _MAX_CACHED:
                    self._cached_heads.clear()
                self._cached_heads[start.raw] = head
        return head

    def _mask_head(self, start: RequestStart | ResponseStart, ids: tuple[str, ...]) -> MaskedHead:
        mask, fields = self._mask, Fields(start.headers)
        head_ids = fields.all(SESSION_ID)
        target, endpoint, streams = "", True, False
        if isinstance(start, RequestStart):
            head_ids += tuple(mask.ids_in(start.target, only_learned=True))
            target, endpoint = mask.url(start.target), self._is_endpoint(start, fields)
            if self._learns_keys:
                head_ids += tuple(mask.credentials(start.headers, start.target))
        else:
            streams = fields.is_event_stream
        head_ids = tuple(id for id in head_ids if len(id) >= ID_LENGTH)
        return MaskedHead(
            mask.headers(start.headers, (*ids, *head_ids)),
            head_ids,
            streams,
            ", ".join(codings(", ".join(fields.all("content-encoding")))),
            target,
            endpoint,
            "last-event-id" in fields,
        )

    def _is_endpoint(self, start: RequestStart, fields: Fields) -> bool:
        """Whether a request goes to the MCP endpoint.

        A reverse proxy has one endpoint path. In forward mode every server has its own path, so a request
        that accepts an event stream or names a session counts too."""
        path = start.target.partition("?")[0]
        if not self._is_forward:
            return path == self._endpoint
        _, _, after_scheme = path.partition("://")
        if "/" + after_scheme.partition("/")[2] == self._endpoint:
            return True
        return SESSION_ID in fields or "text/event-stream" in (fields.get("accept") or "").lower()
