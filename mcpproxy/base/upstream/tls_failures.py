"""Explain to the user, as a clause, why TLS with a server failed.

Only code that uses TLS imports this module, because the module ``ssl`` takes long to load.

Source: RFC 8446, section 6.2; the names are those of OpenSSL.
"""

import os
import re
import ssl
from typing import Final

from mcpproxy.base.upstream.client_certificates import GIVE_ONE, PERHAPS_REFUSED
from mcpproxy.base.upstream.settings import UpstreamSettings
from mcpproxy.base.visible import visible

_ALERT: Final = re.compile(r"(?:SSLV3|TLSV1|TLSV13)_ALERT_([A-Z_]+)")
"""OpenSSL's reason for a failure if the peer ended TLS with an alert; the group is the alert's name."""

_NO_ISSUER: Final = frozenset((2, 18, 19, 20, 21))
"""OpenSSL's codes (``X509_V_ERR_``) for a certificate that no trusted CA has issued."""

_CERTIFICATE_ALERTS: Final = frozenset(
    (
        "access denied",
        "bad certificate",
        "certificate unknown",
        "handshake failure",
        "no certificate",
        "unknown ca",
        "unsupported certificate",
    )
)
"""Alerts with which servers may refuse a client without a certificate, mostly before TLS 1.3."""


def tls_reason(fault: ssl.SSLError, settings: UpstreamSettings) -> str:
    """Return why TLS failed, with advice if the user can do something about it."""
    if isinstance(fault, ssl.SSLCertVerificationError):
        advice = "--insecure accepts any"
        if fault.verify_code in _NO_ISSUER:
            advice = f"{_other_ca(settings)}; {advice}"
        return f"its certificate is not trusted ({fault.verify_message}); {advice}"
    if fault.reason == "WRONG_VERSION_NUMBER":  # the answer is plain text
        return "it does not speak TLS there; try http://"
    name = alert(fault)
    if name == "certificate required":
        return f"it demands a client certificate; {GIVE_ONE}"
    if name in _CERTIFICATE_ALERTS:
        guess = f"perhaps it demands a client certificate: {GIVE_ONE}"
        if settings.cert:
            guess = PERHAPS_REFUSED
        return f"it refuses us with the alert {name}; {guess}"
    if name:
        return f"it refuses us with the alert {name}"
    return (fault.reason or str(fault)).lower().replace("_", " ")


def _other_ca(settings: UpstreamSettings) -> str:
    """Return advice for a certificate whose CA is not trusted."""
    if settings.ca:
        return f"its CA is none of those in --ca {visible(settings.ca)}"
    named = os.environ.get("SSL_CERT_FILE", "")
    if named and not os.path.exists(named):
        return f"SSL_CERT_FILE={visible(named)} does not exist; name its CA there, or with --ca FILE"
    return "name its CA with --ca FILE or SSL_CERT_FILE"


def alert(fault: ssl.SSLError) -> str:
    """Return the name of the alert with which the peer ended TLS; empty for any other failure."""
    match = _ALERT.fullmatch(fault.reason or "")
    return match[1].lower().replace("_", " ") if match else ""
