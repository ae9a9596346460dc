"""Decide which sources of recorded findings may be shown as links.

A finding in a recording names its source, and the recording can come from anywhere. A source is shown as a
link only if it leads to a site that the built-in rules cite; any other source is shown as text.
"""

from functools import cache
from urllib.parse import urlsplit

from mcpproxy.base.visible import visible
from mcpproxy.judge.ruleset import catalogue

_SHARED_HOST = "github.com"
"""A host where anybody can have pages, so the repository must be the same, too."""


def link_to(source: str) -> str:
    """Return ``source`` if it may be shown as a link; otherwise an empty text."""
    return source if _site(source) in _sites() else ""


@cache
def _sites() -> frozenset[str]:
    rules = catalogue.load().rules.values()
    requirements = (requirement for rule in rules for requirement in rule.requirements)
    sources = (source for requirement in requirements for source in requirement.sources.values())
    return frozenset(map(_site, sources)) - {""}


def _site(url: str) -> str:
    """Return the host of a URL, and on ``_SHARED_HOST`` also the repository.

    It is empty if the URL is not one of HTTPS, or has ``..`` in its path or a character that may deceive.
    """
    if not url.isascii() or any(char in url for char in "\\ \"'<>`") or visible(url) != url:
        return ""
    try:
        parts = urlsplit(url)
    except ValueError:
        return ""
    names = parts.path.lower().replace("%2e", ".").replace("%2f", "/").split("/")
    if parts.scheme != "https" or not url.startswith("https://") or ".." in names:
        return ""
    return "/".join((parts.netloc, *names[1:3])) if parts.netloc == _SHARED_HOST else parts.netloc
