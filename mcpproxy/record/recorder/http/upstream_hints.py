"""Hints for the user of ``mcpproxy http``: problems in the server's responses that break no rule.

A client that follows a redirect to another origin bypasses the proxy, so the recording lacks the rest. A
redirect to another path of the same origin may not be followed, or bring the client back to the same URL. A
server that demands a client certificate says so in an error page, which clients rarely show. A server that
speaks only TLS closes a connection without TLS and sends no response. A status of 421 says that the server
does not serve the host that the request names.
"""

from typing import Final

from mcpproxy.base.upstream.client_certificates import REFUSING, certificate_advice
from mcpproxy.base.upstream.redirects import MAYBE_LOGIN, REDIRECTS, SAME_REQUEST
from mcpproxy.judge.session.frame import SERVER, Event, ExchangeEnd, Frame, RequestHead, ResponseHead

_MOST_HINTS: Final = 20
"""The largest number of hints in a session: a server may redirect each request elsewhere."""


class UpstreamHints:
    """Reads the events of a session with the server at ``url``, and returns each hint once.

    Redirects and the status 421 count only in answers to requests for the MCP endpoint: other redirects, such
    as those of a login, lead users elsewhere on purpose.
    """

    def __init__(self, url: str) -> None:
        self._url: Final = url
        self._given_hints: Final[set[str]] = set()
        self._has_responded = False
        self._requests: Final[dict[int, RequestHead]] = {}
        """The requests to the endpoint without a response so far, by exchange."""
        self._refusals: Final[dict[int, int]] = {}
        """The statuses of open exchanges that may mean that a client certificate is missing, by exchange."""

    def hint_for(self, event: Event) -> str:
        """Return the hint for an event. It is empty for nearly all events, for a hint that was given before,
        and after ``_MOST_HINTS`` hints."""
        hint = self._find_hint(event)
        if not hint or hint in self._given_hints or len(self._given_hints) >= _MOST_HINTS:
            return ""
        self._given_hints.add(hint)
        return hint

    def _find_hint(self, event: Event) -> str:
        if isinstance(event, RequestHead):
            if event.endpoint:
                self._requests[event.exchange] = event
        elif isinstance(event, ResponseHead):
            return self._on_head(event)
        elif isinstance(event, Frame):
            if event.exchange in self._refusals and event.sender == SERVER:
                return self._on_page(event)
        elif isinstance(event, ExchangeEnd):
            return self._on_end(event)
        return ""

    def _on_head(self, head: ResponseHead) -> str:
        if head.by_proxy:
            return ""
        self._has_responded = True
        if head.status < 200:
            return ""
        request = self._requests.pop(head.exchange, None)
        if request is not None and head.status == 421:
            from mcpproxy.base.named_url import host_advice

            return f"the server does not serve the host of {self._url} (HTTP 421); {host_advice(self._url)}"
        if head.status in REFUSING:
            self._refusals[head.exchange] = head.status
        elif request is not None and head.status in REDIRECTS:
            return self._on_redirect(head, request)
        return ""

    def _on_redirect(self, head: ResponseHead, request: RequestHead) -> str:
        # Imported late: few servers redirect, and these imports take long.
        from mcpproxy.base.named_url import ForeignUrlError, other_origin, path_of, resolved, without_query

        location = next((value for name, value in head.headers if name.lower() == "location"), "")
        what = "perhaps for a login" if head.status in MAYBE_LOGIN else "give that URL"
        if target := other_origin(self._url, location):
            return f"the server redirects to {target}, past mcpproxy: {what}"
        try:
            target = resolved(self._url, location)
        except ForeignUrlError:
            return ""
        path = path_of(target)
        if path == path_of(self._url):
            return ""
        if head.status not in SAME_REQUEST and request.method == "POST":
            clients = f"with HTTP {head.status}, which clients do not follow with a POST"
        elif path == path_of(request.target):
            clients = "and at that path of mcpproxy clients come to the former URL again"
        else:
            return ""
        return f"the server redirects to {without_query(target)}, {clients}: {what}"

    def _on_end(self, end: ExchangeEnd) -> str:
        self._refusals.pop(end.exchange, None)
        request = self._requests.pop(end.exchange, None)
        hung_up = request is not None and end.cut and end.by == SERVER
        if not hung_up or self._has_responded or not self._url.startswith("http://"):
            return ""
        secure = self._url.replace("http:", "https:", 1)
        return f"the server closes connections without a response: if its port speaks TLS, give {secure}"

    def _on_page(self, page: Frame) -> str:
        status = self._refusals.pop(page.exchange)
        advice = certificate_advice(status, page.raw)
        return (
            f"the server answers HTTP {status} for want of a client certificate that it accepts; {advice}"
            if advice
            else ""
        )
