"""``mcpproxy http``: options, what is refused, what is said, and what the trace begins with."""

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from types import TracebackType

import pytest

from mcpproxy.cli.commands import http
from mcpproxy.cli.new_recording import start_payload
from mcpproxy.errors import McpProxyError
from mcpproxy.record.relay import journal
from tests.relay.hosts import DEADLINE_S, until_recorded
from tests.relay.http_peers import OK, Peer, Upstream, request
from tests.relay.test_http_tls import CERT, KEY

MCPPROXY = [sys.executable, "-m", "mcpproxy"]
URL = "http://127.0.0.1:1"

REFUSED: dict[str, tuple[list[str], str]] = {
    "nothing": ([], "one of URL and --forward"),
    "an empty URL": ([""], "one of URL and --forward"),
    "two URLs": ([URL, URL], "one of URL and --forward"),
    "both": ([URL, "--forward"], "one of URL and --forward"),
    "no scheme": (["127.0.0.1:3000/mcp"], "is not an http:// or https:// URL"),
    "a name for a scheme": (["localhost:3000"], "is not an http:// or https:// URL"),
    "other scheme": (["ftp://a"], "is not an http:// or https:// URL; perhaps http://a"),
    "no host": (["http:///mcp"], "is not an http:// or https:// URL"),
    "wild port": (["http://a:99999"], "is not a URL"),
    "port that is no number": (["http://a:b"], "is not a URL"),
    "user": (["http://u:p@a/"], "holds a user"),
    "fragment": (["http://a/#b"], "fragment"),
    "space": (["http://a/b c"], "characters"),
    "unknown option": ([URL, "--lsten", "127.0.0.1:1"], "unknown option --lsten; did you mean --listen? see"),
    "abbreviated option": ([URL, "--insec"], "unknown option --insec; did you mean --insecure?"),
    "listen without port": ([URL, "--listen", "127.0.0.1"], "is not HOST:PORT"),
    "listen without host": ([URL, "--listen", ":80"], "is not HOST:PORT"),
    "listen on a wild port": ([URL, "--listen", "a:65536"], "is not HOST:PORT"),
    "listen on a port of many digits": ([URL, "--listen", f"a:{'1' * 5000}"], "is not HOST:PORT"),
    "listen on bare IPv6": ([URL, "--listen", "::1:80"], "is not HOST:PORT"),
    "admin without port": ([URL, "--admin", "9100"], "--admin 9100 is not HOST:PORT"),
    "endpoint that is no path": ([URL, "--endpoint", "mcp"], "is not a path"),
    "endpoint with a query": ([URL, "--endpoint", "/mcp?a"], "is not a path"),
    "two places": ([URL, "--trace", "a", "--trace-dir", "b"], "both say where"),
    "key without certificate": ([URL, "--key", "k"], "--key needs --cert"),
    "hosts without forward mode": ([URL, "--allow-host", "a"], "is for --forward"),
    "rewriting in forward mode": (["--forward", "--rewrite-origin"], "not for --forward"),
    "unknown mode": ([URL, "--live", "loud"], "--live loud is not known"),
}


@pytest.mark.parametrize(
    ("url", "path", "query"),
    [
        ("http://a", "", ""),
        ("http://a/", "", ""),
        ("http://a/mcp", "/mcp", ""),
        ("http://a/mcp?key=1", "/mcp", "key=1"),
        ("http://a/?key=1", "/", "key=1"),
        ("http://a?key=1", "/", "key=1"),
    ],
)
def test_path_and_query_of_upstream(url: str, path: str, query: str) -> None:
    upstream = http.parse([url]).upstream
    assert upstream is not None
    assert (upstream.path, upstream.query) == (path, query)


@pytest.mark.parametrize(("argv", "fact"), REFUSED.values(), ids=REFUSED)
def test_refused(argv: list[str], fact: str) -> None:
    with pytest.raises(McpProxyError, match=r"^http: ") as refusal:
        assert http.parse(argv).upstream
    assert fact in str(refusal.value)
    assert "; " in str(refusal.value)  # the next step


def refused(*argv: str) -> str:
    """What the command says instead of starting."""
    done = subprocess.run([*MCPPROXY, "http", *argv], capture_output=True, text=True, timeout=DEADLINE_S)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    return done.stderr


def test_a_port_that_is_taken(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        where = f"127.0.0.1:{taken.getsockname()[1]}"
        said = refused(URL, "--listen", where, "--trace-dir", str(tmp_path))
    assert said.startswith(f"mcpproxy: {where}: the port is taken; ")
    assert list(tmp_path.iterdir()) == []


def test_a_url_that_cannot_be_used_leaves_nothing_behind(tmp_path: Path) -> None:
    """The proxy listens before it reads the URL."""
    options = http.parse(["http://a:b", "--listen", "127.0.0.1:0", "--trace-dir", str(tmp_path)])
    opened: list[socket.socket] = []

    def listen(host: str, port: int) -> socket.socket:
        opened.append(listener(host, port))
        return opened[0]

    listener = http.open_listener
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(http, "open_listener", listen)
        with pytest.raises(McpProxyError, match=r"^http: http://a:b is not a URL "):
            http.prepare(options)
    assert opened[0].fileno() == -1
    said = refused("http://a:b", "--listen", "127.0.0.1:0", "--trace-dir", str(tmp_path))
    assert said.startswith("mcpproxy: http: http://a:b is not a URL (")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("argv", [[URL, "--quiet"], ["--quiet", URL], ["--quiet", "--", URL]])
def test_the_url_may_stand_before_and_after_options(argv: list[str]) -> None:
    options = http.parse(argv)
    assert (options.url, options.recording.is_quiet) == (URL, True)


def test_an_address_that_is_not_ours(tmp_path: Path) -> None:
    said = refused(URL, "--listen", "192.0.2.1:0", "--trace-dir", str(tmp_path))
    assert said.startswith("mcpproxy: 192.0.2.1:0: cannot listen there (")


@pytest.mark.parametrize(
    ("cert", "key"), [("/nowhere.pem", KEY), (CERT, "/nowhere.key"), (KEY, KEY), (CERT, CERT), (__file__, "")]
)
def test_a_certificate_that_cannot_be_used(cert: str, key: str, tmp_path: Path) -> None:
    options = ["--listen", "127.0.0.1:0", "--trace-dir", str(tmp_path), "--cert", cert]
    said = refused(URL, *options, *(["--key", key] if key else []))
    assert said.startswith(f"mcpproxy: {cert}: cannot be used as certificate (")


def test_a_place_that_cannot_be_recorded_to(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    said = refused(URL, "--listen", "127.0.0.1:0", "--trace-dir", str(tmp_path / "file" / "x"))
    assert said.startswith(f"mcpproxy: {tmp_path}/file/x: cannot be written (")


class Command:
    """``mcpproxy http`` with what it says, until it is stopped."""

    def __init__(self, *options: str) -> None:
        self.process = subprocess.Popen(
            [*MCPPROXY, "http", "--listen", "127.0.0.1:0", *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.getcwd()},
        )

    def __enter__(self) -> "Command":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.communicate()

    def said(self) -> str:
        """The next line on stderr."""
        assert self.process.stderr is not None
        return self.process.stderr.readline().decode()

    def stop(self) -> tuple[bytes, bytes]:
        """The rest of stdout and stderr."""
        self.process.send_signal(signal.SIGINT)
        out, errors = self.process.communicate(timeout=DEADLINE_S)
        assert self.process.returncode == 0
        return out, errors


def port_of(greeting: str) -> int:
    return int(greeting.partition("127.0.0.1:")[2].partition("/")[0].partition(" ")[0])


def test_a_session(upstream: Upstream, tmp_path: Path) -> None:
    trace = tmp_path / "t.jsonl"
    options = ("--trace", str(trace), "--label", "x", "--live", "off")
    with Command(upstream.origin + "/api", *options) as command:
        greeting = command.said()
        port = port_of(greeting)
        assert greeting == f"mcpproxy: listening on http://127.0.0.1:{port}/mcp -> {upstream.origin}/api\n"
        assert command.said() == f"mcpproxy: recording to {trace}\n"
        client = Peer(socket.create_connection(("127.0.0.1", port)))
        client.send(request(b"{}"))
        server = upstream.accept()
        assert server.read_head().startswith(b"POST /api HTTP/1.1\r\n")
        server.send(OK)
        assert client.read(len(OK)) == OK
        client.close()
        out, _ = command.stop()
    assert out == b""
    until_recorded(trace)
    assert trace.stat().st_mode & 0o777 == 0o600
    header = json.loads(trace.read_bytes().partition(b"\n")[0])
    assert (header["type"], header["transport"], header["label"]) == ("header", "http", "x")


def test_what_the_journal_begins_with(tmp_path: Path) -> None:
    options = http.parse(["https://a.example/api?key=secret", "--keep-credentials"])
    options.admin = "127.0.0.1:9"
    start = json.loads(start_payload("srv", 5, http.start_members(options, "127.0.0.1:8765")))
    assert start == start | {
        "transport": "http",
        "mode": "reverse",
        "listen": "http://127.0.0.1:8765",
        "endpoint": "/mcp",
        "upstream": "https://a.example/api",
        "keep_credentials": True,
        "admin": "127.0.0.1:9",
        "label": "srv",
        "started_ns": 5,
    }
    start = json.loads(
        start_payload("srv", 5, http.start_members(http.parse(["--forward"]), "127.0.0.1:8765"))
    )
    assert (start["mode"], start["upstream"], start["admin"]) == ("forward", "", None)


def test_it_listens_without_slow_imports() -> None:
    """A host may wait for the proxy. Together these take as long as everything that it needs itself."""
    script = (
        "import sys\n"
        "from mcpproxy.cli.commands import http\n"
        "options = http.parse(['http://127.0.0.1:9/mcp', '--listen', '127.0.0.1:0', '--quiet'])\n"
        "sys.addaudithook(lambda event, _: event == 'socket.bind' and print(*sys.modules))\n"
        "http.prepare(options)[1].close()\n"
        "print(*sys.modules)\n"
    )
    shown = subprocess.run([sys.executable, "-S", "-c", script], capture_output=True, text=True, timeout=60)
    when_listening, imported = (set(line.split()) for line in shown.stdout.splitlines())
    # Clients that connect during these imports wait in the backlog.
    late = {
        "mcpproxy.record.relay.http.proxy",
        "mcpproxy.record.relay.http.request_head",
        "mcpproxy.record.relay.http.rewrite",
    }
    assert late <= imported - when_listening
    assert {"argparse", "enum", "re", "socket", "urllib.parse"} & when_listening == set()
    slow = {"typing", "dataclasses", "inspect", "encodings.idna", "orjson", "mcpproxy.judge.session.frame"}
    assert {"argparse", *slow} & imported == set()


def test_warnings(tmp_path: Path) -> None:
    options = ("--insecure", "--trace-dir", str(tmp_path), "--listen", "0.0.0.0:0")
    with Command("https://127.0.0.1:1", *options) as command:
        assert command.said().startswith("mcpproxy: listening on http://0.0.0.0:")
        assert command.said().startswith("mcpproxy: warning: 0.0.0.0 is more than this machine: ")
        assert command.said().startswith("mcpproxy: WARNING: --insecure: ")
        command.stop()


@pytest.mark.parametrize("where", ["0.0.0.0:0", "[::]:0"])
def test_metrics_for_everybody_are_warned_of(tmp_path: Path, where: str) -> None:
    with Command(URL, "--admin", where, "--trace-dir", str(tmp_path)) as command:
        assert command.said().startswith("mcpproxy: listening on ")
        host = where.removesuffix(":0").strip("[]")
        assert command.said().startswith(f"mcpproxy: warning: --admin {host}: whoever reaches it reads ")
        command.stop()


def test_a_proxy_that_browsers_can_reach_is_warned_of(tmp_path: Path) -> None:
    with Command(URL, "--allow-origin", "*", "--trace-dir", str(tmp_path)) as command:
        assert command.said().startswith("mcpproxy: listening on ")
        assert command.said().startswith("mcpproxy: warning: --allow-origin *: ")
        command.stop()


def test_an_open_relay_is_warned_of(tmp_path: Path) -> None:
    with Command("--forward", "--allow-host", "*", "--trace-dir", str(tmp_path)) as command:
        assert "as a forward proxy" in command.said()
        assert command.said().startswith("mcpproxy: WARNING: --allow-host *: ")
        command.stop()


def test_quiet_says_nothing(tmp_path: Path) -> None:
    trace = tmp_path / "t.jsonl"
    with Command(URL, "--quiet", "--trace", str(trace)) as command:
        while not Path(journal.folder(str(trace)), "lock").exists():  # the recorder is there
            assert command.process.poll() is None
        _, errors = command.stop()
    assert errors == b""


def test_help_names_every_option() -> None:
    shown = subprocess.run(
        [*MCPPROXY, "http", "--help"], capture_output=True, text=True, timeout=DEADLINE_S
    ).stdout
    for option in (
        *("--listen", "--endpoint", "--trace", "--trace-dir", "--label", "--live", "--quiet"),
        *("--allow-origin", "--insecure", "--cert", "--key", "--forward", "--allow-host", "--rewrite-origin"),
        *("--keep-credentials", "--admin"),
    ):
        assert f"  {option}" in shown
