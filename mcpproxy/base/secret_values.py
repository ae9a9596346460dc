"""Find secrets in a text: by the format of the secret, or by the name before it.

Code that masks the secrets in a text, for a copy, an export or a message, does so with ``mask_secrets``;
``mcpproxy.record.trace.json_masking`` applies it to the strings of JSON. ``secret_names`` decides
whether a name is the name of a secret, except in the patterns with names of their own, such as ``PIN: 1234``.
"""

import re
from binascii import a2b_base64
from collections.abc import Callable, Iterable
from typing import Final

from mcpproxy.base.patterns import pattern
from mcpproxy.base.secret_names import credential_kind, is_credential, names_option


class SecretPattern:
    """The regular expression ``text``, compiled for the first text to search that has one of its ``marks``.

    Every match contains one of the marks, in upper or lower case. Most texts contain none, and compiling all
    patterns would delay the start of a wrapped server by 4 ms. A pattern that ignores case also matches
    U+0131 (i without a dot), which ``casefold`` keeps. So its marks have no letter ``i``, or a second mark
    has U+0131 in its place.

    The secret is the group ``secret``, else the first group that has matched, else the whole match. A match
    counts only if ``is_secret`` returns true for it. After a match that does not count, the search continues
    behind its group ``name``, or behind the match if there is no such group. A text may then be searched many
    times, so a pattern with ``is_secret`` and this group has no unlimited repetition.
    """

    __slots__ = ("_is_secret", "_marks", "pattern", "text")

    def __init__(
        self, text: str, *marks: str, is_secret: Callable[[re.Match[str]], bool] | None = None
    ) -> None:
        self.text = text
        self.pattern = pattern(text)
        self._marks = marks
        self._is_secret = is_secret

    def sub(self, replace: Callable[[re.Match[str]], str], text: str) -> str:
        """Return ``text`` with each secret's match replaced by what ``replace`` returns for it."""
        if not self.may_match(text.casefold()):
            return text
        if self._is_secret is None:
            return self.pattern.sub(replace, text)
        parts: list[str] = []
        copied = position = 0
        while match := self.pattern.search(text, position):
            if self._is_secret(match):
                parts += (text[copied : match.start()], replace(match))
                copied = position = match.end()
            else:  # the next secret may begin within the value of this match
                position = match.end("name") if "name" in match.re.groupindex else match.end()
        return "".join((*parts, text[copied:])) if parts else text

    def counts(self, match: re.Match[str]) -> bool:
        """Whether a match of the pattern is a secret."""
        return self._is_secret is None or self._is_secret(match)

    def may_match(self, folded: str) -> bool:
        """Whether a text or a part of it may match; ``folded`` is its ``casefold``."""
        return any(mark in folded for mark in self._marks)


HIDDEN: Final = "***"
"""The text that a terminal shows in place of a secret."""


def mask_secrets(
    text: str, mask: Callable[[str], str], patterns: "Iterable[SecretPattern | re.Pattern[str]] | None" = None
) -> str:
    """Return ``text`` with each secret replaced by the result of ``mask`` for it.

    ``patterns`` are ``PATTERNS`` unless others are given. In a plain regular expression the secret is the
    group that ``SecretPattern`` describes.
    """

    def replace(match: re.Match[str]) -> str:
        start, end = (index - match.start() for index in _span(match))
        return match[0][:start] + mask(match[0][start:end]) + match[0][end:]

    for secret_pattern in PATTERNS if patterns is None else patterns:
        text = secret_pattern.sub(replace, text)
    return text


def _span(match: re.Match[str]) -> tuple[int, int]:
    """Return the start and end of the secret in a match."""
    if "secret" in match.re.groupindex:
        return match.span("secret")
    return match.span(next((n for n in range(1, match.re.groups + 1) if match[n] is not None), 0))


def _is_named(match: re.Match[str]) -> bool:
    return is_credential(credential_kind(match["name"]), match["secret"])


def _is_option(match: re.Match[str]) -> bool:
    return names_option(match["name"])


def _is_basic(match: re.Match[str]) -> bool:
    """Whether the credentials decode to ``user:password`` (RFC 7617), or have a digit or ``=``."""
    value = match["secret"]
    if any(char in "0123456789=" for char in value):
        return True
    try:
        return b":" in a2b_base64(value + "=" * (-len(value) % 4), strict_mode=True)
    except ValueError:
        return False


_QUOTE: Final = r"\\{0,4}[\"'`]?"
"""An optional quote, with backslashes before it if JSON or a command is quoted within a text."""
_EQUALS: Final = rf"{_QUOTE}\s{{0,3}}[:=]\s{{0,3}}{_QUOTE}"
"""What is between a name and its value: a colon or an equals sign, with the quotes of both."""
_NO_WORD: Final = r"(?=\\{0,4}[\"'`]|[^\s\"',;]{0,255}[0-9])"
"""A lookahead: the value begins with a quote or has a digit, so it is not a word of a sentence."""
_VALUE: Final = r"(?P<secret>(?![<=]|\$[{(]|\{\{)[^\s\"'`,;&\\<>]{6,4096})"
"""A value of 6 to 4096 characters, but not a placeholder of a document (``<password>``, ``${PASSWORD}``)."""
_NAME_MARKS: Final = (
    "key", "secret", "pass", "token", "pwd", "pw", "auth", "jwt", "cook", "credent", "sg", "sess", "s\u0131g",
    "sig", "assert", "dpop", "code",
)  # fmt: skip
"""Every name with a secret value, except names of a PIN or the like, contains one of these."""


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
    SecretPattern(r"\beyJ[A-Za-z0-9_-]{8,8192}\.[A-Za-z0-9_-]{8,65536}\.[A-Za-z0-9_-]{0,2048}", "eyj"),  # JWT
    SecretPattern(
        r"(?s)-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----(?:.{0,20000}?-----END [A-Z ]{0,40}PRIVATE KEY-----|.*)",
        "-----begin ",
    ),
    SecretPattern(
        r"(?i)\b(?:bearer|dpop) +(?![A-Z_]+=[^=])(?=[A-Z._~+/-]{0,255}[0-9=])([A-Z0-9._~+/=-]{8,})",
        "bearer", "dpop",
    ),
    SecretPattern(
        r"(?i)\bbasic +(?![A-Z_]+=[^=])(?P<secret>[A-Z0-9._~+/=-]{8,})", "bas", is_secret=_is_basic
    ),
    SecretPattern(r"(?<=://)[^/\s:@\"'?#]{0,255}:([^/\s@\"'?#]{1,255})(?=@)", "://"),  # a password in a URL
    SecretPattern(r"\bsk-[A-Za-z0-9_-]{20,255}", "sk-"),
    SecretPattern(r"\b[sr]k_(?:live|test)_[A-Za-z0-9]{16,255}", "k_live_", "k_test_"),
    SecretPattern(r"\bAIza[A-Za-z0-9_-]{35}\b", "aiza"),
    SecretPattern(r"\bnpm_[A-Za-z0-9]{36}\b", "npm_"),
    SecretPattern(r"\bpypi-[A-Za-z0-9_-]{50,}", "pypi-"),
    SecretPattern(r"\bSG\.[A-Za-z0-9_-]{16,64}\.[A-Za-z0-9_-]{32,64}", "sg."),
    SecretPattern(r"\bglsa_[A-Za-z0-9]{32}_[A-Fa-f0-9]{8}\b", "glsa_"),
    SecretPattern(r"\bhf_[A-Za-z0-9]{30,64}\b", "hf_"),
    SecretPattern(r"\b(?:do[opr]_v1_[a-f0-9]{64}|shp(?:at|ca|pa|ss)_[A-Fa-f0-9]{32}|whsec_[A-Za-z0-9+/=]{24,128})\b",
        "_v1_", "shp", "whsec_"),
    SecretPattern(r"\b(?:ya29\.[A-Za-z0-9_-]{20,255}|GOCSPX-[A-Za-z0-9_-]{20,64})", "ya29.", "gocspx-"),
    SecretPattern(  # ``Authorization: token X``, whatever the scheme
        rf"(?i)authorization{_QUOTE} ?[:=] ?{_QUOTE}(?:[a-z][a-z0-9-]{{1,20}} +)?(?![<$]|[A-Z_]+=[^=])"
        r"(?P<secret>(?=[^\s\"',;]{0,255}[0-9=+/]|[^\s\"',;]{20})[^\s\"',;\\]{6,})",
        "author",
    ),
    SecretPattern(  # ``curl -u user:password``; two numbers are ids of a user and a group
        r"\bcurl\b[^\n]{0,500}?\s(?:-[A-Za-z]{0,8}u|--user|--proxy-user)(?: +|=)?[\"']?(?!\d+:\d+\b)"
        r"[^\s:\"']{1,200}:(?P<secret>[^\s\"']{1,255})",
        "curl",
    ),
    SecretPattern(  # ``<password>X</password>``
        r"<(?P<name>[A-Za-z_][\w.:-]{0,99})(?:\s[^<>]{0,200})?>(?P<secret>[^<>]{1,4096})</",
        "</",
        is_secret=_is_named,
    ),
    SecretPattern(  # a name and its value side by side: an environment of Kubernetes, a list of headers
        rf"(?i)(?<![A-Za-z])(?:name|key){_EQUALS}(?P<name>[^\W\d][\w.-]{{0,99}}+){_QUOTE}(?:[\s,]|\\{{1,4}}n){{1,200}}"
        rf"{_QUOTE}value{_EQUALS}(?P<secret>(?!\$[{{(])[^\s\"'`,;&\\<>{{}}\[\]]{{1,4096}})",
        "value",
        is_secret=_is_named,
    ),
    SecretPattern(  # ``--password X``; a name in capitals stands for a value
        r"(?<![\w-])--?(?P<name>[A-Za-z][\w-]{0,99}+)(?: {1,9}|=)[\"']?"
        r"(?P<secret>(?![-<$|&;[{(]|[A-Z_]{1,99}\b(?![a-z0-9]))[^\s\"';|&\\]{1,4096})",
        *_NAME_MARKS, "bearer", "pat", "cred",
        is_secret=_is_option,
    ),
    SecretPattern(  # ``api_key=...``, and ``password: ...`` if the value does not look like a word
        rf"(?<![\w.-])-{{0,2}}(?P<name>[^\W\d][\w.-]{{0,99}}+)"
        rf"(?:=|\s{{1,4}}=\s{{0,4}}{_NO_WORD}|{_QUOTE} ?: {{0,3}}{_NO_WORD}){_QUOTE}{_VALUE}",
        *_NAME_MARKS,
        is_secret=_is_named,
    ),
    SecretPattern(  # ``the password is X``, if X is no word
        r"(?i)\bpass(?:word|wd|phrase|code)(?: is|:|=)? +[\"'`]?"
        r"(?P<secret>(?=[^\s\"'`,;]{0,255}[0-9])[^\s\"'`,;<>(){}\[\]]{6,4096})",
        "pass",
    ),
    SecretPattern(  # ``PIN: 1234``, ``OTP is 123456``
        r"(?i)(?<![A-Za-z0-9])(?:pin|t?otp|cvv|cvc)(?: code)?(?: is|\\{0,4}[\"']? ?[:=]) ?\\{0,4}[\"']?"
        r"(?P<secret>[0-9]{4,10})(?![\w.])",
        "p\u0131n", "pin", "otp", "cvv", "cvc",
    ),
)  # fmt: skip
"""All patterns of secrets in a text."""


def value_after(names: Iterable[str]) -> re.Pattern[str]:
    """Return a pattern that matches one of these names, followed by ``=`` or ``:`` and a value.

    The group that matches is the value.
    """
    listed = "|".join(map(re.escape, names))
    return re.compile(
        rf"(?i)(?<![A-Za-z0-9_-])(?:{listed})[\"']? ?[=:] ?(?:\"([^\"]*)\"|'([^']*)'|([^\s\"',;&]+))"
    )
