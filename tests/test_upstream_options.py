"""How a server over HTTP is reached: the options that every command has that connects to one."""

import asyncio
import json
import re
import ssl
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import pytest

from mcpproxy.base.upstream.http_proxy import HttpProxy, proxy_for
from mcpproxy.base.upstream.settings import UpstreamSettings
from mcpproxy.base.upstream.tls_failures import tls_reason
from mcpproxy.cli.main import main
from mcpproxy.cli.upstream_options import arguments
from mcpproxy.read.view.view import open_view
from mcpproxy.show.ui.send import CallSender, recorded_call
from tests.bridge.ends import Host, complete
from tests.cli.conftest import Mcpproxy
from tests.cli.conftest import mcpproxy as mcpproxy
from tests.peers.connect_proxy import ConnectProxy, connect_proxy
from tests.relay.test_http_tls import CERT, CLIENT, KEY, SERVER, server_context
from tests.replay.http_scripts import JSON, Tape
from tests.replay.scripts import HELLO, C, S, ask, give, trace
from tests.replay.test_client_http import Answering, Server

ASKED, GREETED, READY = (line[1] for line in HELLO)
CERTS: Final = Path(CERT).parent
OWN: Final = UpstreamSettings(f"{CLIENT}.pem", f"{CLIENT}.key", CERT)
TOOLS: Final = {"tools": [{"name": "a", "inputSchema": {"type": "object"}}]}


def answer(http: Answering, said: Any) -> None:
    """Answer as a server with one tool."""
    if said is None:
        http.give(405)
    elif said.get("method") == "initialize":
        result = {**GREETED["result"], "serverInfo": {"name": "s", "version": "1"}}
        http.give(200, {**GREETED, "id": said["id"], "result": result}, session="a-session-0123456789")
    elif "id" in said:
        http.give(200, give(said["id"], **(TOOLS if said["method"] == "tools/list" else {})))
    else:
        http.give(202)


def validate(url: str, settings: UpstreamSettings, folder: Path) -> bool:
    recorded = f"--trace={folder / 'v.jsonl'}"
    return main(["validate", "--only=ping", recorded, *arguments(settings), url]) in (0, 1)


def replay_client(url: str, settings: UpstreamSettings, folder: Path) -> bool:
    session = [*HELLO, (C, ask(1, "tools/list")), (S, give(1, **TOOLS))]
    path = trace(folder / "r.jsonl", session)
    return main(["replay", "client", str(path), *arguments(settings), url]) in (0, 1)


def replay_client_update(url: str, settings: UpstreamSettings, folder: Path) -> bool:
    path = trace(folder / "r.jsonl", [*HELLO, (C, ask(1, "tools/list")), (S, give(1, tools=[]))])
    assert main(["replay", "client", str(path), "--update", *arguments(settings), url]) == 0
    return b'"name":"a"' in path.read_bytes().replace(b" ", b"").replace(b"\\", b"")


def pin(url: str, settings: UpstreamSettings, folder: Path) -> bool:
    return main(["pin", "-o", str(folder / "pins.json"), *arguments(settings), url]) == 0


def fuzz(url: str, settings: UpstreamSettings, folder: Path) -> bool:
    session = [*HELLO, (C, ask(1, "tools/list")), (S, give(1, **TOOLS))]
    path = trace(folder / "r.jsonl", session)
    allowed = ("--allow-host", "server.example", "--count", "3", "--timeout", "20", "--json")
    return main(["fuzz", str(path), *allowed, *arguments(settings), url]) in (0, 1)


def bridge(url: str, settings: UpstreamSettings, folder: Path) -> bool:
    with Host(folder, *arguments(settings), url) as host:
        host.say(json.dumps(ASKED).encode())
        heard = json.loads(host.hear())
        assert host.close() == 0
    complete(folder)
    return "result" in heard


def send_again(url: str, settings: UpstreamSettings, folder: Path) -> bool:
    tape = Tape()
    for each, answered in ((ASKED, GREETED), (ask(1, "tools/list"), give(1, tools=[]))):
        tape.give(tape.request("POST", each, JSON), 200, answered, JSON)
    with open_view(str(tape.write(folder / "http.jsonl"))) as view:
        number = next(call.number for call in view.calls("kind:request") if call.method == "tools/list")
        recorded = recorded_call(view, number)
    here = replace(recorded, header=replace(recorded.header, upstream=url))
    sent = asyncio.run(CallSender(str(folder), settings).send(here, {}, confirmed=True))
    return '"a"' in sent.text


COMMANDS: Final = (validate, replay_client, replay_client_update, pin, fuzz, bridge, send_again)
"""``http`` itself is in ``tests/relay``, and behind ``replay_client_update``."""


@pytest.fixture
def strict() -> Iterator[Server]:
    """A server that demands our certificate."""
    with Server(answer, server_context(asks=True)).running() as server:
        yield server


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_shows_its_certificate(
    command: Callable[[str, UpstreamSettings, Path], bool], strict: Server, tmp_path: Path
) -> None:
    assert command(strict.url, OWN, tmp_path)
    assert strict.requests
    key = Path(OWN.key).read_text().splitlines()[1]
    for path in tmp_path.rglob("*"):
        assert path.is_dir() or key not in path.read_text()


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_trusts_what_the_environment_names(
    command: Callable[[str, UpstreamSettings, Path], bool],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", CERT)
    with Server(answer, server_context()).running() as server:
        assert command(server.url, UpstreamSettings(), tmp_path)


URL: Final = "https://127.0.0.1:1/mcp"
ALL: Final = {
    "http": ("http",),
    "bridge": ("bridge",),
    "validate": ("validate",),
    "replay client": ("replay", "client"),
    "fuzz": ("fuzz",),
    "pin": ("pin", "-o", "-"),
}

BAD: Final = {
    "missing": (("--client-cert=none.pem",), "none.pem: cannot be read (No such file or directory)"),
    "a folder": (("--ca=.",), ".: cannot be read ("),
    "no certificate": ((f"--client-cert={KEY}",), f"{KEY}: holds no certificate in PEM"),
    "no CA": ((f"--ca={KEY}",), f"{KEY}: holds no certificate in PEM"),
    "no key": ((f"--client-cert={CLIENT}.pem",), "client.pem: holds no private key in PEM"),
    "a certificate as the key": (
        (f"--client-cert={CLIENT}.pem", f"--client-key={CLIENT}.pem"),
        "client.pem: holds no private key in PEM",
    ),
    "the key of another": (
        (f"--client-cert={CLIENT}.pem", f"--client-key={KEY}"),
        f"localhost.key: the private key does not belong to the certificate in {CLIENT}.pem; ",
    ),
    "an encrypted key": (
        (f"--client-cert={CLIENT}.pem", f"--client-key={CLIENT}-encrypted.key"),
        "client-encrypted.key: the private key is encrypted, and nobody can be asked for its password",
    ),
    "an encrypted key of PKCS 8": (
        (f"--client-cert={CLIENT}.pem", f"--client-key={CLIENT}-pkcs8.key"),
        "client-pkcs8.key: the private key is encrypted",
    ),
    "a key alone": ((f"--client-key={KEY}",), "--client-key: needs --client-cert"),
}


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("name", ALL)
def test_files_that_cannot_be_used(
    mcpproxy: Mcpproxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, bad: str
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    arguments, said = BAD[bad]
    refused = mcpproxy(*ALL[name], *recorded(name, tmp_path), *arguments, URL)
    assert (refused.code, refused.out) == (2, "")
    assert said in refused.err
    assert refused.err.count("\n") == 1
    assert not (tmp_path / "state").exists()


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("end", [("http://127.0.0.1:1/mcp",), ("--", "true")], ids=["http", "command"])
def test_a_certificate_needs_https(
    mcpproxy: Mcpproxy, tmp_path: Path, name: str, end: tuple[str, ...]
) -> None:
    before = ("--stdio",) if name == "bridge" and end[0] == "--" else ()
    if name == "http" and end[0] == "--":
        end = ("--forward",)
    refused = mcpproxy(*ALL[name], *before, *recorded(name, tmp_path), f"--ca={CERT}", *end)
    assert refused.code == 2
    assert "--ca: goes together with an https:// URL" in refused.err


def recorded(name: str, folder: Path) -> tuple[str, ...]:
    """The recording that a command needs."""
    return (str(trace(folder / "r.jsonl", HELLO)),) if name in ("replay client", "fuzz") else ()


def test_a_damaged_certificate(mcpproxy: Mcpproxy, tmp_path: Path) -> None:
    damaged = tmp_path / "damaged.pem"
    damaged.write_text("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
    for option in ("--ca", "--client-cert"):
        refused = mcpproxy("validate", f"{option}={damaged}", f"--client-key={KEY}", URL)
        if option == "--ca":
            refused = mcpproxy("validate", f"{option}={damaged}", URL)
        assert refused.code == 2
        assert "cannot be used (" in refused.err
        assert f"see {option}" in refused.err


def test_the_certificate_may_hold_its_key(strict: Server, tmp_path: Path) -> None:
    both = tmp_path / "both.pem"
    both.write_text(Path(OWN.cert).read_text() + Path(OWN.key).read_text())
    assert pin(strict.url, UpstreamSettings(str(both), ca=CERT), tmp_path)


# Proxies

NAMED: Final = UpstreamSettings(ca=f"{SERVER}.pem")
SECRET: Final = "Basic dXNlcjp3JnJk"
"""What ``user:w%26rd@`` in a URL becomes."""


@pytest.fixture
def proxy() -> Iterator[ConnectProxy]:
    with connect_proxy() as proxy:
        proxy.credentials = SECRET.encode()
        yield proxy


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_goes_through_the_proxy_that_the_environment_names(
    command: Callable[[str, UpstreamSettings, Path], bool],
    proxy: ConnectProxy,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """For a server over TLS it makes a tunnel; another gets its requests from it."""
    for scheme in ("http", "https"):
        monkeypatch.setenv(f"{scheme}_proxy", proxy.url.replace("//", "//user:w%26rd@"))
    with Server(answer, server_context(SERVER), "server.example").running() as server:
        assert command(server.url, NAMED, tmp_path)
    assert proxy.asked
    assert {head.split(b"\r\n")[0] for head in proxy.asked} == {
        b"CONNECT server.example:%d HTTP/1.1" % server.port
    }

    proxy.asked.clear()
    folder = tmp_path / "plain"
    folder.mkdir()
    with Server(answer, host="server.example").running() as server:
        assert command(server.url, UpstreamSettings(), folder)
    assert server.requests
    for head in proxy.asked:
        assert b" http://server.example:%d/mcp HTTP/1.1\r\n" % server.port in head
        assert b"\r\nHost: server.example:%d\r\n" % server.port in head
    said = capfd.readouterr()
    for path in tmp_path.rglob("*.jsonl"):
        text = path.read_text()
        assert "proxy-authorization" not in text.lower()
        assert "http://server.example:" not in "".join(re.findall(r'"target":"[^"]*"', text))
        said = (*said, text)
    for secret in ("w%26rd", "w&rd", SECRET.split()[1]):
        assert not any(secret in text for text in said)


def failing(proxy: ConnectProxy, how: str) -> None:
    """Let the proxy fail."""
    match how:
        case "down":
            proxy.close()
        case "no proxy":
            proxy.answer = b"220 mail.example ESMTP\r\n\r\n"
        case "silent":
            proxy.answer = b""
        case _:
            proxy.credentials, proxy.status = b"", int(how)


FAILING: Final = {
    "407": "wants credentials (407); write http://USER:PASSWORD@HOST:PORT there",
    "403": "makes no connection to the server (HTTP 403)",
    "down": "cannot be reached: connection refused",
    "no proxy": "does not answer as a proxy",
    "silent": "does not answer as a proxy",
}


@pytest.mark.parametrize("how", FAILING)
def test_a_proxy_that_fails_is_named_with_its_variable(
    how: str, proxy: ConnectProxy, mcpproxy: Mcpproxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ALL_PROXY", proxy.url)
    failing(proxy, how)
    session = [*HELLO, (C, ask(1, "tools/list")), (S, give(1, **TOOLS))]
    recorded = str(trace(tmp_path / "r.jsonl", session))
    for command in (
        ("validate", f"--trace={tmp_path / 'v.jsonl'}"),
        ("replay", "client", recorded),
        ("fuzz", "--allow-host", "server.example", recorded),
        ("pin", "-o", "-"),
    ):
        for scheme in ("https", "http")[: 2 if how in ("407", "down") else 1]:
            failed = mcpproxy(*command, f"{scheme}://server.example:9/mcp")
            assert failed.code == 2
            assert f"the proxy {proxy.url} of ALL_PROXY {FAILING[how]}" in failed.err


def refuse(http: Answering, said: Any) -> None:
    """Answer as nginx does where a client shows no certificate."""
    page = b"<html>\r\n<head><title>400 No required SSL certificate was sent</title></head>\r\n</html>\r\n"
    http.send_response(400)
    http.send_header("Content-Type", "text/html")
    http.send_header("Content-Length", str(len(page)))
    http.end_headers()
    http.wfile.write(page)


def test_each_command_says_what_a_gateway_says(mcpproxy: Mcpproxy, tmp_path: Path) -> None:
    """No server of MCP was met, so no command has a good word for it."""
    session = [*HELLO, (C, ask(1, "tools/list")), (S, give(1, **TOOLS))]
    recorded = str(trace(tmp_path / "r.jsonl", session))
    words = "400: No required SSL certificate was sent; give one with --client-cert and --client-key"
    with Server(refuse).running() as server:
        for command in (
            ("validate", f"--trace={tmp_path / 'v.jsonl'}"),
            ("fuzz", "--count=3", recorded),
            ("replay", "client", recorded),
            ("pin", "-o", "-"),
        ):
            refused = mcpproxy(*command, server.url)
            assert refused.code == 2
            assert f"HTTP status {words}" in refused.err
        with Host(tmp_path, server.url) as host:
            host.say(json.dumps(ASKED).encode())
            heard = json.loads(host.hear())
            assert host.close() == 0
    complete(tmp_path)
    assert f"answered HTTP {words}" in heard["error"]["message"]


def test_credentials_that_a_proxy_does_not_take(
    proxy: ConnectProxy, mcpproxy: Mcpproxy, tmp_path: Path
) -> None:
    named = "--proxy=" + proxy.url.replace("//", "//user:wrong@")
    for scheme in ("http", "https"):
        failed = mcpproxy("pin", "-o", "-", named, f"{scheme}://server.example:9/mcp")
        assert failed.code == 2
        assert f"the proxy {proxy.url} of --proxy does not accept the credentials that are there (407)" in (
            failed.err
        )
        assert "wrong" not in failed.err


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("socks5h://user:word@127.0.0.1:1080", "socks5h://127.0.0.1 is not a proxy that speaks plain HTTP"),
        ("https://user:word@proxy.example", "https://proxy.example is not a proxy that speaks plain HTTP"),
        ("http://user:word@", "it is not the URL of a proxy; write http://HOST:PORT"),
        ("http://user:word@a:port", "it is not the URL of a proxy"),
    ],
)
@pytest.mark.parametrize("name", ALL)
def test_what_is_no_proxy(
    mcpproxy: Mcpproxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str, said: str
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("HTTPS_PROXY", value)
    refused = mcpproxy(*ALL[name], *recorded(name, tmp_path), "https://server.example/mcp")
    assert (refused.code, refused.out) == (2, "")
    assert refused.err.startswith("mcpproxy: HTTPS_PROXY: ")
    assert said in refused.err
    assert "word" not in refused.err
    assert not (tmp_path / "state").exists()


H, S_, A, N = "http_proxy", "https_proxy", "all_proxy", "no_proxy"

CHOICES: Final[tuple[tuple[dict[str, str], str, str], ...]] = (
    ({}, "https://a.example", ""),
    ({S_: "http://p:1"}, "https://a.example", "p:1 https_proxy"),
    ({S_: "p:1"}, "https://a.example", "p:1 https_proxy"),
    ({S_: "http://p"}, "https://a.example", "p:80 https_proxy"),
    ({S_: "http://[::2]:1/"}, "https://a.example", "::2:1 https_proxy"),
    ({"HTTPS_PROXY": "http://P:1"}, "https://a.example", "p:1 HTTPS_PROXY"),
    ({S_: "http://p:1", "HTTPS_PROXY": "http://q:1"}, "https://a.example", "p:1 https_proxy"),
    ({S_: "", "HTTPS_PROXY": "http://q:1"}, "https://a.example", ""),
    ({S_: "http://p:1"}, "http://a.example", ""),
    ({H: "http://p:1", A: "http://q:1"}, "http://a.example", "p:1 http_proxy"),
    ({"HTTP_PROXY": "http://p:1"}, "http://a.example", "p:1 HTTP_PROXY"),
    ({"HTTP_PROXY": "http://p:1", "REQUEST_METHOD": "GET"}, "http://a.example", ""),
    ({H: "http://p:1", "REQUEST_METHOD": "GET"}, "http://a.example", "p:1 http_proxy"),
    ({"ALL_PROXY": "http://q:1"}, "http://a.example", "q:1 ALL_PROXY"),
    *(({A: "http://q:1"}, f"http://{host}", "") for host in ("localhost:3", "127.0.0.9", "[::1]:3")),
    *(
        ({A: "http://q:1", N: names}, "http://a.example:8080", "")
        for names in ("*", "a.example", ".example", "*.example", "x, A.EXAMPLE.", "x a.example:8080")
    ),
    *(
        ({A: "http://q:1", N: names}, "http://a.example:8080", "q:1 all_proxy")
        for names in ("", "b.example", "ample", "xa.example", "a.example:80", "10.0.0.0/8", ",")
    ),
    *(
        ({A: "http://q:1", "NO_PROXY": names}, "http://10.1.2.3", "")
        for names in ("10.1.2.3", "10.0.0.0/8", "10.1.2.3:80")
    ),
    ({A: "http://q:1", N: "10.0.0.0/8"}, "http://11.1.2.3", "q:1 all_proxy"),
    *(({A: "http://q:1", N: name}, "http://[fd00::1]", "") for name in ("fd00::1", "[fd00::1]", "fd00::/8")),
)


@pytest.mark.parametrize(("environ", "url", "chosen"), CHOICES)
def test_the_proxy_to_a_server(environ: dict[str, str], url: str, chosen: str) -> None:
    parts = urlsplit(url)
    is_tls = parts.scheme == "https"
    port = parts.port or (443 if is_tls else 80)
    found = proxy_for(UpstreamSettings(), parts.hostname or "", port, is_tls=is_tls, environ=environ)
    assert (f"{found.host}:{found.port} {found.source}" if found else "") == chosen


def test_an_option_says_more_than_the_environment() -> None:
    environ = {A: "http://q:1", N: "*"}
    named = proxy_for(UpstreamSettings(proxy="http://p:1"), "localhost", 80, is_tls=False, environ=environ)
    assert named is not None
    assert named.name == "the proxy http://p:1 of --proxy"
    none = UpstreamSettings(proxy="none")
    assert proxy_for(none, "a.example", 80, is_tls=False, environ={A: "http://q:1"}) is None


@pytest.mark.parametrize("name", [name for name in ALL if name != "http"])
def test_a_command_on_stdio_has_no_proxy(mcpproxy: Mcpproxy, tmp_path: Path, name: str) -> None:
    before = ("--stdio",) if name == "bridge" else ()
    named = ("--proxy", "http://127.0.0.1:1", "--", "true")
    refused = mcpproxy(*ALL[name], *before, *recorded(name, tmp_path), *named)
    assert refused.code == 2
    assert "--proxy: goes together with a URL; leave it out" in refused.err


@pytest.mark.parametrize("name", ["validate", "replay client", "fuzz", "pin"])
def test_a_command_that_is_sent_elsewhere_says_where(mcpproxy: Mcpproxy, tmp_path: Path, name: str) -> None:
    def move(http: Answering, said: Any) -> None:
        http.send_response(301)
        http.send_header("Location", "/other/mcp")
        http.send_header("Content-Length", "0")
        http.end_headers()

    session = [*HELLO, (C, ask(1, "tools/list")), (S, give(1, **TOOLS))]
    path = str(trace(tmp_path / "r.jsonl", session))
    given = [path] if name in ("replay client", "fuzz") else []
    given += [f"--trace={tmp_path / 'v.jsonl'}"] if name == "validate" else []
    with Server(move).running() as server:
        moved = mcpproxy(*ALL[name], *given, server.url)
    assert moved.code == 2
    assert f"HTTP status 301 to http://127.0.0.1:{server.port}/other/mcp; try that URL" in moved.err


def untrusted(settings: UpstreamSettings) -> str:
    """What is said of a certificate whose CA is not trusted."""
    fault = ssl.SSLCertVerificationError(1, "certificate verify failed")
    fault.verify_code, fault.verify_message = 20, "unable to get local issuer certificate"
    return tls_reason(fault, settings)


def test_what_is_said_of_an_unknown_ca_fits_what_was_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    assert "; name its CA with --ca FILE or SSL_CERT_FILE; --insecure" in untrusted(UpstreamSettings())
    assert "; its CA is none of those in --ca own.pem; " in untrusted(UpstreamSettings(ca="own.pem"))
    named = tmp_path / "own.pem"
    monkeypatch.setenv("SSL_CERT_FILE", str(named))
    missing = f"; SSL_CERT_FILE={named} does not exist; name its CA there, or with --ca FILE; "
    assert missing in untrusted(UpstreamSettings())
    named.touch()
    assert "; name its CA with --ca FILE or SSL_CERT_FILE; --insecure" in untrusted(UpstreamSettings())


def test_a_proxy_that_knows_401_alone_does_not_accept_the_credentials() -> None:
    given = HttpProxy("--proxy", "corp.example", 3128, b"dXNlcjp3cm9uZw==")
    assert given.refusal(401).endswith("does not accept the credentials that are there (401)")
    assert HttpProxy("--proxy", "corp.example", 3128, b"").refusal(401).endswith("(HTTP 401)")
