"""Check the TLS files that a user names.

Commands do this before they start anything, while the user can still see an error.
"""

import ssl
from typing import Final

from mcpproxy.base.files import read
from mcpproxy.base.patterns import pattern
from mcpproxy.base.upstream.connecting import tls_context
from mcpproxy.base.upstream.settings import UpstreamSettings
from mcpproxy.errors import UsageError

_LONGEST_FILE: Final = 4 << 20
"""The size limit of each file, in bytes."""
_CERTIFICATE: Final = pattern(rb"-----BEGIN (?:X509 |TRUSTED )?CERTIFICATE-----")
_KEY: Final = pattern(rb"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY-----")
_ENCRYPTED: Final = pattern(rb"(?m)-----BEGIN ENCRYPTED PRIVATE KEY-----|^Proc-Type: 4,ENCRYPTED")


def check_files(settings: UpstreamSettings) -> None:
    """Check that the files of ``settings`` can be used, and that key and certificate belong together.

    Raises:
        UsageError: a file cannot be used, or the key belongs to another certificate.
    """
    if settings.ca:
        _check_certificate("--ca", settings.ca)
        _check_context("--ca", UpstreamSettings(ca=settings.ca), settings.ca)
    if settings.cert:
        _check_certificate("--client-cert", settings.cert)
        key = settings.key or settings.cert
        _check_key(_read("--client-key", key), key, is_given=bool(settings.key))
        _check_context("--client-cert", UpstreamSettings(settings.cert, settings.key), key)


def _read(option: str, path: str) -> bytes:
    try:
        return read(path, _LONGEST_FILE, follows=True)
    except OSError as fault:
        raise UsageError(path, f"cannot be read ({fault.strerror})", f"see {option}") from None


def _check_certificate(option: str, path: str) -> None:
    if not _CERTIFICATE.search(_read(option, path)):
        fact = "holds no certificate in PEM (-----BEGIN CERTIFICATE-----)"
        raise UsageError(path, fact, "openssl x509 or openssl pkcs12 converts other forms")


def _check_key(pem: bytes, path: str, *, is_given: bool) -> None:
    if not _KEY.search(pem):
        fact = "holds no private key in PEM (-----BEGIN PRIVATE KEY-----)"
        raise UsageError(
            path, fact, "openssl pkey converts other forms" if is_given else "give it with --client-key"
        )
    if _ENCRYPTED.search(pem):
        fact = "the private key is encrypted, and nobody can be asked for its password"
        raise UsageError(path, fact, f"openssl pkey -in {path} -out FILE writes it in plain")


def _check_context(option: str, settings: UpstreamSettings, path: str) -> None:
    """Check that OpenSSL accepts the files.

    Raises:
        UsageError: it does not. The error names ``path``.
    """
    try:
        tls_context(settings)
    except ssl.SSLError as fault:
        reason = (fault.reason or str(fault)).lower().replace("_", " ")
        if "mismatch" in reason:
            fact = f"the private key does not belong to the certificate in {settings.cert}"
            raise UsageError(path, fact, "give the key that the certificate was made for") from None
        raise UsageError(path, f"cannot be used ({reason})", f"see {option}") from None
    except OSError as fault:
        raise UsageError(path, f"cannot be read ({fault.strerror})", f"see {option}") from None
