"""Connections that a client of ours opens: their time limit, their TLS, and why there is none.

Only what speaks TLS imports this module, because the module ssl takes long to load.
"""

import os
import re
import ssl
from typing import Final

CONNECT_S: Final = 10.0
"""How long a server may take to accept a connection."""


def tls_context(*, insecure: bool) -> ssl.SSLContext:
    """Return the TLS settings of our client; ``insecure`` accepts any certificate."""
    context = ssl.create_default_context()
    if insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def system_reason(fault: OSError | TimeoutError) -> str:
    """Return why there is no connection; asyncio puts the address in the place of the system's words."""
    if numbers := re.findall(r"\[Errno (\d+)\]", str(fault)):  # several if the host has several addresses
        return " and ".join(dict.fromkeys(os.strerror(int(number)).lower() for number in numbers))
    return (fault.strerror or "no connection in time").lower()
