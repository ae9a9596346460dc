"""Patterns that find secrets in a text: by the format of the secret, or by the name before it."""

import re
from collections.abc import Iterable
from typing import Final

from mcpproxy.base.secret_names import names_secret, words_of

FORMATS: Final[tuple[re.Pattern[str], ...]] = tuple(
    re.compile(pattern)
    for pattern in (
        r"\b(?:AKIA|ASIA|AROA|AIDA|ABIA|ACCA)[A-Z0-9]{16}\b",  # AWS
        r"\b(?:gh[pousr]_[A-Za-z0-9]{36,255}|github_pat_[A-Za-z0-9_]{22,255})\b",
        r"\bglpat-[A-Za-z0-9_-]{20,255}",
        r"\b(?:xox[abeoprs]|xapp)-[A-Za-z0-9-]{10,255}",
        r"hooks\.slack\.com/services/([A-Za-z0-9/_-]{20,255})",
        r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*",  # JWT
        r"(?s)-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----(?:.{0,20000}?-----END [A-Z ]{0,40}PRIVATE KEY-----|.*)",
        r"(?i)\b(?:bearer|basic) +(?![A-Z_]+=[^=])(?=[A-Z._~+/-]{0,255}[0-9=])([A-Z0-9._~+/=-]{8,})",
        r"(?<=://)[^/\s:@\"'?#]{0,255}:([^/\s@\"'?#]{1,255})(?=@)",  # a password in a URL
        r"\bsk-[A-Za-z0-9_-]{20,255}",
        r"\b[sr]k_(?:live|test)_[A-Za-z0-9]{16,255}",
        r"\bAIza[A-Za-z0-9_-]{35}\b",
        r"\bnpm_[A-Za-z0-9]{36}\b",
        r"\bpypi-[A-Za-z0-9_-]{50,}",
    )
)
"""Patterns of secrets anywhere in a text. If a pattern has a group, the group is the secret."""

_AFTER_NAME: Final = re.compile(
    r"(?i)(?<![A-Za-z0-9])[A-Za-z0-9_.-]{0,40}?(?:api[-_]?key|access[-_]?key|secret[-_]?key|private[-_]?key|secret"
    r"|passw(?:or)?d|passphrase|(?<![A-Za-z])(?:[A-Za-z]{1,20}[-_])?token|(?<![A-Za-z])pwd)"
    r"(?:=|[\"']? ?: ?(?=[\"']|[^\s\"',;]*[0-9]))[\"']?([^\s\"',;&]{6,})"
)
"""Matches ``api_key=...``, and ``password: ...`` if the value is quoted or has a digit."""


def names_credential(name: str) -> bool:
    """Whether a member, a parameter or a header of this name has a credential as its value."""
    if name.lower() == "auth":
        return True
    # A session id among the arguments of a tool is no credential: it only links the tool's calls.
    return names_secret(name) and words_of(name)[-1] not in ("id", "sessionid", "sessid", "phpsessid")


def value_after(names: Iterable[str]) -> re.Pattern[str]:
    """Return a pattern that finds, in a text, one of these names, ``=`` or ``:``, and the value (a group)."""
    listed = "|".join(map(re.escape, names))
    return re.compile(
        rf"(?i)(?<![A-Za-z0-9_-])(?:{listed})[\"']? ?[=:] ?(?:\"([^\"]*)\"|'([^']*)'|([^\s\"',;&]+))"
    )


PATTERNS: Final = (*FORMATS, _AFTER_NAME)
"""All patterns of secrets in a text."""
