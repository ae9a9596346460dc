"""What a user of ``mcpproxy http`` has to know of the server's responses, besides findings.

A client that follows a redirect to another origin leaves the proxy, and the recording lacks the rest. A
server that misses our certificate says so in a page, which the client hardly shows. One that speaks TLS
only hangs up on who does not.
"""

from __future__ import annotations

from mcpproxy.base.upstream.client_certificates import REFUSING, certificate_advice
from mcpproxy.base.upstream.redirects import MAYBE_LOGIN, REDIRECTS, SAME_REQUEST
from mcpproxy.judge.session.frame import SERVER, ExchangeEnd, Frame, RequestHead, ResponseHead

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

    from mcpproxy.judge.session.frame import Event


_MOST_HINTS: Final = 20
"""How many different things are said: a server may redirect each request elsewhere."""


class UpstreamHints:
    """Reads the events of a recording of the server at ``url``; ``take`` returns what to say, each once.

    Redirects count only in answers to requests for the MCP endpoint: others, such as those of a login, lead
    users elsewhere on purpose.
    """

    def __init__(self, url: str) -> None:
        self._url: Final = url
        self._said: Final[set[str]] = set()
        self._has_responded = False
        self._asked: Final[dict[int, RequestHead]] = {}
        """The open exchanges with the endpoint that have no response, with their requests."""
        self._refused: Final[dict[int, int]] = {}
        """The open exchanges with a status that may mean that a certificate is missing, and the status."""

    def take(self, event: Event) -> str:
        """Return what to say of an event; empty for nearly all."""
        hint = self._hint(event)
        if not hint or hint in self._said or len(self._said) >= _MOST_HINTS:
            return ""
        self._said.add(hint)
        return hint

    def _hint(self, event: Event) -> str:
        if isinstance(event, RequestHead):
            if event.endpoint:
                self._asked[event.exchange] = event
        elif isinstance(event, ResponseHead):
            return self._on_head(event)
        elif isinstance(event, Frame):
            if event.exchange in self._refused and event.sender == SERVER:
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
        asked = self._asked.pop(head.exchange, None)
        if asked is not None and head.status == 421:
            from mcpproxy.base.named_url import host_advice

            return f"the server does not serve the host of {self._url} (HTTP 421); {host_advice(self._url)}"
        if head.status in REFUSING:
            self._refused[head.exchange] = head.status
        elif asked is not None and head.status in REDIRECTS:
            return self._on_redirect(head, asked)
        return ""

    def _on_redirect(self, head: ResponseHead, asked: RequestHead) -> str:
        # few servers redirect, and these imports take long
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
        if head.status not in SAME_REQUEST and asked.method == "POST":
            clients = f"with HTTP {head.status}, which clients do not follow with a POST"
        elif path == path_of(asked.target):
            clients = "and at that path of mcpproxy clients come to the former URL again"
        else:
            return ""
        return f"the server redirects to {without_query(target)}, {clients}: {what}"

    def _on_end(self, end: ExchangeEnd) -> str:
        self._refused.pop(end.exchange, None)
        asked = self._asked.pop(end.exchange, None)
        hung_up = asked is not None and end.cut and end.by == SERVER
        if not hung_up or self._has_responded or not self._url.startswith("http://"):
            return ""
        secure = self._url.replace("http:", "https:", 1)
        return f"the server closes connections without a response: if its port speaks TLS, give {secure}"

    def _on_page(self, page: Frame) -> str:
        status = self._refused.pop(page.exchange)
        advice = certificate_advice(status, page.raw)
        return (
            f"the server answers HTTP {status} for want of a client certificate that it accepts; {advice}"
            if advice
            else ""
        )
