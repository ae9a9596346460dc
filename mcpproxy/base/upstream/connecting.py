"""Connections that our clients open: their time limit, their TLS, and the reason why one fails.

Only code that uses TLS imports this module, because the module ``ssl`` takes long to load.
"""

import os
import re
import ssl
from typing import Final

from mcpproxy.base.upstream.settings import UpstreamSettings

CONNECT_S: Final = 10.0
"""The seconds that a connection to a server may take, with its tunnel and TLS handshake."""


def tls_context(settings: UpstreamSettings, *, accepts_any: bool = False) -> ssl.SSLContext:
    """Return the TLS context of our client.

    With ``accepts_any`` or ``settings.is_insecure`` it accepts any certificate of the server. Without
    ``settings.ca`` it trusts the certificates that OpenSSL finds: those of the system, or of
    ``SSL_CERT_FILE`` and ``SSL_CERT_DIR``.

    Raises:
        OSError: a file of ``settings`` cannot be read, or OpenSSL cannot use it (``ssl.SSLError``).
    """
    context = ssl.create_default_context(cafile=settings.ca or None)
    if settings.is_insecure or accepts_any:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if settings.cert:
        # With an empty password, OpenSSL does not ask for one on the terminal.
        context.load_cert_chain(settings.cert, settings.key or None, "")
    return context


def system_reason(fault: OSError | TimeoutError) -> str:
    """Return why a connection failed, in the system's words; ``no connection in time`` if there are none.

    An error from asyncio has the address in place of these words, but its text has the error's number.
    """
    if numbers := re.findall(r"\[Errno (\d+)\]", str(fault)):  # several if the host has several addresses
        return " and ".join(dict.fromkeys(os.strerror(int(number)).lower() for number in numbers))
    return (fault.strerror or "no connection in time").lower()
