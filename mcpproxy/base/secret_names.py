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
"""Words that, before the word ``key``, make the name of a secret."""

SECRET_WORDS = frozenset(
    (
        "token", "secret", "secrets", "password", "passwords", "passwd", "pwd", "pw", "passphrase",
        "passcode", "apikey", "apikeys", "authorization", "jwt", "cookie", "cookies", "credential",
        "credentials", "signature", "sig", "api keys", "private keys", "secret keys", "access keys",
        "access tokens", "refresh tokens", "auth tokens", "api tokens", "session tokens",
        "session id", "sess id", "sessid", "password hash", "dpop jkt",
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
"""Endings of names that are not secrets, although they end with one of ``SECRET_WORDS``: names of cursors, of
handles for progress and cancellation, and of a header field of CORS."""

UNSEPARATED = (
    "apikey", "accesskey", "secretkey", "privatekey", "subscriptionkey", "accesstoken", "authtoken",
    "refreshtoken", "sessiontoken", "bearertoken", "idtoken", "securitytoken", "clientsecret", "sessionid",
    "sessid", "password", "passwd", "passphrase", "dpop",
)  # fmt: skip
"""Endings of names whose words are not separated: ``AUTHTOKEN``, ``phpsessid``, ``dbpassword``."""

_SUFFIXES = frozenset(("value", "text", "string", "raw", "base", "hex", "header", "sha", "md", "ed", "v"))
"""Words that may follow the name of a secret without changing its meaning: ``tokenValue``, ``tokenSha256``.
Digits at the end are ignored, too."""

SECRET_OPTIONS = frozenset(("key", "pass", "auth", "bearer", "pat", "creds"))
"""Names of options with secret values. JSON members and headers with these names need not be secret."""

_PIN_WORDS = frozenset(("pin", "otp", "totp", "cvv", "cvc"))
"""Last words of names of secrets, if the value is a number of 4 to 10 digits. A GPIO pin has only two."""

_CREDENTIAL_NAMES = frozenset(("auth", "code_verifier", "client_assertion", "device_code"))
"""Names of members that are credentials, although their last words alone do not name a secret."""

_SESSION_ID_WORDS = frozenset(("id", "sessionid", "sessid", "phpsessid"))
"""Last words of names of session ids, which are not credentials: in the arguments of a tool an id only links
the tool's calls."""

_GENERATED_CHARACTERS = 16
"""A text under ``tokens`` with at least this length, a digit and no space is a credential, not a word."""

_LIKE_ASCII = {0x17F: "s", 0x212A: "k", 0x131: "i", 0x130: "I"}
"""The letters outside ASCII that a pattern with ``re.IGNORECASE`` matches as ASCII letters."""

MAX_NAME_CHARACTERS = 100
"""A longer name is treated as text, not as a name."""


def names_secret(name: str) -> bool:
    """Whether a member, field or option of this name has a secret as its value.

    A text is no name if it is longer than ``MAX_NAME_CHARACTERS``, or has a quote, tab, line end or
    ``<>(){}``.
    """
    if len(name) > MAX_NAME_CHARACTERS or any(char in name for char in "<>\"'\n\r\t(){}"):
        return False
    words = words_of(name)
    while words and (words[-1].isdigit() or words[-1] in _SUFFIXES):
        words.pop()
    ends = [" ".join(words[-length:]) for length in (1, 2) if length <= len(words)]
    if not HARMLESS_WORDS.isdisjoint(ends):
        return False
    return not SECRET_WORDS.isdisjoint(ends) or "".join(words).endswith(UNSEPARATED)


def names_option(name: str) -> bool:
    """Whether an option or a variable with this name has a secret value."""
    return name.lower() in SECRET_OPTIONS or (names_secret(name) and not name.lower().startswith("no-"))


def credential_kind(name: str) -> str:
    """Return which values of a member, a parameter or a header of this name are credentials.

    The result is ``all``, ``digits`` or ``generated`` (see ``is_credential``), or empty if none are.
    """
    if len(name) > MAX_NAME_CHARACTERS:
        return ""
    name = name.translate(_LIKE_ASCII)
    words = words_of(name)
    if not words:
        return ""
    if name.lower() in _CREDENTIAL_NAMES or (words[-1] not in _SESSION_ID_WORDS and names_secret(name)):
        return "all"
    return "digits" if words[-1] in _PIN_WORDS else "generated" if words[-1] == "tokens" else ""


def is_credential(kind: str, value: str) -> bool:
    """Whether a value is a credential; ``kind`` is the ``credential_kind`` of its name.

    ``value`` is the text, or the number as text; empty for an object, an array, or an unknown value. Of the
    kind ``all``, which most names have, every value is a credential. Of the kind ``digits`` (a PIN) only 4 to
    10 digits are, and of the kind ``generated`` (``tokens``, which may also be a list of words) only a value
    that looks generated (``_GENERATED_CHARACTERS``).
    """
    if kind == "digits":
        return value.isdecimal() and 4 <= len(value) <= 10
    if kind == "generated":
        is_word = len(value) < _GENERATED_CHARACTERS or any(char.isspace() for char in value)
        return not is_word and any(char.isdigit() for char in value)
    return kind == "all"


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
