"""Text that would act on a terminal or forge a line, and the admin port."""

import json
import socket
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from mcpproxy.base.visible import visible
from tests.attacks.folders import Scene
from tests.attacks.proxied import Origin, Proxied, message
from tests.attacks.stage import DEADLINE_S, Done, Stage, Table, hold
from tests.cli import recordings
from tests.cli.recordings import HANDSHAKE, close, frame
from tests.cli.test_hostile_text import HOSTILE, traces
from tests.peers.ports import free_port

TABLE: Final = Table()

IDLE: Final = 300


def _harmless(text: str, where: str) -> None:
    for line in text.split("\n"):
        hold(visible(line) == line, f"{where}: raw {ascii(line)[:60]}")
        forged = line.startswith(("::error::forged", "##[error]", "mcpproxy: forged"))
        hold(not forged, f"{where}: a forged line")


def _told(done: Done, where: str, awaited: str = "evil") -> None:
    hold(awaited in done.out + done.err, f"{where} does not show it: {(done.out + done.err)[:80]!r}")
    _harmless(done.out, where)
    _harmless(done.err, f"{where} on stderr")


@TABLE
def recorded_fields_in_show(stage: Stage) -> str:
    """show: started_at and recorded findings with control, escape and bidirectional characters."""
    scene = Scene(stage.folder)
    header = json.dumps(json.loads(recordings.HEADER) | {"started_at": HOSTILE}, separators=(",", ":"))
    found = recordings.finding("PROTO-007", 2, HOSTILE)
    recordings.write(scene.trace, (header, *HANDSHAKE[1:], close(2, 1)))
    recordings.write(scene.folder / "b.jsonl", (*HANDSHAKE, found, close(2, 1, errors=1)))
    for name in ("a", "b"):
        done = stage.run("show", f"f/{name}.jsonl")
        hold(done.out, f"show says nothing: {done.err[:80]!r}")
        _harmless(done.out + done.err, "show")
    _harmless(stage.run("list", "f").out, "list")
    return "nothing raw"


def _conversation(path: Path, text: str) -> None:
    """A call whose result names and holds ``text``, under a schema that it does not fit."""
    named = json.dumps(text)
    schema = f'{{"type":"object","properties":{{{named}:{{"type":"integer"}}}}}}'
    tool = f'{{"name":"t","inputSchema":{{"type":"object"}},"outputSchema":{schema}}}'
    said = (
        ("client", '{"jsonrpc":"2.0","id":2,"method":"tools/list"}'),
        ("server", f'{{"jsonrpc":"2.0","id":2,"result":{{"tools":[{tool}]}}}}'),
        ("client", '{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"t","arguments":{}}}'),
        (
            "server",
            f'{{"jsonrpc":"2.0","id":3,"result":{{"content":[],"structuredContent":{{{named}:{named}}}}}}}',
        ),
    )
    frames = [frame(seq, sender, content) for seq, (sender, content) in enumerate(said, start=4)]
    recordings.write(path, (*HANDSHAKE, *frames, close(4, 3)))


@TABLE
def reasons_of_diff(stage: Stage) -> str:
    """diff: names and values of what differs."""
    scene = Scene(stage.folder)
    _conversation(scene.trace, HOSTILE)
    _conversation(scene.folder / "b.jsonl", "plain")
    for one, other in (("a", "b"), ("b", "a")):
        _told(stage.run("diff", f"f/{one}.jsonl", f"f/{other}.jsonl"), "diff")
    return "nothing raw"


@TABLE
def reasons_of_replay(stage: Stage) -> str:
    """replay: names and values of what differs, or was not asked then."""
    scene = Scene(stage.folder)
    _conversation(scene.trace, HOSTILE)
    _conversation(scene.folder / "b.jsonl", "plain")
    server = (stage.mcpproxy, "replay", "server", "f/b.jsonl")
    played = stage.run(
        "replay", "client", "--timeout", "20", "f/a.jsonl", "--", *server, doing="replay client"
    )
    _told(played, "replay client")
    asked = json.dumps({"jsonrpc": "2.0", "id": 1, "method": HOSTILE, "params": {HOSTILE: HOSTILE}})
    served = stage.run("replay", "server", "f/b.jsonl", stdin=asked.encode() + b"\n", doing="replay server")
    _harmless(served.err, "replay server")
    return "nothing raw"


@TABLE
def names_in_errors(stage: Stage) -> str:
    """Errors: a file name with such characters."""
    scene = Scene(stage.folder)
    name = HOSTILE.replace("/", "").replace("\0", "")
    (scene.folder / f"{name}.jsonl").write_text("[]\n")
    for arguments in (
        ("check", f"f/{name}.jsonl"),
        ("check", "f"),
        ("show", f"f/no{name}"),
        ("list", "f"),
        (name,),
    ):
        _told(stage.run(*arguments), arguments[0] if arguments[0] != name else "an unknown command")
    return "nothing raw"


@TABLE
def property_names_in_annotations(stage: Stage) -> str:
    """check --format github and junit: names of properties with such characters."""
    scene = Scene(stage.folder)
    _conversation(scene.trace, HOSTILE)
    for format in ("github", "junit", "text"):
        done = stage.run("check", "--format", format, "f/a.jsonl")
        hold("evil" in done.out, f"{format} does not show it: {done.out[:80]!r}")
        _harmless(done.out + done.err, f"check --format {format}")
    return "nothing raw"


@TABLE
def every_field_of_every_record(stage: Stage) -> str:
    """Such characters in every field of every record, through every report."""
    scene = Scene(stage.folder)
    count = len([*traces(scene.folder)])
    for format in ("text", "json", "sarif", "junit", "github"):
        done = stage.run("check", "--format", format, "f")
        _harmless(done.out + done.err, f"check --format {format}")
    for command in ("versions", "list"):
        done = stage.run(command, "f")
        _harmless(done.out + done.err, command)
    for trace in sorted(scene.folder.iterdir())[:8]:
        done = stage.run("show", "--full", str(trace))
        _harmless(done.out + done.err, "show --full")
    return f"nothing raw of {count} traces"


def _asked(port: int, host: str, path: str = "/healthz") -> bytes:
    with socket.create_connection(("127.0.0.1", port), DEADLINE_S) as connection:
        connection.settimeout(DEADLINE_S)
        connection.sendall(f"GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
        try:
            return message(connection)
        except OSError:
            return b""


def _until_up(stage: Stage, port: int) -> None:
    for _ in stage.looks("the admin port"):
        try:
            socket.create_connection(("127.0.0.1", port), DEADLINE_S).close()
        except ConnectionRefusedError:
            continue
        return


@TABLE
def admin_host(stage: Stage) -> str:
    """The admin port on loopback: a foreign Host is refused."""
    port = free_port()
    with Origin() as origin, Proxied(stage, origin, "--admin", f"127.0.0.1:{port}"):
        _until_up(stage, port)
        own, foreign = (_asked(port, host, "/metrics") for host in (f"127.0.0.1:{port}", "evil.example"))
        hold(b"200 OK" in own, f"it does not answer: {own[:60]!r}")
        hold(b" 403 " in foreign.splitlines()[0], f"evil.example gets {foreign.splitlines()[0].decode()}")
    return "403"


@TABLE
def admin_for_everybody(stage: Stage) -> str:
    """--admin 0.0.0.0: a warning says who can read it."""
    with Origin() as origin, Proxied(stage, origin, "--admin", f"0.0.0.0:{free_port()}") as proxied:
        proxied.ask("GET", "/x")
        proxied.stop()
        hold("warning: --admin 0.0.0.0" in proxied.said, "no word")
    return "a warning"


def _has_ended(connection: socket.socket) -> bool:
    connection.setblocking(False)
    try:
        return connection.recv(1) == b""
    except BlockingIOError:
        return False
    except ConnectionResetError:
        return True


@TABLE
def admin_connections(stage: Stage) -> str:
    """300 idle connections to the admin port: /healthz answers, and the idle are bounded."""
    port = free_port()
    with Origin() as origin, Proxied(stage, origin, "--admin", f"127.0.0.1:{port}"), ExitStack() as stack:
        _until_up(stage, port)
        idle = [
            stack.enter_context(socket.create_connection(("127.0.0.1", port), DEADLINE_S))
            for _ in range(IDLE)
        ]
        for half in idle[::2]:
            half.sendall(b"GET /healthz HTTP/1.1\r\nHost: loc")
        answer = _asked(port, f"127.0.0.1:{port}")
        hold(b"200 OK" in answer, "/healthz does not answer within 5 s")
        ended = 0
        for _ in stage.looks("the end of idle connections"):
            ended = sum(_has_ended(one) for one in idle)
            if ended > IDLE / 2:
                break
    return f"answered; {ended} of {IDLE} idle ones ended"
