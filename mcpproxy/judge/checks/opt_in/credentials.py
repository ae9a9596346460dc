"""Find values that look like credentials: tokens of a known form, and members named like a credential.

Both are guesses. To avoid false findings, members named like a credential are left out if their value is
masked, empty or a placeholder. The text that describes a credential never contains its value.
"""

import re
from collections.abc import Iterator
from typing import Final

from mcpproxy.base.patterns import pattern
from mcpproxy.protocol.jsonrpc import JSON
from mcpproxy.protocol.wording import token

MAX_VALUES: Final = 500
"""The number of values checked in one message; objects and arrays count, too."""

MAX_TEXT: Final = 10_000
"""The number of characters checked in one text."""

TOKENS: Final = (
    ("a private key", pattern(r"-----BEGIN (?:[A-Z]+ )*PRIVATE KEY-----")),
    ("an AWS access key id", pattern(r"\bA(?:KI|SI)A[0-9A-Z]{16}\b")),
    ("a GitHub token", pattern(r"\b(?:gh[pousr]_[A-Za-z0-9]{36}|github_pat_[A-Za-z0-9_]{36})")),
    ("a GitLab token", pattern(r"\bglpat-[A-Za-z0-9_-]{20}")),
    ("a Slack token", pattern(r"\bxox[abeoprs]-[A-Za-z0-9-]{10}")),
    ("a Google API key", pattern(r"\bAIza[A-Za-z0-9_-]{35}")),
    ("a Stripe key", pattern(r"\b[rs]k_live_[A-Za-z0-9]{16}")),
    ("an API key", pattern(r"\bsk-(?:[a-z]{1,20}[0-9]{0,9}-){0,5}[A-Za-z0-9_]{20}")),
    # The header may contain a certificate, so its length has no limit.
    (
        "a JSON Web Token",
        pattern(r"(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8}"),
    ),
    ("a bearer token", pattern(r"\b[Bb]earer [A-Za-z0-9._~+/-]{20}")),
    ("a password in a URL", pattern(r"\b[a-z][a-z0-9+.-]{1,20}://[^\s/:@*<{$]{1,64}:[^\s/@*<{$]{3,128}@")),
)
"""Each kind of credential that is recognised by its form: the name of the kind and the pattern."""

SENSITIVE: Final[frozenset[tuple[str, ...]]] = frozenset(
    tuple(name.split())
    for name in (
        "password", "passwd", "passphrase", "api key", "apikey", "secret key", "private key", "access key",
        "api token", "access token", "auth token", "oauth token", "refresh token", "bearer token",
        "session token", "bot token", "github token", "gitlab token", "slack token", "client secret",
        "app secret", "shared secret", "jwt secret", "credit card number", "card number", "cvv", "cvc",
    )
)  # fmt: skip
"""Names of values that a peer should not ask for or show, each as a tuple of its words.

Masking has its own, longer list of names (``mcpproxy.base.secret_names``): masking too much does little harm,
but a finding must be true.
"""

_WORDS: Final = pattern(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")

_MIN_LENGTH: Final = 4
"""A text with fewer characters is not taken for a credential."""

_BLANK: Final = pattern(r"[\W_]*|(.)\1*", re.DOTALL)
"""Matches a text without letters and digits, or of one repeated character."""

_PLACEHOLDER: Final = pattern(
    r"\*{3}|x{4}|\.\.\.|…|•|<|\$\{|\{\{|redact|mask|hidden|removed|filtered|omitted|missing|required|invalid"
    r"|\b(none|null|undefined|set|unset|true|false)\b",
    re.IGNORECASE,
)
"""Finds the words and signs of a placeholder, which fills the place of a secret or describes it."""


def words_of(name: str) -> tuple[str, ...]:
    """Return the words of a name or title in lower case: those of ``apiKey`` are ``("api", "key")``."""
    return tuple(word.lower() for word in _WORDS.findall(name))


def names_sensitive(name: str) -> bool:
    """Whether a name ends with one of ``SENSITIVE``; ``passwordPolicy`` does not."""
    words = words_of(name)
    return any(words[-length:] in SENSITIVE for length in (1, 2, 3))


def credentials_in(value: JSON) -> Iterator[tuple[str, str]]:
    """Yield each text in ``value`` that looks like a credential: its JSON Pointer and what it looks like.

    Each value is reported once, however many patterns it matches.
    """
    stack: list[tuple[str, str, JSON]] = [("", "", value)]
    for _ in range(MAX_VALUES):
        if not stack:
            return
        name, pointer, current = stack.pop()
        if isinstance(current, dict):
            stack += [(key, pointer + token(key), child) for key, child in reversed(current.items())]
        elif isinstance(current, list):
            stack += [
                (name, f"{pointer}/{index}", child) for index, child in reversed(list(enumerate(current)))
            ]
        elif isinstance(current, str) and (description := _credential_kind(name, current[:MAX_TEXT])):
            yield pointer, description


def _credential_kind(name: str, text: str) -> str:
    """Return the kind of credential that ``text`` looks like; empty if none."""
    if len(text) < _MIN_LENGTH:
        return ""
    for kind, form in TOKENS:
        if form.search(text):
            return kind
    if names_sensitive(name) and not _BLANK.fullmatch(text) and not _PLACEHOLDER.search(text):
        return f"a secret: its member is named {' '.join(words_of(name))}"
    return ""
