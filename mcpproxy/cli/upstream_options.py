"""The options for reaching a server over HTTP, shared by all commands that connect to one."""

from __future__ import annotations

import os

from mcpproxy.base.upstream.settings import UpstreamSettings
from mcpproxy.cli.option_table import refuse

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from typing import Final

    from mcpproxy.cli.option_table import Given, Option

ROWS: Final[tuple[Option, ...]] = (
    ("--client-cert", "FILE", "our certificate, for a server that asks for one (PEM)"),
    ("--client-key", "FILE", "its private key, if it is not in the same file"),
    ("--ca", "FILE", "trust the certificates in FILE (PEM) instead of the system's"),
    ("--insecure", "", "do not check the server's certificate"),
    (
        "--proxy",
        "URL",
        "reach the server through this HTTP proxy, with none through no proxy (default: what HTTPS_PROXY, "
        "HTTP_PROXY, ALL_PROXY and NO_PROXY say)",
    ),
)


def add_options(parser: argparse.ArgumentParser, *, has_header: bool = True) -> None:
    """Add the options as a group, with ``--header`` if the command has it."""
    from mcpproxy.cli.arguments import header

    add = parser.add_argument_group("a server over HTTP").add_argument
    if has_header:
        text = "send this with every request; may be given again"
        add("--header", metavar="'NAME: VALUE'", action="append", type=header, default=[], help=text)
    for name, metavar, text in ROWS:
        if metavar:
            add(name, metavar=metavar, default="", help=text)
        else:
            add(name, action="store_true", help=text)


def from_namespace(options: argparse.Namespace, url: str = "https:") -> UpstreamSettings:
    """Return the settings for a command that connects to ``url``, which is empty for a server on stdio.

    The default of ``url`` stands for a URL that is not known yet.

    Raises:
        UsageError: a file cannot be used, or the options do not fit the URL.
    """
    files: tuple[str, str, str] = options.client_cert, options.client_key, options.ca
    settings = UpstreamSettings(*files, is_insecure=options.insecure, proxy=options.proxy)
    return _checked(settings, url)


def from_given(given: Given, url: str) -> UpstreamSettings:
    """Return the settings that a command line gives, as ``from_namespace`` does.

    Raises:
        UsageError: a file cannot be used, or the options do not fit the URL.
    """
    cert, key, ca = given.text("--client-cert"), given.text("--client-key"), given.text("--ca")
    if "--forward" in given:
        url = "http:"  # each request names a server
    is_insecure, proxy = "--insecure" in given, given.text("--proxy")
    return _checked(UpstreamSettings(cert, key, ca, is_insecure=is_insecure, proxy=proxy), url)


def arguments(settings: UpstreamSettings) -> list[str]:
    """Return the settings as arguments for another command of mcpproxy."""
    values = (
        ("--client-cert", settings.cert),
        ("--client-key", settings.key),
        ("--ca", settings.ca),
        ("--proxy", settings.proxy),
    )
    return [f"{name}={value}" for name, value in values if value] + ["--insecure"] * settings.is_insecure


def _checked(settings: UpstreamSettings, url: str) -> UpstreamSettings:
    """Check the settings and return them. Files are read now, because later nobody would see an error.

    Raises:
        UsageError: a file cannot be used, or the settings do not fit the URL.
    """
    if settings.key and not settings.cert:
        refuse("--client-key", "needs --client-cert", "give the certificate as well")
    _check_proxy(settings, url)
    option = "--client-cert" if settings.cert else "--ca" if settings.ca else ""
    if not option:
        return settings
    if url[:6].lower() != "https:":
        fact = "goes together with an https:// URL"
        refuse(option, fact, "check the URL" if url else "leave it out")
    from mcpproxy.base.upstream.tls_files import check_files

    check_files(settings)
    return settings


def _check_proxy(settings: UpstreamSettings, url: str) -> None:
    """Check the proxy for ``url`` that the settings or the environment name, if there is one.

    Raises:
        UsageError: it cannot be used, or ``--proxy`` is given without a URL.
    """
    if settings.proxy and not url:
        refuse("--proxy", "goes together with a URL", "leave it out")
    if not settings.proxy and not any(name.lower().endswith("_proxy") for name in os.environ):
        return
    from urllib.parse import urlsplit

    from mcpproxy.base.upstream.http_proxy import proxy_for

    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port or 0
    except ValueError:  # the command itself reports such a URL
        return
    if host or settings.proxy:
        proxy_for(settings, host, port, is_tls=parts.scheme == "https")
