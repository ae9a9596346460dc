"""Read the documents, queries, forms and challenges of a login, and show them without credentials.

Of codes, tokens, verifiers and secrets, ``members`` shows only the names.
"""

from collections.abc import Iterable, Mapping
from typing import Final, cast
from urllib.parse import SplitResult, parse_qsl, urlsplit

import orjson

from mcpproxy.base.visible import visible
from mcpproxy.judge.session.exchanges import Fields
from mcpproxy.protocol.jsonrpc import JSON, JSONObject
from mcpproxy.protocol.oauth import challenge_parameters
from mcpproxy.read.view.login.web_exchanges import LONGEST_BODY, WebExchange
from mcpproxy.record.trace.json_masking import secrets_masked

_LONGEST_TEXT: Final = 300

SECRET_MEMBERS: Final = frozenset(
    {
        "access_token", "refresh_token", "id_token", "code", "code_verifier", "client_secret",
        "client_assertion", "registration_access_token", "password", "assertion", "subject_token",
        "actor_token", "device_code", "code_challenge", "state", "nonce", "dpop_jkt",
    }
)  # fmt: skip
"""Members and parameters whose values are not shown, only their names."""


def document(body: bytes | bytearray) -> JSONObject:
    """Return a body as a JSON object; empty if it is not one, or has ``LONGEST_BODY`` bytes or more."""
    try:
        value: JSON = orjson.loads(bytes(body)) if len(body) < LONGEST_BODY else None
    except orjson.JSONDecodeError:
        return {}
    return value if isinstance(value, dict) else {}


def parameters(text: str) -> dict[str, str]:
    """Return the parameters of a query or a form; the first of equal names counts."""
    values: dict[str, str] = {}
    for name, value in parse_qsl(text[:LONGEST_BODY], keep_blank_values=True, max_num_fields=None):
        values.setdefault(name, value)
    return values


def form(exchange: WebExchange) -> dict[str, str]:
    """Return the parameters of the form in a request."""
    return parameters(exchange.body.decode("utf-8", "replace"))


def query(url: str) -> dict[str, str]:
    """Return the parameters in the query of a URL."""
    return parameters(urlsplit_or_empty(url).query)


def challenge(fields: Fields) -> dict[str, str]:
    """Return the parameters of all challenges of an answer, with names in lower case."""
    return challenge_parameters(fields.all("www-authenticate"))


def urlsplit_or_empty(url: str) -> SplitResult:
    """Split a URL. A URL that cannot be split is treated as empty."""
    try:
        return urlsplit(url)
    except ValueError:
        return urlsplit("")


def place(url: str) -> str:
    """Return a URL without query and fragment, safe to show."""
    return shown(url.partition("?")[0].partition("#")[0])


def origin(url: str) -> str:
    """Return scheme, host and port of a URL, in lower case; ``://`` if it cannot be split."""
    parts = urlsplit_or_empty(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}".lower()


def shown(value: object) -> str:
    """Return a value from a peer as text that is safe to show: one line, no secrets, about 300 characters."""
    text = value if isinstance(value, str) else orjson.dumps(value, default=str).decode()
    text = secrets_masked(text[: 4 * _LONGEST_TEXT], lambda _: "masked")
    return visible(text if len(text) <= _LONGEST_TEXT else f"{text[:_LONGEST_TEXT]}…")


def members(values: Mapping[str, object], names: Iterable[str]) -> str:
    """Return the members with these names as ``name value, …``; of secrets only the names."""
    present = [name for name in names if name in values]
    return ", ".join(
        name if name in SECRET_MEMBERS else f"{name} {_shown_value(values[name])}" for name in present
    )


def _shown_value(value: object) -> str:
    if not isinstance(value, list):
        return shown(value)
    listed = cast("list[object]", value)
    return " ".join(map(shown, listed[:8])) + (" …" if len(listed) > 8 else "")
