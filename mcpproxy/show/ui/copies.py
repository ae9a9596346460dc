"""The texts of the page's copy buttons: a call as JSON or as a command."""

import shlex
from typing import Final
from urllib.parse import urlsplit, urlunsplit

from mcpproxy.errors import McpProxyError
from mcpproxy.judge.session.frame import Frame, RequestHead
from mcpproxy.judge.session.masked_values import is_masked
from mcpproxy.read.view.calls import Role
from mcpproxy.read.view.view import View

_OMITTED_FIELDS: Final = (
    "host",
    "content-length",
    "connection",
    "accept-encoding",
    "transfer-encoding",
    "expect",
)
"""Header fields that are left out: curl sets those that its own request needs."""


class NoSuchFormError(McpProxyError):
    """The call cannot be written in the requested form."""


def text(view: View, number: int, form: str) -> str:
    """Return a call as ``json``, ``curl``, ``trim`` (a command) or ``replay`` (a command).

    Raises:
        NoSuchFormError: the call cannot be written in this form.
        IndexError: there is no such call.
    """
    path = shlex.quote(view.path)
    match form:
        case "json":
            return _messages(view, number)
        case "curl":
            return _curl_command(view, number)
        case "trim":
            frame = view.call(number).frame
            if not frame:
                raise NoSuchFormError("this row has no frame")
            return f"mcpproxy trim {path} --around {frame} -o call-{number}.jsonl"
        case "replay":
            return f"mcpproxy replay server {'--http ' if view.header.transport == 'http' else ''}{path}"
        case _:
            raise NoSuchFormError(f"{form}: unknown form; there are json, curl, trim and replay")


def _messages(view: View, number: int) -> str:
    """Return the request of a call and its answer, a line end between them; empty if the row has neither."""
    roles = (Role.REQUEST, Role.ANSWER)
    records = [part.record for part in view.parts(number).parts if part.role in roles]
    frames = [record for record in records if isinstance(record, Frame)]
    return "\n".join(frame.raw.decode("utf-8", "backslashreplace") for frame in frames)


def _curl_command(view: View, number: int) -> str:
    """Return a call over HTTP as a curl command. Masked header fields are left to the user.

    Raises:
        NoSuchFormError: the call is not over HTTP.
    """
    records = [part.record for part in view.parts(number).parts]
    head = next((record for record in records if isinstance(record, RequestHead)), None)
    if head is None:
        raise NoSuchFormError("only a call over HTTP can be written for curl")
    words = ["curl", "-sN", "-X", head.method, _url(view.header.upstream, head)]
    for name, value in head.headers:
        if name.lower() not in _OMITTED_FIELDS:
            field = f"{name}: PUT-IT-HERE" if is_masked(value) else f"{name}: {value}"
            words += ["-H", field]
    body = next(
        (record.raw for record in records if isinstance(record, Frame) and record.sender == "client"), b""
    )
    if body:
        words += ["--data-raw", body.decode("utf-8", "backslashreplace")]
    return " ".join(shlex.quote(word) for word in words)


def _url(upstream: str, head: RequestHead) -> str:
    """Return the URL of a request at the server itself, without the proxy.

    ``upstream`` is the URL of the server. It is empty in forward mode, where the target or the Host names the
    server.
    """
    if "://" in head.target:
        return head.target
    if not upstream:
        host = next((value for name, value in head.headers if name.lower() == "host"), "localhost")
        return f"http://{host}{head.target}"
    server = urlsplit(upstream)
    path, _, query = head.target.partition("?")
    return urlunsplit((server.scheme, server.netloc, path, query, ""))
