"""Connections that a client of ours opens: their time limit, their TLS, and why there is none.

Only what speaks TLS imports this module, because the module ssl takes long to load.
"""

import os
import re
import ssl
from typing import Final

from mcpproxy.base.upstream.settings import UpstreamSettings

CONNECT_S: Final = 10.0
"""How long a server may take to accept a connection."""


def tls_context(settings: UpstreamSettings, *, accepts_any: bool = False) -> ssl.SSLContext:
    """Return the TLS of our client; ``accepts_any`` accepts any certificate of the server.

    The certificates of the system are those that OpenSSL finds, also by ``SSL_CERT_FILE`` and
    ``SSL_CERT_DIR``.

    Raises:
        OSError: a file cannot be used.
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
    """Return why there is no connection; asyncio puts the address in the place of the system's words."""
    if numbers := re.findall(r"\[Errno (\d+)\]", str(fault)):  # several if the host has several addresses
        return " and ".join(dict.fromkeys(os.strerror(int(number)).lower() for number in numbers))
    return (fault.strerror or "no connection in time").lower()
