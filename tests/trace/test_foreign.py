"""Recordings of other tools: what is read, what is reported as missing, and that this is no finding."""

import base64
import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from mcpproxy.errors import TraceError
from mcpproxy.judge.session.frame import ExchangeEnd, Frame, Gap, RequestHead, ResponseHead, Stderr
from mcpproxy.peers.replay.recording import load
from mcpproxy.read.importers import detect
from mcpproxy.read.opening import open_trace
from tests.cli.conftest import Mcpproxy
from tests.cli.recordings import INITIALIZE, INITIALIZED, LIST_TOOLS, NO_TOOLS, READY

TALK = (
    ("client", INITIALIZE),
    ("server", INITIALIZED),
    ("client", READY),
    ("client", LIST_TOOLS),
    ("server", NO_TOOLS),
)


def mcp_rec(*talk: tuple[str, str], start: float = 1_790_000_000.25) -> str:
    arrows = {"client": "client->server", "server": "server->client"}
    written: list[str] = []
    for number, (sender, line) in enumerate(talk):
        try:
            message: Any = json.loads(line)
        except ValueError:
            message = {"_raw": line, "_unparsed": True}
        entry = {"ts": start + number / 8, "dir": arrows[sender], "msg": message}
        written.append(json.dumps(entry) + "\n")
    return "".join(written)


def envelope(seq: int, direction: str, said: str = "", **more: object) -> str:
    head: dict[str, object] = {
        "session_id": "weather-1-ab",
        "server_label": "weather",
        "seq": seq,
        "ts": f"2026-11-21T10:20:30.{seq:09}Z",
        "direction": direction,
        "transport": "stdio",
    }
    text = json.dumps(
        head | {name: value for name, value in more.items() if name in head}, separators=(",", ":")
    )
    raw = f',"raw":{said}' if said else ""
    rest = {name: value for name, value in more.items() if name not in head}
    return text[:-1] + raw + ("," + json.dumps(rest, separators=(",", ":"))[1:-1] if rest else "") + "}\n"


def mcpsnoop(*talk: tuple[str, str], **more: object) -> str:
    meta = envelope(1, "meta", '{"command":["python","weather.py"],"cwd":"/srv"}', **more)
    directions = {"client": "c2s", "server": "s2c"}
    said = enumerate(talk, start=2)
    return meta + "".join(envelope(seq, directions[sender], line, **more) for seq, (sender, line) in said)


def entry(
    body: str | None,
    answer: str | None,
    *,
    at: str = "10:20:30.000",
    took: float = 5,
    status: int = 200,
    kind: str = "application/json",
    url: str = "https://h.example/mcp",
    method: str = "POST",
    headers: dict[str, str] | None = None,
    **content: object,
) -> dict[str, object]:
    sent = {"Host": "h.example", "Content-Type": "application/json"} if body else {"Host": "h.example"}
    sent |= {"Accept": "application/json, text/event-stream", "Authorization": "Bearer abcdefgh12345"}
    sent |= {"Content-Length": str(len(body))} if body else {}
    sent |= headers or {}
    text = {} if answer is None else {"text": answer, "size": len(answer)}
    return {
        "startedDateTime": f"2026-11-21T{at}Z",
        "time": took,
        "request": {
            "method": method,
            "url": url,
            "httpVersion": "HTTP/1.1",
            "headers": [{"name": name, "value": value} for name, value in sent.items()],
            **({"postData": {"mimeType": "application/json", "text": body}} if body else {}),
        },
        "response": {
            "status": status,
            "statusText": "OK",
            "httpVersion": "HTTP/1.1",
            "headers": [
                {"name": "Content-Type", "value": kind},
                {"name": "Mcp-Session-Id", "value": "s-123456789"},
            ],
            "content": {"mimeType": kind, **text, **content},
        },
    }


NAMED = {"Mcp-Session-Id": "s-123456789", "MCP-Protocol-Version": "2025-11-25"}


def har(*entries: object) -> str:
    log = {"version": "1.2", "creator": {"name": "WebInspector", "version": "537"}, "entries": entries}
    return json.dumps({"log": log}, indent=2)


OVER_HTTP = (
    entry(INITIALIZE, INITIALIZED, at="10:20:30.000"),
    entry(READY, "", at="10:20:30.100", status=202, headers=NAMED),
    entry(
        LIST_TOOLS,
        f"event: message\ndata: {NO_TOOLS}\n\n",
        at="10:20:30.200",
        kind="text/event-stream",
        headers=NAMED,
    ),
    entry(None, "<html>", url="https://h.example/about", method="GET", kind="text/html"),
)


def claude_desktop(
    *talk: tuple[str, str], server: str = "weather", after: str = " { metadata: undefined }"
) -> str:
    written = [f"2026-09-11T23:28:52.265Z [{server}] [info] Initializing server...{after}\n"]
    for number, (sender, line) in enumerate(talk):
        at = f"2026-09-11T23:28:53.{number:03}Z"
        written.append(f"{at} [{server}] [info] Message from {sender}: {line}{after}\n")
    return "".join(written)


def level_first(*talk: tuple[str, str]) -> str:
    return claude_desktop(*talk).replace("[weather] [info] ", "[info] [weather] ")


def vs_code(*talk: tuple[str, str]) -> str:
    arrows = {"client": "[editor -> server]", "server": "[server -> editor]"}
    text = "2026-07-24 02:03:14.031 [info] Starting server tasks\n"
    for number, (sender, line) in enumerate(talk):
        text += f"2026-07-24 02:03:15.{number:03} [debug] {arrows[sender]} {line}\n"
        text += "2026-07-24 02:03:15.999 [warning] [server stderr] {not a message}\n"
    return text


def pasted(*talk: tuple[str, str]) -> str:
    return "".join(f"{line}\n" for _, line in talk)


def laid_out(*talk: tuple[str, str]) -> str:
    """Messages one after another, as a debugger prints them."""
    return "".join(json.dumps(json.loads(line), indent=2) + "\n" for _, line in talk)


def one_array(*talk: tuple[str, str]) -> str:
    return json.dumps([json.loads(line) for _, line in talk], indent=2)


def without_its_brackets(*talk: tuple[str, str]) -> str:
    return "\ufeff" + one_array(*talk).strip("[]\n") + ","


def mcporter(*talk: tuple[str, str]) -> str:
    text = ""
    for number, (sender, line) in enumerate(talk):
        direction = "send" if sender == "client" else "recv"
        note = {"direction": direction, "server": "weather", "ts": f"2026-05-16T10:00:00.{number:03}Z"}
        text += json.dumps({"_meta": note, **json.loads(line)}) + "\n"
    return text


def cassette(*pairs: tuple[str, str | None]) -> str:
    said: list[dict[str, object]] = [
        {"type": "lifecycle", "http_method": "GET", "http_path": "/mcp", "response_status": 405}
    ]
    for request, answer in pairs:
        response = None if answer is None else json.loads(answer)
        said.append({"request": json.loads(request), "response": response, "latency_ms": 40})
    metadata = {"recorded_at": "2026-02-17T20:25:23+00:00", "server_url": "http://127.0.0.1:8000"}
    return json.dumps({"version": "1.0", "metadata": metadata, "interactions": said}, indent=2)


def document_cassette(*talk: tuple[str, str], http: bool = False, redacted: bool = False) -> str:
    """A cassette of the mcp-cassette for Python."""
    messages = [
        {
            "seq": number,
            "t_offset_ms": 100 + number,
            "sender": sender,
            "payload": json.loads(line),
            "redacted": redacted,
        }
        for number, (sender, line) in enumerate(talk)
    ]
    head = {"format_version": 3, "recorded_at": "2026-11-28T10:31:26.152197Z"}
    place = (
        {"transport": "http", "server_url": "http://127.0.0.1:8000/mcp"} if http else {"transport": "stdio"}
    )
    return json.dumps({**head, **place, "messages": messages}, indent=2)


def line_cassette(*talk: tuple[str, str], more: str = "", **header: object) -> str:
    """A cassette of the mcp-cassette for Node.js."""
    begun = {
        "type": "header",
        "cassetteVersion": 2,
        "startedAt": "2026-08-15T14:02:44.380Z",
        "transport": "stdio",
    }
    text = json.dumps(begun | {"command": ["node", "weather.mjs"]} | header) + "\n"
    directions = {"client": "c2s", "server": "s2c"}
    for number, (sender, line) in enumerate(talk):
        said = {"type": "frame", "t": 4 + number, "dir": directions[sender], "frame": json.loads(line)}
        text += json.dumps(said) + "\n"
    return text + more


FORMATS: dict[str, Callable[[], str]] = {
    "mcp-rec": lambda: mcp_rec(*TALK),
    "mcpsnoop": lambda: mcpsnoop(*TALK),
    "mcpsnoop over HTTP": lambda: mcpsnoop(*TALK, transport="http", conn_id="127.0.0.1:5"),
    "har": lambda: har(*OVER_HTTP),
    "Claude Desktop": lambda: claude_desktop(*TALK),
    "Claude Desktop, older": lambda: claude_desktop(*TALK, after=""),
    "Claude Desktop, level first": lambda: level_first(*TALK),
    "VS Code": lambda: vs_code(*TALK),
    "lines": lambda: pasted(*TALK),
    "laid out": lambda: laid_out(*TALK),
    "an array": lambda: one_array(*TALK),
    "an array on one line": lambda: json.dumps(json.loads(one_array(*TALK))),
    "cut out of an array": lambda: without_its_brackets(*TALK),
    "mcporter": lambda: mcporter(*TALK),
    "mcp-cassette for Python": lambda: document_cassette(*TALK),
    "mcp-cassette for Python, over HTTP": lambda: document_cassette(*TALK, http=True),
    "mcp-cassette for Node.js": lambda: line_cassette(*TALK),
    "mcp-cassette for Node.js, over HTTP": lambda: line_cassette(*TALK, transport="http"),
    "mcp-recorder": lambda: cassette((INITIALIZE, INITIALIZED), (READY, None), (LIST_TOOLS, NO_TOOLS)),
}


def kept(tmp_path: Path, text: str | bytes, name: str = "theirs.jsonl") -> str:
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return str(path)


@pytest.mark.parametrize("make", FORMATS.values(), ids=FORMATS)
def test_what_others_recorded_is_read_and_found_clean(
    mcpproxy: Mcpproxy, tmp_path: Path, make: Callable[[], str]
) -> None:
    path, out = kept(tmp_path, make()), str(tmp_path / "ours.jsonl")
    before = Path(path).read_bytes()
    done = mcpproxy("import", path, "-o", out)
    assert done.code == 0, done.err
    for named in (path, out):
        frames = [event for event in open_trace(named).events() if isinstance(event, Frame)]
        assert [json.loads(frame.raw) for frame in frames] == [json.loads(line) for _, line in TALK]
        checked = mcpproxy("check", named)
        assert checked.code == 0
        assert "no findings in 1 trace, 5 frames, revision 2025-11-25" in checked.out
        assert "incomplete: " in checked.out
        assert "imported from " in checked.out
        assert mcpproxy("show", named).code == 0
        assert mcpproxy("show", named, "--follow").code == 0
        assert "2025-11-25" in mcpproxy("versions", named).out
        said = [message.method for session in load(named).sessions for message in session.messages]
        assert said == ["initialize", None, "notifications/initialized", "tools/list", None]
    assert open_trace(out).tally is None
    assert Path(path).read_bytes() == before


@pytest.mark.parametrize("make", FORMATS.values(), ids=FORMATS)
def test_imported_recordings_can_be_trimmed_and_redacted(
    mcpproxy: Mcpproxy, tmp_path: Path, make: Callable[[], str]
) -> None:
    path = kept(tmp_path, make())
    part, clean = str(tmp_path / "part"), str(tmp_path / "clean")
    assert mcpproxy("trim", path, "--frames", "1-2", "-o", part).code == 0
    assert mcpproxy("redact", path, "--key", "name", "-o", clean).code == 0
    for out in (part, clean):
        assert mcpproxy("check", out).code == 0
        assert open_trace(out).header.imported == open_trace(path).header.imported


def test_what_is_wrong_is_still_found(mcpproxy: Mcpproxy, tmp_path: Path) -> None:
    wrong = ("server", NO_TOOLS.replace('"id":7', '"id":"7"'))
    for make in (mcp_rec, mcpsnoop):
        checked = mcpproxy("check", kept(tmp_path, make(*TALK[:4], wrong)))
        assert "PROTO-007" in checked.out
        assert checked.code == 1
    assert "STDIO-002" in mcpproxy("check", kept(tmp_path, mcp_rec(*TALK, ("server", "Listening on 80")))).out


def test_times_and_the_command_come_along(tmp_path: Path) -> None:
    trace = open_trace(kept(tmp_path, mcp_rec(*TALK)))
    assert trace.header.started_at == "2026-09-21T14:13:20.250000Z"
    assert [e.observed_at_ns for e in trace.events() if isinstance(e, Frame)] == [
        n * 125_000_000 for n in range(5)
    ]
    spoken = open_trace(kept(tmp_path, cassette((INITIALIZE, INITIALIZED), (LIST_TOOLS, NO_TOOLS))))
    assert [e.observed_at_ns for e in spoken.events() if isinstance(e, Frame)] == [
        0,
        40_000_000,
        40_000_000,
        80_000_000,
    ]
    header = open_trace(kept(tmp_path, mcpsnoop(*TALK))).header
    assert (header.command, header.cwd, header.label) == (("python", "weather.py"), "/srv", "weather")


# mcp-rec


def test_it_appends_so_one_file_may_hold_several_sessions(mcpproxy: Mcpproxy, tmp_path: Path) -> None:
    path = kept(tmp_path, mcp_rec(*TALK) + mcp_rec(*TALK[:3], start=1_800_000_000))
    refused = mcpproxy("check", path)
    assert (refused.code, refused.err.count("\n")) == (2, 1)
    assert f"holds 2 sessions; mcpproxy import {path} --session N -o TRACE takes one" in refused.err
    for session, frames in (("1", 5), ("2", 3)):
        out = str(tmp_path / session)
        assert mcpproxy("import", path, "--session", session, "-o", out).code == 0
        assert f"no findings in 1 trace, {frames} frames" in mcpproxy("check", out).out
    assert "holds 2 sessions" in mcpproxy("import", path, "--session", "3", "-o", str(tmp_path / "3")).err


def test_a_number_that_was_too_large_for_it_is_a_gap(mcpproxy: Mcpproxy, tmp_path: Path) -> None:
    large = '{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1e999}}'
    text = mcp_rec(*TALK, ("server", large))
    assert "Infinity" in text
    path = kept(tmp_path, text)
    assert "no findings" in mcpproxy("check", path).out
    assert any(isinstance(event, Gap) for event in open_trace(path).events())


def test_spelling_of_numbers_stays(tmp_path: Path) -> None:
    big = '{"jsonrpc":"2.0","id":18446744073709551617,"method":"ping"}'
    *_, last = open_trace(kept(tmp_path, mcp_rec(*TALK, ("client", big)))).events()
    assert isinstance(last, Frame)
    assert b"18446744073709551617" in last.raw


# mcpsnoop


def test_its_bytes_stay_whatever_members_follow(tmp_path: Path) -> None:
    raw = (
        '{"jsonrpc":"2.0","id":1.0,"method":"a","method":"b","params":{"x":"\\",\\"truncated\\":","raw":"}"}}'
    )
    text = envelope(1, "c2s", raw, batch=True, status=200)
    [frame] = open_trace(kept(tmp_path, text)).events()
    assert isinstance(frame, Frame)
    assert frame.raw == raw.encode()


def test_lines_that_it_dropped_are_gaps(mcpproxy: Mcpproxy, tmp_path: Path) -> None:
    lines = mcpsnoop(*TALK).splitlines(keepends=True)
    del lines[4]  # the request for the tools
    path = kept(tmp_path, "".join(lines))
    gaps = [event for event in open_trace(path).events() if isinstance(event, Gap)]
    assert [gap.reason for gap in gaps] == ["mcpsnoop dropped 1 lines"]
    checked = mcpproxy("check", path)
    assert checked.code == 0
    assert "no findings" in checked.out


def test_stderr_stray_lines_and_cut_messages(tmp_path: Path) -> None:
    text = (
        envelope(1, "stderr", text="starting")
        + envelope(2, "s2c", text="no JSON")
        + envelope(3, "s2c", text='{"jsonrpc":', truncated=True)
    )
    stderr, frame, gap = open_trace(kept(tmp_path, text)).events()
    assert isinstance(stderr, Stderr)
    assert stderr.raw == b"starting"
    assert isinstance(frame, Frame)
    assert frame.raw == b"no JSON"
    assert isinstance(gap, Gap)


def test_a_status_over_http_without_a_message_is_a_gap(mcpproxy: Mcpproxy, tmp_path: Path) -> None:
    http: dict[str, Any] = {"transport": "http"}
    challenge = 'Bearer realm="x"'
    text = mcpsnoop(*TALK[:3], **http)
    text += envelope(8, "s2c", status=401, auth_challenge=challenge, text="", **http)
    text += envelope(9, "s2c", status=202, **http)
    shown = mcpproxy("show", kept(tmp_path, text)).out
    assert f"mcpsnoop kept no body of an answer with HTTP 401 (WWW-Authenticate: {challenge})" in shown
    assert "HTTP 202" not in shown


def test_a_browser_may_leave_out_the_length_of_a_request(mcpproxy: Mcpproxy, tmp_path: Path) -> None:
    """The headers of an archive are provisional where the browser did not see them on the wire."""
    archive = json.loads(har(*OVER_HTTP[:2], entry(LIST_TOOLS, NO_TOOLS.replace("[]", "{}"), headers=NAMED)))
    for each in archive["log"]["entries"]:
        headers = each["request"]["headers"]
        headers[:] = [header for header in headers if header["name"] != "Content-Length"]
    checked = mcpproxy("check", kept(tmp_path, json.dumps(archive)))
    assert checked.code == 1
    assert "result/tools should be an array, is an object" in checked.out


def test_what_it_redacted_is_a_mask(mcpproxy: Mcpproxy, tmp_path: Path) -> None:
    answer = NO_TOOLS.replace("[]", '"[REDACTED]"')
    path = kept(tmp_path, mcpsnoop(*TALK[:4]) + envelope(6, "s2c", answer, redacted=True))
    assert "no findings" in mcpproxy("check", path).out
    assert open_trace(path).header.redaction == "mcpsnoop"


def test_messages_over_http_without_their_heads(mcpproxy: Mcpproxy, tmp_path: Path) -> None:
    http: dict[str, Any] = {"transport": "http"}
    text = mcpsnoop(*TALK[:4], **http)
    text += envelope(9, "s2c", text="<html>", status=502, **http) + envelope(8, "s2c", status=202, **http)
    checked = mcpproxy("check", kept(tmp_path, text))
    assert "no findings in 1 trace, 4 frames" in checked.out
    assert "mcpsnoop keeps no HTTP" in checked.out
    assert "mcpsnoop kept a body that is no JSON of an answer with HTTP 502" in checked.out
    refused = mcpproxy("check", kept(tmp_path, text + envelope(10, "c2s", INITIALIZE, **http)))
    assert (refused.code, refused.err.count("\n")) == (2, 1)
    assert "several HTTP clients" in refused.err


def test_messages_over_http_may_name_their_connections(mcpproxy: Mcpproxy, tmp_path: Path) -> None:
    http: dict[str, Any] = {"transport": "http", "conn_id": "127.0.0.1:5"}
    checked = mcpproxy("check", kept(tmp_path, mcpsnoop(*TALK[:4], **http)))
    assert "mcpsnoop keeps no HTTP heads and no streams" in checked.out
    assert "messages of all connections" not in checked.out


def test_a_refusal_of_headers_is_lawful_though_they_were_not_recorded(
    mcpproxy: Mcpproxy, tmp_path: Path
) -> None:
    client = {
        "protocolVersion": "2026-07-28",
        "clientInfo": {"name": "p", "version": "1"},
        "clientCapabilities": {},
    }
    meta = {f"io.modelcontextprotocol/{name}": value for name, value in client.items()}
    call = {"method": "tools/call", "params": {"name": "add", "arguments": {}, "_meta": meta}}
    done: dict[str, Any] = {"result": {"resultType": "complete", "content": []}}
    refused = {"error": {"code": -32020, "message": "Header mismatch"}}
    said = (("client", 1, call), ("server", 1, done), ("client", 2, call), ("server", 2, refused))
    talk = [(sender, json.dumps({"jsonrpc": "2.0", "id": id} | rest)) for sender, id, rest in said]
    checked = mcpproxy("check", kept(tmp_path, mcpsnoop(*talk, transport="http")))
    assert "no findings in 1 trace, 4 frames, revision 2026-07-28" in checked.out
    on_stdio = mcpproxy("check", kept(tmp_path, mcpsnoop(*talk)))
    assert "ERR-003" in on_stdio.out


def test_clients_that_speak_at_once_are_told_apart_by_their_connections(
    mcpproxy: Mcpproxy, tmp_path: Path
) -> None:
    http: dict[str, Any] = {"transport": "http"}
    call = LIST_TOOLS.replace("tools/list", "prompts/list")
    failed = '{"jsonrpc":"2.0","id":7,"error":{"code":-32601,"message":"no prompts"}}'
    said = (("c2s", LIST_TOOLS, "a"), ("c2s", call, "b"), ("s2c", failed, "b"), ("s2c", NO_TOOLS, "a"))
    text = "".join(envelope(seq, *one[:2], conn_id=one[2], **http) for seq, one in enumerate(said, start=1))
    text += "".join(envelope(seq, "c2s", INITIALIZE, conn_id=f"{seq}", **http) for seq in (5, 6))
    path = kept(tmp_path, text)
    checked, shown = mcpproxy("check", path), mcpproxy("show", path).out
    assert "no findings in 1 trace, 6 frames" in checked.out
    assert "their messages are shown, not judged" in checked.out
    assert "tools/list → 0 tools" in " ".join(shown.split())
    assert "prompts/list ✗ error -32601: no prompts" in " ".join(shown.split())


# HAR


def test_the_exchanges_of_an_archive(tmp_path: Path) -> None:
    path = kept(tmp_path, har(*OVER_HTTP), "a.har")
    trace = open_trace(path)
    events = list(trace.events())
    heads = [event for event in events if isinstance(event, RequestHead)]
    assert [(head.method, head.target, head.endpoint) for head in heads] == [("POST", "/mcp", True)] * 3
    assert len({head.connection for head in heads}) == 3
    assert [event.status for event in events if isinstance(event, ResponseHead)] == [200, 202, 200]
    assert sum(isinstance(event, ExchangeEnd) for event in events) == 3
    assert "exchanges without MCP, which were left out: 1" in trace.header.imported
    assert "abcdefgh12345" not in repr(events)
    assert "s-123456789" not in repr(events)
    assert [session.name != "" for session in load(path).sessions] == [True]
    seqs = [event.seq for event in events if isinstance(event, Frame | RequestHead | ResponseHead)]
    assert seqs == sorted(seqs)


def test_the_sessions_of_one_archive_have_the_same_names_each_time(tmp_path: Path) -> None:
    first, second = kept(tmp_path, har(*OVER_HTTP), "a.har"), kept(tmp_path, har(*OVER_HTTP), "b.har")
    other = kept(tmp_path, har(*OVER_HTTP[:3]), "c.har")
    names = [load(path).sessions[0].name for path in (first, first, second, other)]
    assert names[0] == names[1] == names[2] != ""
    assert names[3] != names[0], "of another archive nobody can tell that it has the same credentials"


@pytest.mark.parametrize("kind", ["text/event-stream", "application/json"])
def test_a_body_that_an_archive_does_not_hold_is_not_a_missing_answer(
    kind: str, mcpproxy: Mcpproxy, tmp_path: Path
) -> None:
    unkept = entry(LIST_TOOLS, None, at="10:20:31", kind=kind, headers=NAMED, size=60)
    path = kept(tmp_path, har(*OVER_HTTP[:2], unkept), "a.har")
    shown, checked = mcpproxy("show", path).out, mcpproxy("check", path).out
    assert "tools/list → answered unreadably: the HAR holds no body of an answer" in " ".join(shown.split())
    assert "1 of 2 calls unreadable" in checked
    assert "unanswered" not in shown + checked + mcpproxy("show", "--call", "3", path).out


def test_a_request_in_a_stream_comes_before_its_answer(mcpproxy: Mcpproxy, tmp_path: Path) -> None:
    call = '{"jsonrpc":"2.0","id":8,"method":"tools/call","params":{"name":"t"}}'
    ping = '{"jsonrpc":"2.0","id":99,"method":"ping"}'
    pong = '{"jsonrpc":"2.0","id":99,"result":{}}'
    done = '{"jsonrpc":"2.0","id":8,"result":{"content":[]}}'
    stream = f"data: {ping}\n\ndata: {done}\n\n"
    path = kept(
        tmp_path,
        har(
            *OVER_HTTP[:2],
            entry(call, stream, at="10:20:31", took=900, kind="text/event-stream", headers=NAMED),
            entry(pong, "", at="10:20:31.500", status=202, headers=NAMED),
        ),
    )
    frames = [event.raw.decode() for event in open_trace(path).events() if isinstance(event, Frame)]
    assert frames[3:] == [call, ping, pong, done]
    assert "no findings" in mcpproxy("check", path).out


@pytest.mark.parametrize("version", ["HTTP/1.1", "h2", "http/2.0", "", "unknown"])
def test_a_body_without_length(mcpproxy: Mcpproxy, tmp_path: Path, version: str) -> None:
    entries: list[Any] = json.loads(json.dumps(OVER_HTTP))
    for one in entries:
        one["request"]["httpVersion"] = version
        if version != "HTTP/1.1":
            one["request"]["headers"] = [
                h for h in one["request"]["headers"] if h["name"] != "Content-Length"
            ]
    checked = mcpproxy("check", kept(tmp_path, har(*entries)))
    assert "no findings in 1 trace, 5 frames, revision 2025-11-25" in checked.out


def test_a_body_that_was_not_kept_is_a_gap(mcpproxy: Mcpproxy, tmp_path: Path) -> None:
    lost = entry(LIST_TOOLS, None, at="10:20:30.200", kind="text/event-stream", headers=NAMED)
    path = kept(tmp_path, har(*OVER_HTTP[:2], lost))
    assert any(isinstance(event, Gap) for event in open_trace(path).events())
    assert "no findings" in mcpproxy("check", path).out


def test_a_stream_without_its_body_is_read_from_the_list_of_its_events(
    mcpproxy: Mcpproxy, tmp_path: Path
) -> None:
    """Chromium keeps no body of a stream that a page reads, but lists its messages.

    An event without data, with which a server may begin, is none.
    """
    listed = entry(LIST_TOOLS, None, at="10:20:31", took=900, kind="text/event-stream", headers=NAMED)
    told = '{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"a\\u2028b"}}'
    at = datetime(2026, 11, 21, 10, 20, 31, tzinfo=UTC).timestamp()
    messages = [
        {"time": at + after, "eventName": "message", "eventId": id, "data": data}
        for after, id, data in ((0.25, "e1", told), (0.5, "", NO_TOOLS))
    ]
    path = kept(tmp_path, har(*OVER_HTTP[:2], {**listed, "_eventSourceMessages": messages}))
    frames = [event for event in open_trace(path).events() if isinstance(event, Frame)]
    assert [frame.raw.decode() for frame in frames[-2:]] == [told, NO_TOOLS]
    assert frames[-2].event is not None
    assert frames[-2].event.id == "e1"
    asked_ns = frames[-3].observed_at_ns
    assert [round((frame.observed_at_ns - asked_ns) / 1e6) for frame in frames[-2:]] == [250, 500]
    assert "no findings" in mcpproxy("check", path).out
    damaged = {**listed, "_eventSourceMessages": [{"time": "soon", "data": NO_TOOLS}]}
    path = kept(tmp_path, har(*OVER_HTTP[:2], damaged))
    assert any(isinstance(event, Gap) for event in open_trace(path).events())


def test_bodies_in_base64_and_without_answer(tmp_path: Path) -> None:
    coded = base64.b64encode(INITIALIZED.encode()).decode()
    path = kept(tmp_path, har(entry(INITIALIZE, coded, encoding="base64"), entry(LIST_TOOLS, None, status=0)))
    frames = [event for event in open_trace(path).events() if isinstance(event, Frame)]
    assert [json.loads(frame.raw)["id"] for frame in frames] == [1, 7, 1]
    ends = [event.cut for event in open_trace(path).events() if isinstance(event, ExchangeEnd)]
    assert sorted(ends) == [False, True]


def test_without_headers_there_are_messages_alone(mcpproxy: Mcpproxy, tmp_path: Path) -> None:
    entries: list[Any] = json.loads(json.dumps(OVER_HTTP))
    for one in entries:
        one["request"]["headers"] = []
    path = kept(tmp_path, har(*entries))
    assert not any(isinstance(event, RequestHead) for event in open_trace(path).events())
    assert "no findings in 1 trace, 5 frames" in mcpproxy("check", path).out


# Logs of hosts, and lines


def test_what_a_host_logs_is_kept_to_the_byte_and_judged(mcpproxy: Mcpproxy, tmp_path: Path) -> None:
    spaced = '{"jsonrpc" : "2.0","id":null,"error":{"code":-32601,"message":"\\u00e9 unknown é"}}'
    path = kept(tmp_path, claude_desktop(*TALK[:3], ("server", spaced)))
    trace = open_trace(path)
    *_, last = trace.events()
    assert isinstance(last, Frame)
    assert last.raw == spaced.encode()
    assert (trace.header.label, trace.header.started_at) == ("weather", "2026-09-11T23:28:53Z")
    checked = mcpproxy("check", path)
    assert "RPC-015 frame 4: server answered the notification in frame 3" in checked.out
    assert checked.code == 1


def test_without_times_nothing_is_said_of_how_long_a_call_took(mcpproxy: Mcpproxy, tmp_path: Path) -> None:
    path = kept(tmp_path, pasted(("client", INITIALIZE), ("server", READY), ("client", LIST_TOOLS)))
    assert "µs" not in mcpproxy("show", path).out
    assert "µs" not in mcpproxy("show", "--frames", path).out
    calls = json.loads(mcpproxy("stats", path, "--json").out)["calls"]
    assert [(call["method"], call["p50_ns"]) for call in calls] == [
        ("initialize", None),
        ("tools/list", None),
    ]


def test_of_an_excerpt_nothing_is_concluded(mcpproxy: Mcpproxy, tmp_path: Path) -> None:
    for make in (claude_desktop, vs_code, pasted):
        checked = mcpproxy("check", kept(tmp_path, make(*TALK[3:])))
        assert checked.code == 0
        assert "a part of a session may have been copied" in checked.out


def test_one_log_may_have_several_servers_and_starts(mcpproxy: Mcpproxy, tmp_path: Path) -> None:
    lines = zip(
        claude_desktop(*TALK).splitlines(), claude_desktop(*TALK, server="files").splitlines(), strict=True
    )
    path = kept(
        tmp_path, "\n".join(line for pair in lines for line in pair) + "\n" + claude_desktop(*TALK[:2])
    )
    assert "holds 3 sessions" in mcpproxy("import", path).err
    for number, label, frames in ((1, "weather", 5), (2, "files", 5), (3, "weather", 2)):
        out = str(tmp_path / f"{number}.jsonl")
        assert mcpproxy("import", path, "--session", str(number), "-o", out).code == 0
        trace = open_trace(out)
        assert (trace.header.label, sum(isinstance(e, Frame) for e in trace.events())) == (label, frames)


def test_a_message_that_a_log_has_in_part_is_a_gap(mcpproxy: Mcpproxy, tmp_path: Path) -> None:
    path = kept(tmp_path, claude_desktop(*TALK[:4], ("server", NO_TOOLS[:20])))
    assert isinstance(list(open_trace(path).events())[-1], Gap)
    assert "no findings" in mcpproxy("check", path).out


def test_a_line_that_quotes_a_message_is_none(tmp_path: Path) -> None:
    quoted = f"2026-07-24 02:03:16.000 [warning] [server stderr] got [editor -> server] {LIST_TOOLS}\n"
    text = quoted + vs_code(*TALK) + f"said: Message from client: {LIST_TOOLS}\n"
    frames = [e for e in open_trace(kept(tmp_path, text)).events() if isinstance(e, Frame)]
    assert len(frames) == len(TALK)


def test_numbers_and_names_of_others_are_not_trusted(mcpproxy: Mcpproxy, tmp_path: Path) -> None:
    large = ("client", LIST_TOOLS.replace('"id":7', f'"id":{10**30}'))
    *_, last = open_trace(kept(tmp_path, mcporter(*TALK, large))).events()
    assert isinstance(last, Frame)
    assert json.loads(last.raw)["id"] == 10**30
    http: dict[str, Any] = {"transport": "http", "conn_id": ["a"]}
    text = "".join(envelope(seq, "c2s", INITIALIZE, **http) for seq in (1, 2))
    assert "several HTTP clients" in mcpproxy("check", kept(tmp_path, text)).err


def test_who_sent_a_line_is_guessed_by_its_method_and_by_the_request_it_answers(tmp_path: Path) -> None:
    said = (
        *TALK[:3],
        ("server", '{"jsonrpc":"2.0","id":1,"method":"roots/list"}'),
        ("client", '{"jsonrpc":"2.0","id":1,"result":{"roots":[]}}'),
        ("client", '{"jsonrpc":"2.0","id":8,"method":"tools/call","params":{"name":"a"}}'),
        (
            "server",
            '{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}',
        ),
        ("server", '{"jsonrpc":"2.0","id":9,"method":"sampling/createMessage","params":{}}'),
        ("server", '{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":9}}'),
        ("client", '{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":8}}'),
        ("server", '{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}'),
        ("client", '{"jsonrpc":"2.0","id":10,"method":"ping"}'),
        ("server", '{"jsonrpc":"2.0","id":10,"result":{}}'),
        ("server", '{"jsonrpc":"2.0","id":8,"error":{"code":1,"message":"late"}}'),
    )
    frames = [e for e in open_trace(kept(tmp_path, pasted(*said))).events() if isinstance(e, Frame)]
    assert [(frame.sender, frame.raw.decode()) for frame in frames] == list(said)


# mcp-cassette


def test_the_messages_of_a_stream_stand_where_they_came(tmp_path: Path) -> None:
    """A stream is one line, written when it ends; what came meanwhile is written before it."""
    progress = '{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}'
    parts = [{"t": 7.5, "frame": json.loads(progress)}, {"t": 90, "frame": json.loads(NO_TOOLS)}]
    stream = json.dumps({"type": "chunks", "t": 7.5, "dir": "s2c", "id": 2, "chunks": parts})
    banner = json.dumps({"type": "raw", "t": 8, "dir": "s2c", "data": "ready"})
    unknown = json.dumps({"type": "scenario", "t": 9, "dir": "s2c"})
    text = line_cassette(*TALK[:4], more=f"{banner}\n{unknown}\n{stream}\n")
    frames = [event for event in open_trace(kept(tmp_path, text)).events() if isinstance(event, Frame)]
    assert [json.loads(frame.raw) for frame in frames[4:] if frame.raw != b"ready"] == [
        json.loads(progress),
        json.loads(NO_TOOLS),
    ]
    assert frames[5].raw == b"ready"
    assert [frame.observed_at_ns for frame in frames[4:]] == [7_500_000, 8_000_000, 90_000_000]


def test_what_a_replay_added_to_a_cassette_is_a_gap(tmp_path: Path) -> None:
    added = json.dumps(
        {"type": "frame", "t": 1, "dir": "c2s", "frame": json.loads(LIST_TOOLS), "origin": "live"}
    )
    trace = open_trace(kept(tmp_path, line_cassette(*TALK, more=f"{added}\n")))
    *frames, gap = trace.events()
    assert len([event for event in frames if isinstance(event, Frame)]) == len(TALK)
    assert isinstance(gap, Gap)
    assert trace.header.command == ("node", "weather.mjs")


def test_a_cassette_says_what_was_replaced_in_it(tmp_path: Path) -> None:
    header = open_trace(kept(tmp_path, document_cassette(*TALK, http=True, redacted=True))).header
    assert (header.upstream, header.redaction) == ("http://127.0.0.1:8000/mcp", "mcp-cassette")


def test_a_level_is_not_the_name_of_a_server(tmp_path: Path) -> None:
    assert open_trace(kept(tmp_path, level_first(*TALK))).header.label == "weather"
    unnamed = claude_desktop(*TALK).replace("[weather] ", "")
    assert open_trace(kept(tmp_path, unnamed)).header.label == "theirs.jsonl"


def test_a_direction_that_every_message_says_is_not_called_guessed(tmp_path: Path) -> None:
    told, guessed = "each says who sent it", "is guessed where no line says it"
    answers = [(sender, line) for sender, line in TALK if sender == "server"]
    for text, note in (
        (mcporter(*TALK), told),
        (pasted(*TALK), guessed),
        (mcporter(*answers), told),
    ):
        assert note in open_trace(kept(tmp_path, text)).header.imported


def test_what_was_laid_out_keeps_every_byte_but_its_spaces(tmp_path: Path) -> None:
    texts = (
        '{\n "jsonrpc" : "2.0",\n "id" : 18446744073709551617,\n "method" : "a { \\" b"\n}',
        '{"jsonrpc" : "2.0", "id":1.0, "result":{} }',
    )
    frames = [e for e in open_trace(kept(tmp_path, "\n\n".join(texts))).events() if isinstance(e, Frame)]
    assert [frame.raw.decode() for frame in frames] == [
        '{"jsonrpc":"2.0","id":18446744073709551617,"method":"a { \\" b"}',
        texts[1],
    ]


def test_an_array_among_messages_is_a_batch(mcpproxy: Mcpproxy, tmp_path: Path) -> None:
    batch = f"[{LIST_TOOLS}, {LIST_TOOLS.replace('7', '8')}]"
    path = kept(tmp_path, pasted(*TALK[:3], ("client", batch)))
    *_, last = open_trace(path).events()
    assert isinstance(last, Frame)
    assert (last.sender, last.raw.decode()) == ("client", batch)
    assert "RPC-017" in mcpproxy("check", path).out


def test_a_last_message_that_was_cut_is_a_gap(mcpproxy: Mcpproxy, tmp_path: Path) -> None:
    for make in (pasted, mcporter):
        path = kept(tmp_path, make(*TALK)[:-20])
        *frames, gap = open_trace(path).events()
        assert len(frames) == len(TALK) - 1
        assert isinstance(gap, Gap)
        assert "no findings" in mcpproxy("check", path).out


@pytest.mark.parametrize("time", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59.9-14:00", 9e10])
def test_a_time_that_no_message_has_is_none(tmp_path: Path, time: object) -> None:
    first, *rest = mcporter(*TALK).splitlines(keepends=True)
    line = json.loads(first)
    line["_meta"]["ts"] = time
    trace = open_trace(kept(tmp_path, json.dumps(line) + "\n" + "".join(rest)))
    assert len(list(trace.events())) == len(TALK)
    assert int((trace.header.started_at or "1970")[:4]) < 5000


def test_a_string_that_does_not_end_is_read_once(tmp_path: Path) -> None:
    """Each of its quotes might begin another string, and a million of them take hours."""
    quotes = '\\"' * (1 << 20)
    begun = f'{{"jsonrpc":"2.0","method":"{quotes}'
    *frames, gap = open_trace(kept(tmp_path, pasted(*TALK) + begun)).events()
    assert (len(frames), type(gap)) == (len(TALK), Gap)
    with pytest.raises(TraceError, match=":6: not JSON"):
        open_trace(kept(tmp_path, pasted(*TALK) + begun + "\n" + pasted(*TALK)))


def test_a_log_whose_brackets_do_not_end_is_searched_line_by_line(tmp_path: Path) -> None:
    path = tmp_path / "host.log"
    path.write_text("2026-01-01T0 [\n" * 70_000)
    with pytest.raises(TraceError, match="no line has a message"):
        open_trace(str(path))


# What cannot be read

BAD: dict[str, tuple[str | bytes, str]] = {
    "empty": ("", ": the file is empty; "),
    "a cassette that stops": (cassette((INITIALIZE, INITIALIZED))[:300], "not a whole cassette"),
    "a cassette of nothing": (cassette(), "no interaction in it has a request"),
    "a cassette of no messages": (document_cassette(), "holds no message"),
    "a document that stops": (document_cassette(*TALK)[:300], "not a whole cassette"),
    "a header alone": (line_cassette(), "holds no message"),
    "lines that stop being messages": (pasted(*TALK) + "{}\n", ":6: not a JSON-RPC message"),
    "a laid out message that stops": (laid_out(*TALK)[:-30], ":37: the JSON that begins here does not end"),
    "words between messages": (pasted(*TALK[:2]) + "then\n" + pasted(*TALK[2:]), ":3: not JSON"),
    "a HAR that stops": (har(*OVER_HTTP)[:900], "not a whole HAR"),
    "a HAR without entries": ('{"log": {"entries": 3}}', "not a HAR: there are no entries"),
    "a HAR of other things": (har(*OVER_HTTP[3:]), "holds no MCP"),
    "a HAR with damaged entries": ('{"log": {"entries": [1, {"request": 2}, null]}}', "holds no MCP"),
    "mcp-rec, damaged": (
        mcp_rec(*TALK[:2]) + "garbage\n" + mcp_rec(*TALK[2:]),
        ":3: not a record of mcp-rec",
    ),
    "mcp-rec, another direction": (
        mcp_rec(*TALK[:1]) + '{"dir": "up", "msg": 1}\n',
        ":2: not a record of mcp-rec",
    ),
    "mcpsnoop, damaged": (mcpsnoop(*TALK) + "[]\n", ":7: not a record of mcpsnoop"),
    "mcpsnoop, another direction": (mcpsnoop(*TALK) + envelope(9, "up"), ":7: not a record of mcpsnoop"),
}


@pytest.mark.parametrize(("text", "expected"), BAD.values(), ids=BAD)
def test_what_cannot_be_imported(
    mcpproxy: Mcpproxy, tmp_path: Path, text: str | bytes, expected: str
) -> None:
    path, out = kept(tmp_path, text), tmp_path / "o.jsonl"
    refused = mcpproxy("import", path, "-o", str(out))
    assert (refused.code, refused.err.count("\n"), out.exists()) == (2, 1, False)
    assert refused.err.startswith(f"mcpproxy: {path}")
    assert expected in refused.err
    assert mcpproxy("check", path).code == 2


NO_LOG = "host-log: no line has a message behind 'Message from client:' or '[editor -> server]'"
OF_NO_FORMAT: dict[str, tuple[str | bytes, tuple[str, ...]]] = {
    "binary": (
        bytes(range(256)) * 9,
        (
            "mcp-cassette-lines, mcpsnoop, mcp-rec, json-rpc: the file does not begin with a JSON object",
            NO_LOG,
        ),
    ),
    "entries of another log": (
        '{"level":"info","seq":1}\n',
        (
            'mcp-cassette-lines: line 1 has no "cassetteVersion"',
            'mcpsnoop: line 1 has no "session_id", "direction"',
            'mcp-rec: line 1 has no "dir", "msg"',
            'json-rpc: line 1 is no object with "jsonrpc", and "method", "result" or "error"',
            NO_LOG,
        ),
    ),
    "JSON that stops": (
        '\n{\n  "jsonrpc": "2.0",\n  "id": 1,\n  "method": "tools/li',
        (
            "mcp-cassette-lines, mcpsnoop, mcp-rec, json-rpc: line 2: the JSON that begins here does not end",
            NO_LOG,
        ),
    ),
    "a log without messages": (
        "2025-04-04 18:41:17.344 [info] listOfferings: Found 14 tools\n",
        (
            "mcp-cassette-lines, mcpsnoop, mcp-rec, json-rpc: the file does not begin with a JSON object",
            "host-log: the log has no messages; VS Code writes them at the level Debug, Cursor never does",
        ),
    ),
}


@pytest.mark.parametrize(("text", "reasons"), OF_NO_FORMAT.values(), ids=OF_NO_FORMAT)
def test_each_format_says_why_a_file_is_not_of_it(
    mcpproxy: Mcpproxy, tmp_path: Path, text: str | bytes, reasons: tuple[str, ...]
) -> None:
    path, out = kept(tmp_path, text), tmp_path / "o.jsonl"
    told = mcpproxy("import", path, "-o", str(out))
    assert (told.code, out.exists()) == (2, False)
    head, *lines = [line.removeprefix("mcpproxy: ") for line in told.err.splitlines()]
    assert head == f"{path}:1: not an mcpproxy trace; none of the 8 other formats fits"
    assert [line.strip() for line in lines] == [
        'har: the file does not begin with {"log": {',
        'mcp-recorder: the file does not begin with {"version": …, "metadata": {',
        'mcp-cassette: the file does not begin with {"format_version": …, "recorded_at":',
        *reasons,
    ]
    for command in ("check", "show"):
        assert mcpproxy(command, path).err == told.err
    [unreadable] = json.loads(mcpproxy("check", path, "--format", "json").out)["unreadable"]
    assert unreadable["reason"] == f"{head}: {'; '.join(line.strip() for line in lines)}"


@pytest.mark.parametrize("format", detect.FORMATS)
@pytest.mark.parametrize("text", ["", "{}\n", "[1]\n", "\x00\xff", '{"log": []}'], ids=repr)
def test_the_wrong_format_was_named(mcpproxy: Mcpproxy, tmp_path: Path, format: str, text: str) -> None:
    path, out = kept(tmp_path, text), tmp_path / "o.jsonl"
    refused = mcpproxy("import", path, "--format", format, "-o", str(out))
    assert (refused.code, refused.err.count("\n"), out.exists()) == (2, 1, False)


def test_a_last_line_that_was_cut_is_left_out(tmp_path: Path) -> None:
    for text in (mcp_rec(*TALK), mcpsnoop(*TALK)):
        frames = [e for e in open_trace(kept(tmp_path, text[:-20])).events() if isinstance(e, Frame)]
        assert len(frames) == 4


@pytest.mark.parametrize("format", ["auto", "mcpsnoop", "har"])
def test_our_own_trace_is_not_imported(mcpproxy: Mcpproxy, tmp_path: Path, format: str) -> None:
    path, out = kept(tmp_path, mcp_rec(*TALK)), tmp_path / "o.jsonl"
    assert mcpproxy("import", path, "-o", str(out)).code == 0
    refused = mcpproxy("import", str(out), "--format", format, "-o", str(tmp_path / "p.jsonl"))
    assert refused.code == 2
    assert refused.err == (
        f"mcpproxy: {out}: is a trace of mcpproxy already; check, show and replay take it as it is\n"
    )


def test_what_cannot_be_imported_or_written(mcpproxy: Mcpproxy, tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "missing"):
        refused = mcpproxy("import", str(path))
        assert (refused.code, refused.err.count("\n")) == (2, 1)
    path = kept(tmp_path, mcp_rec(*TALK))
    assert mcpproxy("import", path).code == 0
    assert Path(path + ".mcpproxy.jsonl").exists()
    refused = mcpproxy("import", path)
    assert (refused.code, refused.err.count("\n")) == (2, 1)
    assert "exists already" in refused.err
