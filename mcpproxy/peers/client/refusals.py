"""Describes HTTP responses without an MCP message: what a server, or a gateway before it, says in them."""

import re
from contextlib import suppress
from dataclasses import dataclass
from html import unescape
from http import HTTPStatus
from typing import Final
from urllib.parse import urljoin

from mcpproxy.base.named_url import ForeignUrlError, host_advice, resolved
from mcpproxy.base.secret_values import HIDDEN, mask_secrets
from mcpproxy.base.upstream.client_certificates import certificate_advice
from mcpproxy.base.upstream.redirects import MAYBE_LOGIN, REDIRECTS, SAME_REQUEST
from mcpproxy.base.visible import visible
from mcpproxy.peers.client.remote_server import Headers
from mcpproxy.protocol.jsonrpc import ErrorResponse, Malformed, parse
from mcpproxy.protocol.message_parts import member
from mcpproxy.record.recorder.secret_arguments import shown

_SHOWN_CHARACTERS: Final = 200
_READ_BYTES: Final = 64 << 10
_SHOWN_URL: Final = 500
_SHORTEST_VALUE: Final = 4
"""Shorter values of headers are not hidden, because they are part of many words."""
_NAMES: Final = {status.value: status.phrase.lower() for status in HTTPStatus}

_INVALID_HOST: Final = re.compile("invalid host", re.IGNORECASE)
"""How SDKs refuse a name that they do not serve, some with 403."""
_TITLE: Final = re.compile(r"<title[^<>]*>([^<]*)", re.IGNORECASE)
_MEMBERS: Final = ("error_description", "detail", "message", "msg", "error", "title")
"""The members of a JSON object that say what is wrong (RFC 6749, section 5.2; RFC 9457; usage)."""


@dataclass(frozen=True, slots=True)
class HttpRefusal:
    """A response with a ``status`` from 300 on that is no answer.

    ``words`` are the status and the explanation of the server. ``advice`` is what the user can do, as a
    clause, or empty. ``moved_to`` is the URL of the same origin to which the same request may be sent
    (``SAME_REQUEST``), or empty.
    """

    status: int
    words: str
    advice: str = ""
    moved_to: str = ""

    def __str__(self) -> str:
        return "; ".join(filter(None, (self.words, self.advice)))


def refusal(url: str, status: int, location: str, body: bytes, own: Headers = ()) -> HttpRefusal:
    """Describe a response of the server at ``url``, in words such as ``307 to https://a.example/mcp/``.

    ``location`` is the ``Location`` of a redirect, empty if it has none. ``body`` and ``own`` are as for
    ``status_words``.
    """
    words = status_words(status, body, own)
    if status == 421 or (status == 403 and _INVALID_HOST.search(words)):
        return HttpRefusal(status, words, host_advice(url))
    if status not in REDIRECTS:
        return HttpRefusal(status, words, certificate_advice(status, body))
    if not location:
        return HttpRefusal(status, f"{status} without a Location{words.removeprefix(str(status))}")
    try:
        to = visible(shown((urljoin(url, location),))[:_SHOWN_URL])
    except ValueError:
        return HttpRefusal(status, f"{status} with a Location that is no URL")
    moved_to = ""
    with suppress(ForeignUrlError):
        moved_to = resolved(url, location.encode("latin-1", "replace"))
    if moved_to == url:
        return HttpRefusal(status, f"{status} to the same URL")
    if status in MAYBE_LOGIN:
        return HttpRefusal(
            status, f"{status} to {to}", "try that URL, or give credentials if it wants a login"
        )
    return HttpRefusal(
        status, f"{status} to {to}", "try that URL", moved_to if status in SAME_REQUEST else ""
    )


def status_words(status: int, body: bytes, own: Headers = ()) -> str:
    """Return the status and its explanation in the body: ``400: No required SSL certificate was sent``.

    The explanation is the message of an error, the title of a page, or the first line of a text. It is left
    out if it is only the name of the status. ``own`` are the headers that the user gave: their values, and
    other secrets, are hidden in it.
    """
    explanation = explanation_in(body, own, status)
    return (
        f"{status}: {explanation}"
        if explanation and explanation.lower() != _NAMES.get(status)
        else str(status)
    )


def explanation_in(body: bytes, own: Headers = (), status: int = 0) -> str:
    """Return the explanation that ``status_words`` finds in a body, without ``status``; empty if none.

    ``own`` is as for ``status_words``.
    """
    explanation = _explanation(body[:_READ_BYTES]).strip().removeprefix(str(status)).strip(" :-")
    return visible(_without_secrets(explanation, own)[:_SHOWN_CHARACTERS])


def without_message(status: int, body: bytes, own: Headers = ()) -> str:
    """Describe a response with a status below 300 whose ``body`` is no message; ``own`` as for
    ``status_words``.
    """
    explanation = explanation_in(body, own)
    return f"{status} without a message{': ' if explanation else ''}{explanation}"


def _without_secrets(text: str, own: Headers) -> str:
    """Hide the values of ``own``, also without a scheme such as ``Bearer``, and anything like a secret."""
    values = {part for _, value in own for part in (value, value.partition(" ")[2])}
    for value in sorted(values, key=len, reverse=True):
        if len(value) >= _SHORTEST_VALUE:
            text = text.replace(value, HIDDEN)
    return mask_secrets(text, lambda _: HIDDEN)


def _explanation(body: bytes) -> str:
    message = parse(body)
    if isinstance(message, ErrorResponse | Malformed) and isinstance(message.value, dict):
        values = (member(message.value, "error", "message"), *map(message.value.get, _MEMBERS))
        return next((value for value in values if isinstance(value, str)), "")
    text = body.decode("utf-8", "replace").lstrip()
    if not text.startswith("<"):
        return text.partition("\n")[0]
    title = _TITLE.search(text)
    return unescape(title[1]) if title else ""
