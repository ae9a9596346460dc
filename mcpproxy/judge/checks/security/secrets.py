"""Secret keys of providers, such as GitHub or OpenAI, in messages, in URLs and on stderr.

A text is taken for a key if nothing else has its form: the prefix or another mark of one provider, with a
length in known bounds and, for some kinds, a checksum. There are no guesses from names, or from how random a
text looks. The ids of keys, which are not secret, and the example keys of documents are left out. No finding
contains any part of a key.
"""

import re
from collections.abc import Callable, Iterator
from typing import Final
from zlib import crc32

from mcpproxy.base.patterns import pattern
from mcpproxy.base.slotted import field, slotted
from mcpproxy.judge.checks.engine.context import MessageContext, Violation
from mcpproxy.judge.checks.engine.http_facts import WITH_QUERY
from mcpproxy.judge.checks.engine.rows import (
    ANSWERS,
    MCP,
    MESSAGES,
    Check,
    HttpCheck,
    RuleFamily,
    StateUpdate,
    StderrCheck,
)
from mcpproxy.judge.checks.server.definitions import visible
from mcpproxy.judge.session.exchanges import HttpExchange, HttpHistory
from mcpproxy.judge.session.frame import SERVER, Frame, Sender, Stderr
from mcpproxy.judge.session.history import History
from mcpproxy.protocol.jsonrpc import JSON, Malformed, Notification, Request
from mcpproxy.protocol.message_parts import target_of
from mcpproxy.protocol.wording import shown, token

_BASE_62: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

_EXAMPLE: Final = pattern(r"(?i)example|x{4}|0{6}|1234567|abcdefg|(.)\1{5}")
"""Finds what shows that a key is only an example."""

_DOCUMENTED: Final = pattern(
    "zQWBuTSO|adE7dp8r"  # GitHub: revoked tokens whose checksums are right
    "|yscW25im|HOruNAb7"  # Grafana
    "|pdFZKVeT"  # Slack
    "|4eC39HqL|26PHem9A"  # Stripe; these are keys of its test mode
    "|ngeVfQFY"  # SendGrid
    "|7VJTUt9Us8cKj|sPnoGUOnrpiSqt4X"  # the private keys of jwt.io, and of RFC 9500 (2048 bits)
)
"""Finds parts of keys that the providers' documents show, and that look like real keys."""

_MIN_DISTINCT: Final = 8
"""A key with fewer different characters is a placeholder."""

MAX_REPORTED: Final = 1_000
"""Once ``ReportedSecrets`` has so many entries, messages add none: a key is then reported every time."""


def _is_random(match: re.Match[str]) -> bool:
    return len(set(match[1])) >= _MIN_DISTINCT and not _EXAMPLE.search(match[1])


def _has_base_62_checksum(match: re.Match[str]) -> bool:
    """Whether the last six characters are the CRC-32 of those between the prefix and them."""
    number, digits = crc32(match[1][:-6].encode()), ""
    for _ in range(6):
        number, digit = divmod(number, 62)
        digits = _BASE_62[digit] + digits
    return digits == match[1][-6:]


def _has_hexadecimal_checksum(match: re.Match[str]) -> bool:
    """Whether the digits after the last ``_`` are the CRC-32, lowest byte first, of all text before them."""
    text, _, digits = match[0].rpartition("_")
    return crc32(text.encode()).to_bytes(4, "little").hex() == digits.lower()


@slotted(frozen=True)
class Form:
    """The form of one kind of key.

    ``marks`` finds a text that every key of this kind contains. It has a fixed length, and ends with ``_``,
    ``-``, ``.`` or ``J``: see ``_MARKS``. The group of ``regex`` is the random part of the key.
    ``is_genuine`` tells a key from another text of the same form.
    """

    kind: str
    marks: str
    regex: re.Pattern[str]
    is_genuine: Callable[[re.Match[str]], bool] = _is_random


FORMS: Final = (
    Form("a GitHub token", "gh[pousr]_", pattern(r"\bgh[pousr]_([0-9A-Za-z]{36})\b"), _has_base_62_checksum),
    Form("a GitHub token", "github_pat_", pattern(r"\bgithub_pat_([0-9A-Za-z]{22}_[0-9A-Za-z]{59})\b")),
    Form("an npm token", "npm_", pattern(r"\bnpm_([0-9A-Za-z]{36})\b"), _has_base_62_checksum),
    Form(
        "a Grafana token",
        "glsa_",
        pattern(r"\bglsa_([0-9A-Za-z]{32})_[0-9A-Fa-f]{8}\b"),
        _has_hexadecimal_checksum,
    ),
    Form("a GitLab token", "glpat-", pattern(r"\bglpat-([0-9A-Za-z_-]{20})(?![0-9A-Za-z_-])")),
    Form("a Slack token", "xox[bp]-", pattern(r"\bxox[bp]-\d{10,13}-(\d{10,13}-[0-9A-Za-z-]{24,64})\b")),
    Form("an Anthropic key", "sk-ant-", pattern(r"\bsk-ant-[a-z]{3,5}\d\d-([0-9A-Za-z_-]{93})AA\b")),
    Form("an OpenAI key", "T3BlbkFJ", pattern(r"\bsk-([\w-]{20,110}T3BlbkFJ[\w-]{20,110})", re.ASCII)),
    Form("a Stripe key", "[sr]k_live_", pattern(r"\b[sr]k_live_([0-9A-Za-z]{24,120})\b")),
    Form("a SendGrid key", "SG\\.", pattern(r"\bSG\.([\w-]{22}\.[\w-]{43})(?![\w-])", re.ASCII)),
    Form("a PyPI token", "pypi-", pattern(r"\bpypi-(AgEIcHlwaS5vcmc[0-9A-Za-z_-]{50,200})")),
    Form("a Hugging Face token", "hf_", pattern(r"\bhf_([A-Za-z]{34})\b")),
    Form("a DigitalOcean token", "do[opr]_v1_", pattern(r"\bdo[opr]_v1_([0-9a-f]{64})\b")),
    Form("a Shopify token", "shp(?:at|ca|pa|ss)_", pattern(r"\bshp(?:at|ca|pa|ss)_([0-9a-fA-F]{32})\b")),
    Form(
        "a private key",
        "PRIVATE KEY-----",
        pattern(
            r"-----BEGIN (?:[A-Z]{2,9} )?PRIVATE KEY-----(?:\\[rn]|\s)+"
            r"([0-9A-Za-z+/=](?:[0-9A-Za-z+/=]|\\[rn]|\s){99,20000}?)-----END"
        ),
    ),
)

_STDERR: Final = "stderr"

# Searching for the last character of a mark, and then looking back at the text before it, takes a sixth of
# the time of a search for the marks themselves: 1.3 µs for a frame of 160 bytes.
_MARKS: Final = pattern(f"[_\\-.J](?:{'|'.join(f'(?<={form.marks})' for form in FORMS)})".encode())


@slotted(frozen=True)
class Secret:
    """A key in a message: its kind, the JSON Pointer of its text, and the key, which is never shown."""

    kind: str
    pointer: str
    value: str


@slotted()
class ReportedSecrets:
    """The keys that were reported: the caller (see ``History.caller``), the kind, the place, the sender."""

    keys: set[tuple[str, ...]] = field(default_factory=set[tuple[str, ...]])


def secrets_in(text: str) -> Iterator[tuple[str, str]]:
    """Yield the kind and the value of each key in a text."""
    for form in FORMS:
        for match in form.regex.finditer(text):
            if form.is_genuine(match) and not _DOCUMENTED.search(match[0]):
                yield form.kind, match[0]


def secrets_of(context: MessageContext) -> Iterator[Secret]:
    """Yield the keys in a message."""
    raw = context.frame.raw
    # Any letter may be written as an escape.
    if isinstance(context.message, Malformed) or not (_MARKS.search(raw) or b"\\u00" in raw):
        return
    stack: list[tuple[str, JSON]] = [(context.at, context.message.value)]
    while stack:
        pointer, value = stack.pop()
        if isinstance(value, str):
            for kind, secret in secrets_in(value):
                yield Secret(kind, pointer, secret)
        elif isinstance(value, list):
            stack += [(f"{pointer}/{index}", item) for index, item in enumerate(value)]
        elif isinstance(value, dict):
            for name, item in value.items():
                for kind, secret in secrets_in(name):
                    # The pointer of the object, because that of the member would show the key.
                    yield Secret(kind, pointer, secret)
                stack.append((pointer + token(name), item))


def place_of(context: MessageContext) -> str:
    """Return what a message is, in words: ``a tools/call request of tool "read"``."""
    method, params = context.method, context.contents
    if isinstance(context.message, Request):
        what = "request"
    else:
        what = "answer" if context.answers is not None else "message"
        params = context.answers.params if context.answers is not None else params
    if any(True for _ in secrets_in(method)):
        return f"a {what}"
    name = target_of(method, params) if method == "tools/call" else None
    if name is not None and not any(True for _ in secrets_in(name)):
        return f"a tools/call {what} of tool {visible(shown(name))}"
    return f"a {visible(method)} {what}" if method else f"a {what}"


def secret_in_message(context: MessageContext, history: History) -> Iterator[Violation]:
    """Report a key of a provider, once for each kind of key, place (``place_of``) and sender (SEC-007)."""
    reported, place = history.across_requests(ReportedSecrets).keys, ""
    in_this_message: set[str] = set()
    for secret in secrets_of(context):
        place = place or place_of(context)
        if secret.kind in in_this_message:
            continue
        in_this_message.add(secret.kind)
        if (history.caller, secret.kind, place, context.sender) not in reported:
            problem = f"{context.sender} put {secret.kind} into {place}"
            yield Violation("SEC-007", "X-019", problem, pointer=secret.pointer)


def remember_reported(context: MessageContext, history: History) -> None:
    """Record the keys in a message as reported."""
    reported = history.across_requests(ReportedSecrets).keys
    for secret in secrets_of(context):
        if len(reported) < MAX_REPORTED:
            reported.add((history.caller, secret.kind, place_of(context), context.sender))


def secret_on_stderr(line: Stderr, history: History) -> Iterator[Violation]:
    """Report a key of a provider in a line on stderr, once for each kind of key (SEC-007)."""
    reported = history.across_requests(ReportedSecrets).keys
    for kind in _kinds_on_stderr(line):
        if ("", kind, _STDERR, SERVER) not in reported:
            yield Violation("SEC-007", "X-019", f"server put {kind} into a line on {_STDERR}")


def remember_stderr(line: Stderr, history: History) -> None:
    """Record the keys in a line on stderr as reported."""
    reported = history.across_requests(ReportedSecrets).keys
    reported.update(("", kind, _STDERR, SERVER) for kind in _kinds_on_stderr(line))


def _kinds_on_stderr(line: Stderr) -> tuple[str, ...]:
    if not _MARKS.search(line.raw):
        return ()
    return tuple(dict.fromkeys(kind for kind, _ in secrets_in(line.raw.decode("utf-8", "replace"))))


def secret_in_url(exchange: HttpExchange, history: HttpHistory, frame: Frame | None) -> Iterator[Violation]:
    """Report a key of a provider in the target of an HTTP request that has a query (SEC-007)."""
    from urllib.parse import unquote  # imported here: it takes 3 ms, and few sessions need it

    for kind in dict.fromkeys(kind for kind, _ in secrets_in(unquote(exchange.request.target))):
        yield Violation("SEC-007", "X-019", f"client put {kind} into the URL of a request")


@slotted(frozen=True)
class SeenSecret:
    """A key that was seen in a message: a keyed hash of it, its kind, and where it was."""

    digest: bytes
    kind: str
    place: str
    sender: Sender
    is_answer: bool
    seq: int
    observed_ns: int
    pointer: str


def collector(receive: Callable[[SeenSecret], None], key: bytes) -> RuleFamily:
    """Make a family without checks that calls ``receive`` with every key in a message.

    The hash is keyed with ``key``: without it, nobody can test whether a hash is that of a known secret.
    """

    def collect(context: MessageContext, history: History) -> None:
        from hashlib import blake2b  # imported here: it loads OpenSSL, which few sessions need

        for secret in secrets_of(context):
            digest = blake2b(secret.value.encode("utf-8", "surrogatepass"), key=key).digest()
            receive(
                SeenSecret(
                    digest,
                    secret.kind,
                    place_of(context),
                    context.sender,
                    context.answers is not None,
                    context.seq,
                    context.frame.observed_at_ns,
                    secret.pointer,
                )
            )

    return RuleFamily(updates=(StateUpdate(collect, MESSAGES),))


FAMILY: Final = RuleFamily(
    checks=(
        # Requests have their own row, so that ``--enforce`` can refuse them by this rule.
        Check(("SEC-007",), secret_in_message, (Request,)),
        Check(("SEC-007",), secret_in_message, (Notification, *ANSWERS)),
    ),
    http=(HttpCheck(("SEC-007",), secret_in_url, ("request",), MCP, given=WITH_QUERY),),
    updates=(StateUpdate(remember_reported, MESSAGES),),
    stderr=(StderrCheck(("SEC-007",), secret_on_stderr, remember_stderr),),
)
