"""Recognise header fields, parameters, JSON members and options that hold a secret, by their names.

A name is split into words (``X-RapidAPI-Key``, ``clientSecret``, ``private_key``), and its last words decide:
``access_token`` names a secret, ``token_endpoint`` and ``token_type`` do not. Neither do ``monkey``,
``author``, ``max_tokens`` and ``progressToken``.

This module is imported before the wrapped server starts, so it imports nothing itself.
"""

_KEYS = (
    "api", "access", "secret", "private", "subscription", "function", "functions", "rapidapi", "account",
    "master", "signing", "encryption", "shared", "auth", "session", "service", "admin", "deploy", "app",
    "application", "license", "consumer", "client", "ssh", "webhook",
)  # fmt: skip

SECRET_WORDS = frozenset(
    (
        "token", "secret", "secrets", "password", "passwords", "passwd", "pwd", "passphrase", "passcode",
        "apikey", "apikeys", "authorization", "jwt", "cookie", "cookies", "credential", "credentials",
        "signature", "sig", "api keys", "private keys", "secret keys", "access keys",
        "access tokens", "refresh tokens", "auth tokens", "api tokens", "session tokens",
        "session id", "sess id", "sessid", "password hash",
        *(f"{kind} key" for kind in _KEYS),
    )
)  # fmt: skip
"""Words that the name of a secret ends with."""

HARMLESS_WORDS = frozenset(
    (
        "progress token", "page token", "next token", "continuation token", "sync token", "cancel token",
        "allow credentials",
    )
)  # fmt: skip
"""Endings of names that do not name secrets, although they end with one of ``SECRET_WORDS``: names of
cursors, of handles for progress and cancellation, and of a header field of CORS."""

UNSEPARATED = (
    "apikey", "accesskey", "secretkey", "privatekey", "subscriptionkey", "accesstoken", "authtoken",
    "refreshtoken", "sessiontoken", "bearertoken", "idtoken", "securitytoken", "clientsecret", "sessionid",
    "sessid", "password", "passwd", "passphrase", "dpop",
)  # fmt: skip
"""Endings of names whose words are not separated: ``AUTHTOKEN``, ``phpsessid``, ``dbpassword``."""

_SUFFIXES = frozenset(("value", "text", "string", "raw", "base", "hex", "header", "sha", "md", "ed", "v"))
"""Words that may follow the name of a secret without changing its meaning: ``tokenValue``, ``tokenSha256``
(digits are ignored too)."""

MAX_NAME_CHARACTERS = 100
"""A longer name is treated as text, not as a name."""


def names_secret(name: str) -> bool:
    """Whether a member, field or option of this name has a secret as its value."""
    if len(name) > MAX_NAME_CHARACTERS or any(char in name for char in "<>\"'\n\r\t(){}"):
        return False
    words = words_of(name)
    while words and (words[-1].isdigit() or words[-1] in _SUFFIXES):
        words.pop()
    ends = [" ".join(words[-length:]) for length in (1, 2) if length <= len(words)]
    if not HARMLESS_WORDS.isdisjoint(ends):
        return False
    return not SECRET_WORDS.isdisjoint(ends) or "".join(words).endswith(UNSEPARATED)


def words_of(name: str) -> list[str]:
    """Return the words of a name in lower case: ``XAPIKey2`` is ``xapi key 2``."""
    words: list[str] = []
    word, previous_kind = "", ""
    for index, char in enumerate(name):
        kind = "a" if char.islower() else "A" if char.isupper() else "0" if char.isdigit() else ""
        starts_word = kind != previous_kind and (previous_kind, kind) != ("A", "a")
        # The last capital of several begins the next word: ``APIKey``.
        starts_word = starts_word or (kind == previous_kind == "A" and name[index + 1 : index + 2].islower())
        if starts_word and word:
            words.append(word.lower())
            word = ""
        word, previous_kind = word + char if kind else "", kind
    return [*words, word.lower()] if word else words
