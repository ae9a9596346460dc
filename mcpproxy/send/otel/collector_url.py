"""Checks, before the work begins, what ``--otlp`` and ``export otlp`` need. Imports nothing large."""

import os
from typing import Final
from urllib.parse import urlsplit

from mcpproxy.base import extras
from mcpproxy.errors import UsageError

_PROTOCOLS: Final = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")


def check_installed(where: str) -> None:
    """Check that the packages of the extra are installed; the error names the command ``where``.

    Raises:
        UsageError: they are not.
    """
    extras.check(where, "otel", "opentelemetry.exporter.otlp.proto.http")


def check(where: str, url: str) -> None:
    """Check the address of a collector; if ``url`` is empty, the ``OTEL_*`` variables name it.

    Raises:
        UsageError: ``url`` is not the URL of a collector, or it is empty and the variables ask for a protocol
            other than ``http/protobuf``.
    """
    example = "for example http://127.0.0.1:4318"
    if url:
        try:
            parts = urlsplit(url)
            is_usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:
            is_usable = False
        if not is_usable:
            raise UsageError(where, f"{url} is not the URL of a collector", example)
        return
    protocol = next((value for name in _PROTOCOLS if (value := os.environ.get(name))), "http/protobuf")
    if protocol != "http/protobuf":
        fact = f"{protocol}, which OTEL_EXPORTER_OTLP_PROTOCOL asks for, is not supported"
        raise UsageError(where, fact, f"name the address of the collector for HTTP, {example}")
