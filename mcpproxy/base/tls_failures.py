"""Why TLS with a server failed, as a clause for the user.

Only what speaks TLS imports this module, because the module ssl takes long to load.

Source: RFC 8446, section 6.2; the names are those of OpenSSL.
"""

import re
import ssl
from typing import Final

REFUSAL_S: Final = 2.0
"""How long a server may take to refuse a client after the handshake."""

_ALERT: Final = re.compile(r"(?:SSLV3|TLSV1|TLSV13)_ALERT_([A-Z_]+)")

_NO_OPTION: Final = "mcpproxy has no option to give one; put a program before it that does, such as stunnel"

_ABOUT_CERTIFICATES: Final = frozenset(
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
"""Alerts with which servers also refuse a client that has no certificate, above all before TLS 1.3."""


def tls_reason(fault: ssl.SSLError, insecure: str = "") -> str:
    """Return why TLS failed, and what a person can do if there is something.

    ``insecure`` is the option that accepts any certificate, if the command has one.
    """
    if isinstance(fault, ssl.SSLCertVerificationError):
        advice = f"; {insecure} accepts any" if insecure else ""
        return f"its certificate is not trusted ({fault.verify_message}){advice}"
    if fault.reason == "WRONG_VERSION_NUMBER":  # the answer is plain text
        return "it does not speak TLS there; try http://"
    name = alert(fault)
    if name == "certificate required":
        return f"it demands a client certificate; {_NO_OPTION}"
    if name in _ABOUT_CERTIFICATES:
        return f"it refuses us with the alert {name}; perhaps it demands a client certificate: {_NO_OPTION}"
    if name:
        return f"it refuses us with the alert {name}"
    return (fault.reason or str(fault)).lower().replace("_", " ")


def alert(fault: ssl.SSLError) -> str:
    """Return the name of the alert with which the peer has ended TLS; empty if it is another failure."""
    match = _ALERT.fullmatch(fault.reason or "")
    return match[1].lower().replace("_", " ") if match else ""


def tls_fault(fault: BaseException | None) -> ssl.SSLError | None:
    """Return the failure of TLS that has caused ``fault``, if it is one."""
    while fault is not None and not isinstance(fault, ssl.SSLError):
        fault = fault.__cause__ or fault.__context__
    return fault


async def refusal(host: str, port: int) -> str:
    """Connect again, and return why the server refuses every client of TLS; empty if it does not.

    Where a request crosses the alert of the server, the system reports a reset, and the alert is lost. So
    nothing is sent here after the handshake.
    """
    import asyncio  # the relay has no use for it
    from contextlib import suppress

    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    writer: asyncio.StreamWriter | None = None
    try:
        async with asyncio.timeout(REFUSAL_S):
            reader, writer = await asyncio.open_connection(host, port, ssl=context)
            await reader.read(1)
    except ssl.SSLError as fault:
        return tls_reason(fault) if alert(fault) else ""
    except (OSError, TimeoutError):
        pass
    finally:
        if writer is not None:
            writer.transport.abort()
            with suppress(OSError):
                await writer.wait_closed()
    return ""
