"""Advice for a user if a server demands a client certificate, or does not accept ours.

Most servers end TLS with an alert, which ``tls_failures`` reads. nginx completes the handshake and answers
each request with an error page instead; this module recognises the page.

Source: https://nginx.org/en/docs/http/ngx_http_ssl_module.html#errors, and ``ngx_http_special_response.c``.
"""

from __future__ import annotations

from mcpproxy.base.patterns import pattern

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

# Advice, as clauses: if no certificate was given, and if the given one may have been refused.
GIVE_ONE: Final = "give one with --client-cert and --client-key"
PERHAPS_REFUSED: Final = "perhaps it does not accept the certificate of --client-cert"

REFUSING: Final = range(400, 500)
"""The statuses with which nginx's error page is recognised. nginx sends it with 400, or with what the
server's ``error_page`` makes of 495 and 496."""

_READ_BYTES: Final = 4 << 10
"""The number of bytes, from the beginning of the page, that are searched."""
_MISSING: Final = pattern(rb"No required SSL certificate was sent")
_REFUSED: Final = pattern(rb"<title>(?:\d+ )?The SSL certificate error</title>")


def certificate_advice(status: int, body: bytes) -> str:
    """Return advice, as a clause, if a response is nginx's error page about our client certificate.

    It is empty for any other response, and contains nothing of the foreign ``body``.
    """
    if status not in REFUSING:
        return ""
    if _MISSING.search(body, 0, _READ_BYTES):
        return GIVE_ONE
    return PERHAPS_REFUSED if _REFUSED.search(body, 0, _READ_BYTES) else ""
