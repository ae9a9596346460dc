"""Work out the URL of a recorded request."""

import re
from typing import Final
from urllib.parse import quote

from mcpproxy.judge.session.exchanges import Fields
from mcpproxy.judge.session.frame import RequestHead
from mcpproxy.record.trace.records import Header

_AUTHORITY: Final = r"(?:[A-Za-z0-9._~-]{1,255}|\[[0-9A-Fa-f:.]{2,45}\])(?::[0-9]{1,5})?"
_HOST: Final = re.compile(_AUTHORITY)
_ABSOLUTE: Final = re.compile(rf"https?://{_AUTHORITY}(?:[/?].*)?", re.IGNORECASE)
_URL_CHARACTERS: Final = "!#$%&'()*+,/:;=?@[]~"


def request_url(header: Header, request: RequestHead) -> str:
    """Return the URL that a request was sent to, as its client saw it.

    The host comes from the ``Host`` header if possible, because the address on which the proxy listened may
    be ``0.0.0.0``. An imported recording has no such address; then the URL of the server is used.
    """
    target = quote(request.target, safe=_URL_CHARACTERS, encoding="latin-1", errors="replace")
    if _ABSOLUTE.fullmatch(target):
        return target
    scheme, _, place = (header.listen or header.upstream or "http://").partition("://")
    host = Fields(request.headers).get("host") or ""
    if not _HOST.fullmatch(host):
        host = place.partition("/")[0]
    # Other programs refuse an archive with a URL that they cannot read.
    return f"{scheme}://{host}{'' if target.startswith('/') else '/'}{target}"
