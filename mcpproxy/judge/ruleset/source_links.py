"""Which sources of recorded findings may become links.

A finding in a recording names its source, and the recording can come from anywhere. Only what leads to a site
that the built-in rules cite is shown as a link; anything else is shown as text.
"""

from functools import cache
from urllib.parse import urlsplit

from mcpproxy.base.visible import visible
from mcpproxy.judge.ruleset import catalogue

_SHARED = "github.com"
"""A host on which everybody has pages. There the repository counts, too."""


def link_to(source: str) -> str:
    """Return ``source`` if it may be a link; otherwise an empty text."""
    return source if _site(source) in _sites() else ""


@cache
def _sites() -> frozenset[str]:
    rules = catalogue.load().rules.values()
    cited = (source for rule in rules for each in rule.requirements for source in each.sources.values())
    return frozenset(map(_site, cited)) - {""}


def _site(url: str) -> str:
    """Return the host of an address, and on a shared host the repository; empty if it is an odd address."""
    if not url.isascii() or any(char in url for char in "\\ \"'<>`") or visible(url) != url:
        return ""
    try:
        parts = urlsplit(url)
    except ValueError:
        return ""
    names = parts.path.lower().replace("%2e", ".").replace("%2f", "/").split("/")
    if parts.scheme != "https" or not url.startswith("https://") or ".." in names:
        return ""
    return "/".join((parts.netloc, *names[1:3])) if parts.netloc == _SHARED else parts.netloc
