"""``mcpproxy validate`` as users call it: what it prints, and its three exit codes."""

import json
import os
import pty
import re
import signal
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from mcpproxy.cli.main import main
from mcpproxy.peers.validate.outcome import CATEGORIES
from tests.peers.web_server import WebServer
from tests.relay.test_http_tls import server_context
from tests.validate.trial import ROOT, command, rules, target

TERMINAL = {**os.environ, "TERM": "xterm", "COLUMNS": "100"}
ENV = [f"--env={name}={value}" for name, value in target().env.items()]


class Outcome:
    """What the command left behind."""

    def __init__(self, capsys: pytest.CaptureFixture[str], *argv: str) -> None:
        self.code = main(["validate", *argv])
        self.out, self.err = capsys.readouterr()


def against(capsys: pytest.CaptureFixture[str], flaw: str, folder: Path, *argv: str) -> Outcome:
    fixed = (*ENV, f"--trace={folder / 'x.jsonl'}", "--revision=2025-11-25")
    return Outcome(capsys, *fixed, *argv, "--", *command(flaw))


def listed(status: str, category: str, name: str) -> str:
    """How the line of a check begins with ``-v``."""
    return f"  {status:<6}{category:<12}{name}: "


def test_a_valid_server(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    outcome = against(capsys, "", tmp_path, "--only=ping,unknown-method")
    assert outcome.code == 0
    assert outcome.err == ""
    head, marks, blank, summary = outcome.out.splitlines()
    assert head.startswith("scripted 1.0  ")
    assert marks.partition("2025-11-25 on stdio  ")[2].strip(".") == ""
    assert blank == ""
    count = marks.count(".")
    assert re.fullmatch(rf"valid: {count} passed in [\d.]+ m?s", summary)


@pytest.mark.parametrize("option", ["-v", "--verbose", "--all"])
def test_every_check_can_be_listed(capsys: pytest.CaptureFixture[str], tmp_path: Path, option: str) -> None:
    outcome = against(capsys, "traceback-on-stdout", tmp_path, "--only=ping,stdout", option)
    lines = outcome.out.splitlines()
    assert lines[1:3] == ["", "2025-11-25 on stdio"]
    assert f"{listed('ok', 'lifecycle', 'ping')}answered" in lines
    assert listed("FAIL", "transport", "stdout") in outcome.out
    assert lines.index("FAIL  stdout: " + outcome.out.partition("\nFAIL  stdout: ")[2].splitlines()[0]) > 5


def test_an_invalid_server(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    outcome = against(capsys, "traceback-on-stdout", tmp_path, "--only=stdout")
    assert outcome.code == 1
    assert "F" in outcome.out.splitlines()[1].partition("  ")[2]
    cause, sentence, source, where, *rest = outcome.out.partition("\nFAIL  stdout: ")[2].splitlines()
    assert "Traceback (most recent call last)" in cause
    requirement = rules().catalogue.rules["STDIO-002"].requirements[0]
    assert sentence == f"      {requirement.text}"
    assert source.startswith(
        "      https://modelcontextprotocol.io/specification/2025-11-25/basic/transports"
    )
    shown = re.fullmatch(r" {6}frames? (\d+)[\d, ]* of x\.stdout; mcpproxy explain STDIO-002", where)
    assert shown is not None
    blank, messages, summary = rest
    assert (blank, messages) == (
        "",
        f"The messages: mcpproxy show {tmp_path / 'x.stdout.jsonl'} --frames {shown[1]}",
    )
    assert summary.startswith("invalid: 1 failed, ")
    assert outcome.out.count(str(tmp_path)) == 1
    assert main(messages.partition("mcpproxy ")[2].split()) == 0
    assert "Traceback" in capsys.readouterr().out


@pytest.mark.parametrize("option", ["-q", "--quiet", "--failed"])
def test_nothing_but_what_failed(capsys: pytest.CaptureFixture[str], tmp_path: Path, option: str) -> None:
    outcome = against(capsys, "traceback-on-stdout", tmp_path, "--only=ping,stdout", option)
    lines = outcome.out.splitlines()
    assert lines[0].startswith("FAIL  stdout: ")
    assert lines[-1].startswith("invalid: 1 failed, ")
    good = against(capsys, "", tmp_path, "--only=ping,stdout", option).out.splitlines()
    assert [line.partition(":")[0] for line in good] == ["valid"]


def test_warnings_come_before_failures(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    only = "--only=ping,unknown-tool"
    mild = against(capsys, "tool-of-any-name", tmp_path, only).out.splitlines()
    told = [line.split()[0] for line in mild if re.match(r"\w+ +\S+: ", line)]
    assert told[:1] == ["warn"]
    assert mild[-1].startswith("valid: 1 warning, ")
    assert "warn" not in against(capsys, "tool-of-any-name", tmp_path, only, "-q").out.split()


def test_what_no_sentence_forbids_is_an_info(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    only = "--only=stdin-eof"
    outcome = against(capsys, "exit-code-three", tmp_path, only, "--strict")
    said = outcome.out.splitlines()
    assert outcome.code == 0
    assert [line.split()[0] for line in said if "with exit code 3" in line] == ["info"]
    assert " 1 info, " in said[-1]
    assert "info" not in against(capsys, "exit-code-three", tmp_path, only, "-q").out.split()
    report = json.loads(against(capsys, "exit-code-three", tmp_path, only, "--format=json").out)
    assert (report["infos"], report["warnings"], report["verdict"]) == (1, 0, "valid")


def test_a_fault_in_two_revisions_is_told_once(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    outcome = Outcome(
        capsys,
        *ENV,
        f"--trace={tmp_path / 'x.jsonl'}",
        "--only=ping,unknown-tool",
        "--",
        *command("tool-of-any-name"),
    )
    told = [line for line in outcome.out.splitlines() if line.startswith("warn  unknown-tool")]
    assert len(told) == 1, outcome.out
    assert told[0].startswith("warn  unknown-tool (2026-07-28, 2025-11-25): ")


def test_warnings_count_if_one_is_strict(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert against(capsys, "tool-of-any-name", tmp_path, "--only=unknown-tool").code == 0
    assert against(capsys, "tool-of-any-name", tmp_path, "--only=unknown-tool", "--strict").code == 1


def test_what_programs_read(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    outcome = against(capsys, "odd-parse-error", tmp_path, "--only=jsonrpc", "--format=json")
    report = json.loads(outcome.out)
    assert report["server"] == {"name": "scripted", "version": "1.0"}
    found = {check["name"]: check for check in report["checks"]}
    assert found["malformed-json"]["status"] == "warning"
    assert found["malformed-json"]["category"] == "jsonrpc"
    assert len(found["malformed-json"]["frames"]) == 2
    assert found["malformed-json"]["duration_ms"] > 0
    assert report["warnings"] == 1
    assert report["failed"] == 0
    assert report["passed"] == sum(check["status"] == "passed" for check in report["checks"])
    assert {check["category"] for check in report["checks"]} <= set(CATEGORIES)


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        ((), "one of -- COMMAND and URL is needed"),
        (("--", "/nowhere/no-such-server"), "/nowhere/no-such-server: no such command; "),
        (("--only=pimg", "--", "x"), "did you mean ping?"),
        (("--skip=nothing-like-it", "--", "x"), "neither a category nor a check"),
        (("--header=A: b", "--", "x"), "goes together with a URL"),
        (("--header=Bearer s3cr3t", "http://127.0.0.1:1/mcp"), "has not the form 'Name: value'"),
        (("--header=Bearer s3cr3t: x", "http://127.0.0.1:1/mcp"), "has not the form 'Name: value'"),
        (("--env=s3cr3t", "--", "x"), "has not the form NAME=VALUE"),
        (("--env=A=b", "http://127.0.0.1:1/mcp"), "goes together with -- COMMAND"),
        (("--timeout=never", "--", "x"), "is not a number of seconds"),
        (("--call=add=[1]", "--", "x"), "is not a tool with arguments"),
        (("--call=add", "--", "x"), "is not a tool with arguments as JSON, such as 'add={}'"),
        (("server.py",), "put -- before a command"),
    ],
    ids=str,
)
def test_what_cannot_be_run(
    argv: tuple[str, ...],
    says: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    outcome = Outcome(capsys, *argv)
    assert outcome.code == 2
    assert outcome.out == ""
    assert outcome.err.startswith("mcpproxy: ")
    assert says in outcome.err
    assert "s3cr3t" not in outcome.err
    assert outcome.err.count("\n") == 1


def test_a_recording_that_cannot_be_written(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    outcome = against(capsys, "", tmp_path / "file")
    assert outcome.code == 2
    assert "name another file with --trace" in outcome.err


def test_a_named_tool_is_called_whatever_it_declares(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    outcome = against(capsys, "", tmp_path, "-v", "--only=call-tools", '--call=add={"a": 1, "b": 2}')
    assert f"{listed('ok', 'tools', 'call-tools')}called add, greet" in outcome.out
    sums = [f'--call=add={{"a": 1, "b": {b}}}' for b in range(5)]
    outcome = against(capsys, "", tmp_path, "-v", "--only=call-tools", *sums)
    assert f"{listed('ok', 'tools', 'call-tools')}called {'add, ' * 5}greet" in outcome.out
    outcome = against(capsys, "", tmp_path, "-v", "--only=call-tools")
    assert f"{listed('ok', 'tools', 'call-tools')}called greet\n" in outcome.out
    outcome = against(
        capsys, "", tmp_path, "-v", "--only=call-tools", '--call=greet={"name": 5}', '--call=add={"a": 1}'
    )
    assert f"{listed('ok', 'tools', 'call-tools')}called add; greet failed (isError)\n" in outcome.out


def test_a_tool_that_fails_with_made_up_arguments_was_not_tried(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    only = ("-v", "--only=call-tools")
    outcome = against(capsys, "tool-that-always-fails", tmp_path, *only)
    why = "with made-up arguments greet failed (isError); name arguments with --call greet=JSON"
    assert f"{listed('skip', 'tools', 'call-tools')}{why}\n" in outcome.out
    outcome = against(capsys, "tool-that-always-fails", tmp_path, *only, '--call=greet={"name": "Ada"}')
    assert f"{listed('ok', 'tools', 'call-tools')}greet failed (isError)\n" in outcome.out


def test_a_rule_that_pins_turn_on_has_its_name(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    pins = str(tmp_path / "pins.json")
    assert main(["pin", "-o", pins, "--", *command()]) == 0
    outcome = against(capsys, "another-description", tmp_path, "--only=list-tools", f"--pins={pins}")
    name = rules().catalogue.rules["PIN-001"].name
    assert f'\nFAIL  PIN-001 {name}: server has changed the description of tool "greet"' in outcome.out


def test_without_a_session_the_reason_is_told_once(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    outcome = against(capsys, "hanging", tmp_path, "--timeout=1", "--start-timeout=1", "-v")
    assert outcome.code == 1
    lines = outcome.out.splitlines()
    handshake = next(place for place, line in enumerate(lines) if " handshake: no answer to" in line)
    why = "there is no session: no answer to initialize within 1 s"
    assert lines[handshake + 1] == f"  skip  lifecycle   ping and all after it: {why}"
    assert [line for line in lines if line.startswith("  skip")] == [lines[handshake + 1]]
    assert re.fullmatch(r"invalid: \d failed, \d+ passed, \d+ skipped in \S+ s", lines[-1])


def test_a_tool_that_is_not_there_is_not_called(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    outcome = against(capsys, "", tmp_path, "-v", "--only=call-tools", "--call=ad={}")
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err == "mcpproxy: --call: the server has no tool 'ad'; did you mean add?\n"


def test_a_fault_of_ours_is_one_sentence_and_exit_code_2(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mcpproxy.peers.validate.probes.jsonrpc.reaction", None)
    outcome = against(capsys, "", tmp_path, "--only=ping,malformed-json,unknown-method", "-v")
    assert outcome.code == 2
    assert f"{listed('ok', 'lifecycle', 'ping')}answered" in outcome.out
    assert f"{listed('ok', 'errors', 'unknown-method')}refused with -32601" in outcome.out
    assert "\nundecided: " in outcome.out
    assert outcome.err.startswith("mcpproxy: the check malformed-json failed in mcpproxy itself: TypeError: ")
    assert outcome.err.endswith("please report it\n")
    assert outcome.err.count("\n") == 1


def test_a_server_that_dies_is_one_sentence(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    outcome = against(capsys, "dies-at-start", tmp_path)
    assert (outcome.code, outcome.out) == (2, "")
    # It depends on the moment of its end whether the request can still be sent.
    reason = r": (no answer to initialize|the server is gone): it ended with exit code 3\n"
    assert re.search(f"{reason}$", outcome.err)
    assert outcome.err.count("\n") == 1


class _NotFound(BaseHTTPRequestHandler):
    """Says the same to everybody."""

    status = 404
    body = b""
    location = ""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.send_response(self.status)
        if self.location:
            self.send_header("Location", self.location)
        self.send_header("Content-Length", str(len(self.body)))
        self.end_headers()
        self.wfile.write(self.body)

    def do_GET(self) -> None:
        self.do_POST()

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing on stderr."""


@contextmanager
def serving(
    tls: ssl.SSLContext | None = None, *, status: int = 404, body: bytes = b"", location: str = ""
) -> Generator[int]:
    """A web server without MCP, in a thread; its port."""
    handler = type("_Handler", (_NotFound,), {"status": status, "body": body, "location": location})
    with WebServer(("127.0.0.1", 0), handler) as server:
        if tls is not None:
            server.socket = tls.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


def test_a_port_where_nobody_listens_is_one_sentence(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    outcome = Outcome(capsys, f"--trace={tmp_path / 'x.jsonl'}", f"http://127.0.0.1:{port}/mcp")
    assert (outcome.code, outcome.out) == (2, "")
    assert "cannot be reached: connection refused" in outcome.err
    assert outcome.err.count("\n") == 1


@pytest.mark.parametrize(
    ("is_tls", "scheme", "status", "says"),
    [
        (False, "http", 404, "HTTP status 404; no MCP server seems to be at this path"),
        (False, "http", 307, "HTTP status 307 without a Location; no MCP server seems to be at this path"),
        (False, "http", 401, "HTTP status 401; give credentials with --header"),
        (False, "http", 503, "HTTP status 503; try again later"),
        (False, "https", 404, "the port does not speak TLS; try http://127.0.0.1"),
        (True, "http", 404, "the port speaks TLS; try https://127.0.0.1"),
        (True, "https", 404, "its certificate is not trusted"),
    ],
)
def test_a_url_without_a_server_is_one_sentence(
    *,
    is_tls: bool,
    scheme: str,
    status: int,
    says: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    with serving(server_context() if is_tls else None, status=status) as port:
        url = f"{scheme}://127.0.0.1:{port}/mcp"
        skipped = ("--skip=oauth-metadata,invalid-token",)  # what they say of a 401 is a result
        outcome = Outcome(capsys, f"--trace={tmp_path / 'x.jsonl'}", *skipped, url)
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith(f"mcpproxy: {url}: ")
    assert says in outcome.err
    assert outcome.err.count("\n") == 1


@pytest.mark.parametrize(
    ("status", "location", "says"),
    [
        (301, "/mcp/", "301 to http://127.0.0.1:PORT/mcp/; try that URL"),
        (307, "http://b.example/mcp/", "307 to http://b.example/mcp/; try that URL"),
        (307, "", "307 without a Location; no MCP server seems to be at this path"),
        (308, "/mcp", "308 to the same URL; no MCP server seems to be at this path"),
    ],
)
def test_a_redirect_that_is_not_followed_says_which_url_to_try(
    status: int, location: str, says: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with serving(status=status, location=location) as port:
        outcome = Outcome(capsys, f"--trace={tmp_path / 'x.jsonl'}", f"http://127.0.0.1:{port}/mcp")
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.endswith(f"HTTP status {says.replace('PORT', str(port))}\n")


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_server_that_demands_a_client_certificate_is_one_sentence(
    version: ssl.TLSVersion, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    context = server_context()
    context.minimum_version = context.maximum_version = version
    context.verify_mode = ssl.CERT_REQUIRED
    with serving(context) as port:
        url = f"https://127.0.0.1:{port}/mcp"
        outcome = Outcome(capsys, "--insecure", f"--trace={tmp_path / 'x.jsonl'}", url)
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith(f"mcpproxy: {url}: it ")
    assert "demands a client certificate" in outcome.err
    assert outcome.err.count("\n") == 1


def test_a_login_page_in_place_of_an_answer_is_quoted(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with serving(status=200, body=b"<!DOCTYPE html><title>Sign in</title>") as port:
        url = f"http://127.0.0.1:{port}/mcp"
        outcome = Outcome(capsys, "--only=handshake", f"--trace={tmp_path / 'x.jsonl'}", url)
    text = "instead of an answer to initialize came something that is not a message"
    assert f"handshake: {text}: the frame is not JSON (Sign in)\n" in outcome.out


@pytest.mark.parametrize(
    ("title", "advice"),
    [
        ("400 No required SSL certificate was sent", "give one with --client-cert and --client-key"),
        ("400 The SSL certificate error", "perhaps it does not accept the certificate of --client-cert"),
    ],
)
def test_a_page_that_asks_for_a_client_certificate_is_one_sentence(
    title: str, advice: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    page = f"<html>\r\n<head><title>{title}</title></head>\r\n</html>\r\n".encode()
    with serving(status=400, body=page) as port:
        url = f"http://127.0.0.1:{port}/mcp"
        outcome = Outcome(capsys, f"--trace={tmp_path / 'x.jsonl'}", url)
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith(f"mcpproxy: {url}: no answer to initialize: HTTP status 400: ")
    assert outcome.err.endswith(f"; {advice}\n")
    assert outcome.err.count("\n") == 1


@contextmanager
def refusing_late(context: ssl.SSLContext) -> Generator[int]:
    """A server that sends the alert of a failed handshake and waits until the client leaves; its port.

    A server that closes at once may reset the connection before its alert is read.
    """
    listener = socket.create_server(("127.0.0.1", 0))

    def refuse() -> None:
        with suppress(OSError):  # shut down
            while True:
                connection, _ = listener.accept()
                with connection, suppress(OSError):
                    heard, said = ssl.MemoryBIO(), ssl.MemoryBIO()
                    tls = context.wrap_bio(heard, said, server_side=True)
                    while data := connection.recv(1 << 16):
                        heard.write(data)
                        with suppress(ssl.SSLError):  # more is awaited, or it has failed
                            tls.do_handshake()
                        connection.sendall(said.read())

    thread = threading.Thread(target=refuse)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()
        listener.close()


def test_an_alert_that_comes_as_the_answer_is_one_sentence(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    context = server_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_3  # the handshake of a client ends before the server's
    context.verify_mode = ssl.CERT_REQUIRED
    with refusing_late(context) as port:
        url = f"https://127.0.0.1:{port}/mcp"
        outcome = Outcome(capsys, "--insecure", f"--trace={tmp_path / 'x.jsonl'}", url)
    assert outcome.code == 2
    assert outcome.err.startswith(f"mcpproxy: {url}: it demands a client certificate")
    assert outcome.err.count("\n") == 1


@pytest.mark.parametrize(
    ("status", "page", "says"),
    [
        (404, b"Not Found", "404; no MCP server seems to be at this path"),
        (404, b'{"detail":"Not Found"}', "404; no MCP server seems to be at this path"),
        (401, b"no token", "401: no token; give credentials with --header"),
        (502, b"<html><title>502 Bad Gateway</title></html>", "502; try again later"),
        (308, b"moved", "308 without a Location: moved; no MCP server seems to be at this path"),
    ],
)
def test_a_page_of_a_status_is_no_server(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, status: int, page: bytes, says: str
) -> None:
    with serving(status=status, body=page) as port:
        outcome = Outcome(capsys, f"--trace={tmp_path / 'x.jsonl'}", f"http://127.0.0.1:{port}/wrong")
    assert (outcome.code, outcome.out) == (2, "")
    assert f"HTTP status {says}" in outcome.err
    assert outcome.err.count("\n") == 1


def test_an_interrupted_run_leaves_no_process(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    argv = [sys.executable, "-m", "mcpproxy", "validate", *ENV, f"--env=SCRIPTED_PIDS={pids}"]
    argv += ["--revision=2025-11-25", f"--trace={tmp_path / 'x.jsonl'}", "--timeout=60"]
    ready = str(tmp_path / "pids.ready")
    os.mkfifo(ready)
    run = subprocess.Popen(
        [*argv, "--", *command("announced-hang")], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    with open(ready, encoding="ascii") as announced:  # until the server is there
        assert announced.read() == "here\n"
    run.send_signal(signal.SIGTERM)
    out, err = run.communicate(timeout=60)
    assert run.returncode == 130
    assert out == b""  # It was not known whether there is a server.
    assert b"Traceback" not in err
    for pid in pids.read_text().split():
        with pytest.raises(ProcessLookupError):
            os.kill(int(pid), 0)


def test_checks_are_printed_as_they_end_and_stay_when_interrupted(tmp_path: Path) -> None:
    argv = [sys.executable, "-m", "mcpproxy", "validate", *ENV, "--revision=2025-11-25", "--timeout=60"]
    argv += [f"--trace={tmp_path / 'x.jsonl'}", "--only=ping,list-tools", "-v", "--"]
    argv += command("silent-tools")
    run = subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert run.stdout is not None
    lines: list[bytes] = []
    while b"ping: answered" not in (lines[-1] if lines else b""):
        lines.append(run.stdout.readline())
        assert lines[-1], lines
    run.send_signal(signal.SIGINT)
    out, err = run.communicate(timeout=60)
    assert run.returncode == 130
    assert out.splitlines()[-1].startswith(b"interrupted: 3 passed in ")
    assert err == b""


def test_a_terminal_sees_a_bar_and_then_the_marks(tmp_path: Path) -> None:
    main, terminal = pty.openpty()
    argv = [sys.executable, "-m", "mcpproxy", "validate", *ENV, "--revision=2025-11-25"]
    argv += [f"--trace={tmp_path / 'x.jsonl'}", "--only=ping,unknown-method", "--", *command()]
    with subprocess.Popen(argv, cwd=ROOT, stdout=terminal, stderr=terminal, env=TERMINAL) as run:
        os.close(terminal)
        seen = b""
        with suppress(OSError):  # the end of a terminal
            while data := os.read(main, 1 << 16):
                seen += data
    os.close(main)
    assert run.returncode == 0
    assert re.search(rb"\r\033\[K\[#* +\] \d+ of 4: ping", seen)
    lines = re.sub(rb"\033\[[0-9;]*m", b"", seen).replace(b"\r\n", b"\n").split(b"\n")
    assert re.fullmatch(rb".*\r\033\[K2025-11-25 on stdio  \.+", lines[-4])
    assert lines[-2].startswith(b"valid: ")


def test_what_there_is_when_interrupted_is_reported_to_programs_too(tmp_path: Path) -> None:
    ready = str(tmp_path / "pids.ready")
    os.mkfifo(ready)
    argv = [sys.executable, "-m", "mcpproxy", "validate", *ENV, f"--env=SCRIPTED_PIDS={tmp_path / 'pids'}"]
    argv += ["--revision=2025-11-25", f"--trace={tmp_path / 'x.jsonl'}", "--timeout=60", "--format=json"]
    run = subprocess.Popen(
        [*argv, "--", *command("announced-silence")], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    with open(ready, encoding="ascii") as announced:  # until the server was asked for its tools
        assert announced.read() == "here\n"
    run.send_signal(signal.SIGTERM)
    out, _ = run.communicate(timeout=60)
    assert run.returncode == 130
    report = json.loads(out)
    assert report["interrupted"]
    assert (report["verdict"], report["valid"]) == ("undecided", False)
    assert [check["name"] for check in report["checks"]] == ["connect", "handshake", "ping"]
