"""How a server over HTTP is reached: the options that every command has that connects to one."""

import asyncio
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from mcpproxy.base.upstream.settings import UpstreamSettings
from mcpproxy.cli.main import main
from mcpproxy.cli.upstream_options import arguments
from mcpproxy.ui.send import CallSender, recorded_call
from mcpproxy.view.view import open_view
from tests.bridge.ends import Host, complete
from tests.cli.conftest import Mcpproxy
from tests.cli.conftest import mcpproxy as mcpproxy
from tests.relay.test_http_tls import CERT, CLIENT, KEY, server_context
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
