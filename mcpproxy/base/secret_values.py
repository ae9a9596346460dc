"""Patterns that find secrets in a text: by the format of the secret, or by the name before it."""

import re
from collections.abc import Callable, Iterable
from typing import Final

from mcpproxy.base.patterns import pattern
from mcpproxy.base.secret_names import names_secret, words_of


class SecretPattern:
    """A pattern of secrets that is compiled for the first text with one of its ``marks``.

    Every match contains one of the marks, in capitals or not. Most texts contain none, and compiling all
    patterns takes 4 ms of the time in which a wrapped server starts. The marks of a pattern that ignores case
    have no letter ``i``, because the pattern also matches U+0131 (i without a dot), which ``casefold`` keeps.
    """

    __slots__ = ("_marks", "pattern")

    def __init__(self, text: str, *marks: str) -> None:
        self.pattern = pattern(text)
        self._marks = marks

    def sub(self, replace: Callable[[re.Match[str]], str], text: str) -> str:
        """Return ``text`` with each match replaced by what ``replace`` returns for it."""
        return self.pattern.sub(replace, text) if self.may_match(text.casefold()) else text

    def may_match(self, folded: str) -> bool:
        """Whether a text, or a part of it, may match; ``folded`` is its ``casefold``."""
        return any(mark in folded for mark in self._marks)


PATTERNS: Final = (
    SecretPattern(
        r"\b(?:AKIA|ASIA|AROA|AIDA|ABIA|ACCA)[A-Z0-9]{16}\b", "akia", "asia", "aroa", "aida", "abia", "acca"
    ),  # AWS
    SecretPattern(
        r"\b(?:gh[pousr]_[A-Za-z0-9]{36,255}|github_pat_[A-Za-z0-9_]{22,255})\b",
        "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_",
    ),
    SecretPattern(r"\bglpat-[A-Za-z0-9_-]{20,255}", "glpat-"),
    SecretPattern(r"\b(?:xox[abeoprs]|xapp)-[A-Za-z0-9-]{10,255}", "xox", "xapp-"),
    SecretPattern(r"hooks\.slack\.com/services/([A-Za-z0-9/_-]{20,255})", "hooks.slack.com/"),
    SecretPattern(r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*", "eyj"),  # JWT
    SecretPattern(
        r"(?s)-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----(?:.{0,20000}?-----END [A-Z ]{0,40}PRIVATE KEY-----|.*)",
        "-----begin ",
    ),
    SecretPattern(
        r"(?i)\b(?:bearer|basic) +(?![A-Z_]+=[^=])(?=[A-Z._~+/-]{0,255}[0-9=])([A-Z0-9._~+/=-]{8,})",
        "bearer", "bas",
    ),
    SecretPattern(r"(?<=://)[^/\s:@\"'?#]{0,255}:([^/\s@\"'?#]{1,255})(?=@)", "://"),  # a password in a URL
    SecretPattern(r"\bsk-[A-Za-z0-9_-]{20,255}", "sk-"),
    SecretPattern(r"\b[sr]k_(?:live|test)_[A-Za-z0-9]{16,255}", "k_live_", "k_test_"),
    SecretPattern(r"\bAIza[A-Za-z0-9_-]{35}\b", "aiza"),
    SecretPattern(r"\bnpm_[A-Za-z0-9]{36}\b", "npm_"),
    SecretPattern(r"\bpypi-[A-Za-z0-9_-]{50,}", "pypi-"),
    # ``api_key=...``, and ``password: ...`` if the value does not look like a word.
    SecretPattern(
        r"(?i)(?<![A-Za-z0-9])[A-Za-z0-9_.-]{0,40}?(?:api[-_]?key|access[-_]?key|secret[-_]?key|private[-_]?key|secret"
        r"|passw(?:or)?d|passphrase|(?<![A-Za-z])(?:[A-Za-z]{1,20}[-_])?token|(?<![A-Za-z])pwd)"
        r"(?:=|[\"']? ?: ?(?=[\"']|[^\s\"',;]*[0-9]))[\"']?([^\s\"',;&]{6,})",
        "key", "secret", "pass", "token", "pwd",
    ),
)  # fmt: skip
"""All patterns of secrets in a text. If a pattern has a group, the group is the secret."""


def names_credential(name: str) -> bool:
    """Whether a member, a parameter or a header of this name has a credential as its value."""
    if name.lower() == "auth":
        return True
    # A session id among the arguments of a tool is no credential: it only links the tool's calls.
    return names_secret(name) and words_of(name)[-1] not in ("id", "sessionid", "sessid", "phpsessid")


def value_after(names: Iterable[str]) -> re.Pattern[str]:
    """Return a pattern that finds one of these names, followed by ``=`` or ``:`` and a value.

    The value is one of the groups of the pattern.
    """
    listed = "|".join(map(re.escape, names))
    return re.compile(
        rf"(?i)(?<![A-Za-z0-9_-])(?:{listed})[\"']? ?[=:] ?(?:\"([^\"]*)\"|'([^']*)'|([^\s\"',;&]+))"
    )
