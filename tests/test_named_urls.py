"""The URLs that peers name: one function says what is requested, and nothing in the tree goes past it."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from mcpproxy.base.named_url import LONGEST_URL, ForeignUrlError, resolved
from tests.ladder import PACKAGE

BASE: Final = "http://Own.example:80/a/mcp?key=1"

OWN: Final = (
    ("/m?s=1", "http://Own.example:80/m?s=1"),
    ("m", "http://Own.example:80/a/m"),
    ("?q", "http://Own.example:80/a/mcp?q"),
    (" /m\r\n", "http://Own.example:80/m"),
    ("http://OWN.example./m#f", "http://Own.example:80/m"),
    ("HTTP://own.example:80/m", "http://Own.example:80/m"),
    ("//own%2Eexample/m", "http://Own.example:80/m"),
    ("/\\other.example/m", "http://Own.example:80/\\other.example/m"),
    ("////other.example/m", "http://Own.example:80//other.example/m"),
    ("/a\tb c\x00", "http://Own.example:80/a%09b%20c%00"),
    ("/\u00e9", "http://Own.example:80/%C3%A9"),
    (b"/\xe9\xff", "http://Own.example:80/%E9%FF"),
)

FOREIGN: Final = (
    ("http://other.example/m", "names http://other.example, another origin than its own"),
    ("//other.example", "names http://other.example, another origin"),
    ("http://own.example:81/m", "names http://own.example:81, another origin"),
    ("https://own.example/m", "names https://own.example, another origin"),
    ("http://sub.own.example/m", "another origin"),
    ("http://own.example@other.example/m", "names http://other.example, another origin"),
    ("http://own.example\\@other.example/m", "names http://other.example, another origin"),
    ("http://user:word@own.example/m", "names a URL with user information in it"),
    ("file:///etc/passwd", "names file:, another origin"),
    ("http://own.example:65536/m", "which is no URL"),
    ("http://[::1/m", "which is no URL"),
    ("http://\x1b[2J\u202e/m", "which is no URL"),
    (b"http://\xff/", "which is no URL"),
    ("/" + "m" * LONGEST_URL, "names a URL of more than 16 KiB"),
)


@pytest.mark.parametrize(("named", "wanted"), OWN)
def test_the_same_origin_is_requested_as_the_user_wrote_it(named: str | bytes, wanted: str) -> None:
    assert resolved(BASE, named) == wanted


@pytest.mark.parametrize(("named", "why"), FOREIGN)
def test_any_other_is_refused_in_a_clause(named: str | bytes, why: str) -> None:
    with pytest.raises(ForeignUrlError) as refused:
        resolved(BASE, named)
    assert why in str(refused.value)
    assert str(refused.value).isprintable()


@pytest.mark.parametrize(
    ("base", "named"),
    [
        ("http://[::1]:8000/mcp", "http://[0:0:0::1]:8000/m"),
        ("http://b\u00fccher.example/mcp", "http://xn--bcher-kva.example/m"),
        ("https://own.example/mcp", "https://own.example:443/m"),
    ],
)
def test_one_host_has_several_spellings(base: str, named: str) -> None:
    assert resolved(base, named) == resolved(base, "/m")


def test_tls_is_not_given_up() -> None:
    with pytest.raises(ForeignUrlError, match=r"names http://own\.example, without TLS, another origin"):
        resolved("https://own.example/mcp", "http://own.example/m")


def test_names_of_this_machine_may_count_as_one_and_lead_to_the_one_that_the_user_named() -> None:
    base, named = "http://127.0.0.1:8000/mcp", "http://localhost:8000/m"
    assert resolved(base, named, loopback_is_one=True) == "http://127.0.0.1:8000/m"
    for other in (named, "http://localhost:8001/m", "http://127.0.0.2:8000/m"):
        with pytest.raises(ForeignUrlError):
            resolved(base, other)
    with pytest.raises(ForeignUrlError):
        resolved(base, "http://localhost:8001/m", loopback_is_one=True)


# The tree

ASKED: Final = {"resolved", "resolve", "use_endpoint"}
"""The function, and what calls it: ``RemoteServer.resolve`` and ``ClientSession.use_endpoint``."""

FIELDS: Final = {"location", "content-location", "refresh", "resource_metadata", "endpoint"}
"""Where a peer names a URL: fields, a parameter of a challenge, an event."""

CLIENTS: Final = (
    "peers/client",
    "peers/bridge",
    "peers/validate",
    "peers/fuzz",
    "peers/replay/client",
    "show",
    "send",
    "hosts",
)

CONNECTING: Final = {
    "open_connection",
    "create_connection",
    "AsyncConnectionPool",
    "AsyncClient",
    "urlopen",
    "sock_connect",
}

CONNECTS: Final = {
    "base/upstream/tunnels.py": "the proxy is the user's own; servers are those of who asks",
    "peers/client/http_connection.py": "requests are those of RemoteServer, which resolves",
    "send/fleet/judge/engine_ray.py": "the address is the user's own",
    "peers/validate/transports/reachability.py": "the URL is the user's own",
}

READS: Final = {
    ("peers/replay/client/http_link.py", "__init__"): "an event that was recorded",
    ("peers/validate/transports/http_endpoint.py", "__init__"): "an option of the recorder",
    ("peers/validate/transports/http_endpoint.py", "_on_frame"): "leaves the event out",
    ("peers/validate/transports/http_endpoint.py", "refusal"): "is printed for the user",
    ("peers/bridge/remote_session.py", "on_head"): "is printed for the user",
    ("peers/replay/client/http_link.py", "on_head"): "is printed for the user",
    (
        "peers/client_tests/rows/authorized.py",
        "_approve",
    ): "sends the browser of a client on, as a server does",
}

JOINS: Final = {
    "base/named_url.py": "the function",
    "peers/client/refusals.py": "is printed for the user; nothing is requested",
    "gate/intercept/addons/closed_gate_http.py": "keeps the path, of whatever origin; nothing is requested",
    "protocol/schema/effort.py": "names parts of a schema; nothing is requested",
    "judge/session/redirects.py": "compares targets; nothing is requested",
}


def faults(path: str, text: str) -> Iterator[str]:
    """Yield what in a module goes past the function."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        name = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
        if name == "urljoin" and path not in JOINS:
            yield f"{path} joins a URL with urljoin"
        if name in CONNECTING and path not in CONNECTS:
            yield f"{path} connects with {name}"
        if isinstance(node, ast.keyword) and node.arg in ("follow_redirects", "allow_redirects"):
            yield f"{path} has a library follow redirects"
        if not (isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and path.startswith(CLIENTS)):
            continue
        if (path, node.name) not in READS and _reads(node) and not _asks(node):
            yield f"{path} reads in {node.name} what a peer names"


def _reads(function: ast.AST) -> bool:
    for node in ast.walk(function):
        if isinstance(node, ast.Constant) and isinstance(node.value, str | bytes):
            text = node.value.decode("latin-1") if isinstance(node.value, bytes) else node.value
            if text.lower() in FIELDS:
                return True
    return False


def _asks(function: ast.AST) -> bool:
    calls = [node.func for node in ast.walk(function) if isinstance(node, ast.Call)]
    names = {call.attr if isinstance(call, ast.Attribute) else getattr(call, "id", "") for call in calls}
    return bool(names & ASKED)


def test_nothing_in_the_tree_goes_past_the_function() -> None:
    found = [
        fault
        for path in sorted(PACKAGE.rglob("*.py"))
        for fault in faults(path.relative_to(PACKAGE).as_posix(), path.read_text(encoding="utf-8"))
    ]
    assert found == []


@pytest.mark.parametrize("path", sorted({*CONNECTS, *JOINS, *(path for path, _ in READS)}))
def test_what_is_listed_exists(path: str) -> None:
    assert (PACKAGE / path).is_file()


@pytest.mark.parametrize(
    ("path", "made", "undone", "fault"),
    [
        (
            "peers/client/remote_server.py",
            "self.resolve(response",
            "(response",
            "reads in exchange what a peer names",
        ),
        ("peers/client/http_session.py", "self.use_endpoint(data)", "str(data)", "reads in _receive_event"),
        ("peers/client/http_session.py", "self._remote.resolve(reference", "urljoin(reference", "urljoin"),
        (
            "peers/replay/client/http_link.py",
            "upstream=upstream)",
            "follow_redirects=True)",
            "follow redirects",
        ),
        (
            "peers/validate/transports/exchange.py",
            "self.wire.use_endpoint(block.data)",
            "str(block.data)",
            "reads in find_endpoint",
        ),
        ("peers/validate/runner.py", "time.monotonic()", "urlopen()", "connects with urlopen"),
    ],
)
def test_the_check_of_the_tree_sees_what_is_undone(path: str, made: str, undone: str, fault: str) -> None:
    text = Path(PACKAGE / path).read_text(encoding="utf-8")
    assert made in text
    assert not list(faults(path, text))
    assert any(fault in found for found in faults(path, text.replace(made, undone)))
