"""A recording as packets: Wireshark reads them, takes HTTP apart, and shows the findings."""

import json
import re
import struct
from pathlib import Path
from typing import Any, Final

import pytest

from mcpproxy.cli.main import main
from mcpproxy.judge.session.frame import ExchangeEnd, Frame
from mcpproxy.read.export.packets import TcpConnection
from mcpproxy.read.opening import open_trace
from mcpproxy.record.trace.records import frame_bytes
from tests.export.tshark import fields, http_bodies
from tests.view.situations import SITUATIONS, C, Conversation, S, begun, forecast, write

RECORDINGS: Final = sorted((Path(__file__).parents[2] / "recordings").glob("*.jsonl"))
HTTP: Final = [path for path in RECORDINGS if "-http-" in path.stem or "-sse-" in path.stem]
SECRET: Final = "ghp_16C7e42F292c6912E7710c838347Ae178B4a"  # made up, in the format of a token

WRONG: Final = (
    "_ws.malformed || tcp.analysis.flags || _ws.expert.severity >= 0x600000"
    " || ip.checksum.status == 0 || tcp.checksum.status == 0"
)
"""Passes packets that Wireshark finds anything wrong with."""


def exported(trace: str | Path, path: Path, *options: str) -> Path:
    assert main(["export", "pcapng", str(trace), "-o", str(path), *options]) == 0
    return path


def of(records: tuple[str, ...], folder: Path, *options: str) -> Path:
    return exported(write(folder / "s.jsonl", records), folder / "s.pcapng", *options)


def exchange(number: int, body: Any, *, ms: float, fields: dict[str, str], session: Conversation) -> int:
    """Write a GET and its answer, all on connection 1; return the number of the answer's body."""
    place: dict[str, Any] = {"exchange": number, "connection": 1}
    session.posts(number, ms=ms, method="GET", connection=1, headers=[])
    head = {"status": 200, "reason": "OK", "version": "1.1", "headers": [*map(list, fields.items())]}
    session.skip()
    session.record("response", ms + 1, {"seq": len(session.records), **place, **head})
    said = session.says(S, body, ms + 2, **place)
    session.record("end", ms + 3, place | {"cut": False})
    return said


@pytest.mark.parametrize("recording", RECORDINGS, ids=lambda path: path.stem)
def test_wireshark_finds_nothing_wrong(recording: Path, tmp_path: Path) -> None:
    capture = exported(recording, tmp_path / "s.pcapng")
    assert fields(capture, "frame.number", "_ws.col.Info", where=WRONG) == []
    times = [float(time) for (time,) in fields(capture, "frame.time_epoch")]
    assert times == sorted(times)


@pytest.mark.parametrize("recording", HTTP, ids=lambda path: path.stem)
def test_wireshark_takes_each_http_message_apart(recording: Path, tmp_path: Path) -> None:
    bodies: dict[tuple[int, str], bytes] = {}
    cut: set[int] = set()
    for record in open_trace(recording).events():
        if isinstance(record, Frame):
            place = (record.exchange, record.sender)
            bodies[place] = bodies.get(place, b"") + frame_bytes(record)
        elif isinstance(record, ExchangeEnd) and record.cut:
            cut.add(record.exchange)
    capture = exported(recording, tmp_path / "s.pcapng", "--keep-secrets")
    for exchange in cut:
        bodies.pop((exchange, S), None)
    assert http_bodies(capture, tmp_path / "bodies") == sorted(filter(None, bodies.values()))


def test_messages_on_stdio_are_json(tmp_path: Path) -> None:
    capture = of(SITUATIONS["finding"], tmp_path)
    read = fields(capture, "frame.interface_name", "ip.src", "frame.protocols", "json.value.string")
    assert read[0][:3] == ["client", "192.0.2.1", "exported_pdu:json"]
    assert read[1][:2] == ["server", "198.51.100.1"]
    assert "initialize" in read[0][3].split("\x1e")
    calls = fields(capture, "frame.number", where='json.value.string == "tools/call"')
    assert calls == [["6"]]


def test_findings_are_comments(tmp_path: Path) -> None:
    capture = of(SITUATIONS["finding"], tmp_path)
    read = fields(capture, "frame.number", "frame.comment", where="frame.comment")
    assert [number for number, _ in read] == ["7", "8"]
    assert read[0][1].startswith("frame 7: error STDIO-002 server: server wrote something to stdout")
    assert read[1][1] == "frame 8: warning RES-004 server: a warning about the answer"


def test_findings_of_no_frame_are_at_the_end(tmp_path: Path) -> None:
    session = begun()
    session.finds("SEQ-001", 0, "about the\u202e session")
    session.finds("SEQ-002", 99, "about a frame that is not there")
    *_, first, second = fields(of(session.closes(ms=100), tmp_path), "frame.comment", "frame.interface_name")
    assert first == ["error SEQ-001 server: about the\\u202e session", "mcpproxy"]
    assert second[0].startswith("error SEQ-002")


def test_events_that_are_not_traffic_are_texts_on_an_interface_of_their_own(tmp_path: Path) -> None:
    session = begun()
    session.record("stderr", 60, {"text": "a warning"})
    session.record("signal", 70, {"signal": "SIGTERM"})
    session.record("gap", 80, {"reason": "the disk was full", "client": 0, "server": 77, "stderr": 0})
    capture = of(session.closes(ms=100), tmp_path)
    read = fields(
        capture, "frame.interface_name", "text", where='frame.interface_name in {"stderr", "mcpproxy"}'
    )
    lines = [[name, said.split("\x1e")[-1].removesuffix("\\n")] for name, said in read]
    assert lines == [
        ["stderr", "a warning"],
        ["mcpproxy", "signal SIGTERM"],
        ["mcpproxy", "77 bytes are missing: the disk was full"],
        ["mcpproxy", "the server exited with 0"],
        ["mcpproxy", "missing: 77 bytes are missing: the disk was full"],
    ]


def test_a_recording_that_was_cut_off_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capture = of(tuple(begun().records), tmp_path)
    missing = "no close record: the recording was cut off"
    assert f"s.jsonl: {missing}" in capsys.readouterr().err
    assert f"Missing: {missing}".encode() in capture.read_bytes()[:600]
    assert fields(capture, "text")[-1][0].split("\x1e")[-1].startswith(f"missing: {missing}")


def test_a_killed_recording_says_so(tmp_path: Path) -> None:
    session = begun()
    session.record("close", 100, {"ending": "cut", "exit_code": None, "signal": None})
    read = fields(of(tuple(session.records), tmp_path), "text", where='frame.interface_name == "mcpproxy"')
    first, second = (row[0].split("\x1e")[-1] for row in read)
    assert first.startswith("the recording was cut here; how the session ended is unknown")
    assert second.startswith("missing: the recording was cut: mcpproxy was killed")


def test_bodies_are_put_into_their_framing_again(tmp_path: Path) -> None:
    """On one connection: a wrong step in one message would take the next one along."""
    session = Conversation(http=True)
    json_fields = {"Content-Type": "application/json"}
    exchange(1, {"n": 1}, ms=10, fields=json_fields | {"Transfer-Encoding": "chunked"}, session=session)
    exchange(2, {"n": 2}, ms=20, fields=json_fields | {"Content-Length": "7"}, session=session)
    coded = json_fields | {"Content-Encoding": "gzip", "Content-Length": "31"}
    exchange(3, {"n": 3}, ms=30, fields=coded, session=session)
    hidden = json_fields | {"Content-Length": str(len(json.dumps({"token": SECRET})))}
    exchange(4, {"token": SECRET}, ms=40, fields=hidden, session=session)
    exchange(5, {"n": 5}, ms=50, fields=json_fields, session=session)
    capture = of(session.closes(ms=100), tmp_path)
    assert SECRET.encode() not in capture.read_bytes()
    assert fields(capture, "frame.number", where=WRONG) == []
    read = fields(capture, "json.value.number", "json.value.string", where="http.response")
    assert [number for number, _ in read] == ["1", "2", "3", "", "5"]
    assert read[3][1].startswith("masked(len=40")
    (changed,) = fields(capture, "http.response.line", where="http.response.line contains X-Recorded")
    assert "X-Recorded-Content-Encoding: gzip" in changed[0]


def test_a_body_missing_from_the_recording_hides_no_other(tmp_path: Path) -> None:
    session = Conversation(http=True)
    place = {"exchange": 1, "connection": 1}
    session.posts(1, ms=1, method="GET", connection=1)
    session.skip()
    head = {"status": 200, "reason": "OK", "version": "1.1", "headers": [["Content-Length", "900"]]}
    session.record("response", 2, {"seq": 2, **place, **head})
    session.record("end", 3, place | {"cut": False})
    exchange(2, {"n": 2}, ms=20, fields={"Content-Type": "application/json"}, session=session)
    capture = of(session.closes(ms=100), tmp_path)
    assert [row[0] for row in fields(capture, "http.content_length", where="http.response")] == ["0", ""]


def test_bytes_that_were_not_decoded_are_as_they_were_sent(tmp_path: Path) -> None:
    session = Conversation(http=True)
    place = {"exchange": 1, "connection": 1}
    session.posts(1, ms=1, method="GET", connection=1)
    session.skip()
    listed = [["Content-Length", "3"], ["Content-Encoding", "xyz"]]
    head = {"status": 200, "reason": "OK", "version": "1.1", "headers": listed}
    session.record("response", 2, {"seq": 2, **place, **head})
    session.record("encoded", 2, {**place, "from": S, "base64": "//79"})
    session.record("end", 3, place | {"cut": False})
    capture = of(session.closes(ms=100), tmp_path, "--keep-secrets")
    assert fields(capture, "tcp.payload", where="tcp.srcport == 80")[-1] == ["fffefd"]


def test_an_exchange_that_was_cut_off_ends_its_connection(tmp_path: Path) -> None:
    session = Conversation(http=True)
    session.posts(1, ms=1)
    session.ends(1, ms=2, cut_by=C)
    session.posts(2, ms=3)
    session.ends(2, ms=4, cut_by=S)
    read = fields(
        of(session.closes(ms=9), tmp_path), "tcp.srcport", "frame.comment", where="tcp.flags.fin == 1"
    )
    assert read == [["49153", "cut off by the client"], ["80", "cut off by the server"]]


def test_bytes_that_are_not_http_are_said_and_counted(tmp_path: Path) -> None:
    session = Conversation(http=True)
    session.posts(1, ms=1)
    session.record("opaque", 2, {"connection": 1, "from": C, "bytes": 500, "reason": "a tunnel"})
    session.posts(2, ms=3, connection=1)
    capture = of(session.closes(ms=9), tmp_path)
    first, second = fields(capture, "tcp.seq", "tcp.len", where="tcp")
    assert int(second[0]) - int(first[0]) - int(first[1]) == 500
    said = fields(capture, "text", where='frame.interface_name == "mcpproxy"')[0][0]
    assert "connection 1: 500 bytes by the client are not here: a tunnel" in said


def test_a_long_message_is_whole_in_pieces(tmp_path: Path) -> None:
    session = begun()
    session.asks(2, "tools/call", {"name": "forecast", "arguments": {"city": "O" * 600_000}}, ms=100)
    capture = of(session.closes(ms=200), tmp_path)
    assert fields(capture, "frame.number", where=WRONG) == []
    assert sum(map(len, re.findall(b"O{9,}", capture.read_bytes()))) == 600_000


def test_a_long_body_is_several_segments(tmp_path: Path) -> None:
    session = Conversation(http=True)
    fields_ = {"Content-Type": "application/json", "Transfer-Encoding": "chunked"}
    found = exchange(1, {"n": "O" * 200_000}, ms=1, fields=fields_, session=session)
    session.finds("RES-004", found, "about the body")
    capture = of(session.closes(ms=200), tmp_path)
    assert fields(capture, "frame.number", where=WRONG) == []
    (body,) = fields(capture, "json.value.string", where="http.response")
    assert len(body[0]) == 200_000
    read = fields(capture, "tcp.len", "frame.comment", where="tcp.srcport == 80 && tcp.len > 100")
    assert [comment for _, comment in read] == [
        "",
        "",
        "",
        f"frame {found}: error RES-004 server: about the body",
    ]


def test_what_mcpproxy_answered_itself_says_so(tmp_path: Path) -> None:
    session = begun()
    session.asks(2, "tools/call", forecast("Oslo"), ms=100, refused=True)
    refusal = {"jsonrpc": "2.0", "id": 2, "error": {"code": -32600, "message": "no"}}
    session.says(S, refusal, 101, by="proxy")
    read = fields(
        of(session.closes(ms=200), tmp_path), "frame.number", "frame.comment", where="frame.comment"
    )
    assert read == [["6", "mcpproxy refused this request"], ["7", "mcpproxy sent this itself"]]


def test_every_connection_has_a_stream_of_its_own() -> None:
    ports: set[bytes] = set()
    for number in range(0, 80_000, 7):
        (packet,) = TcpConnection(number).segments(C, b"x")
        ports.add(packet[12:16] + packet[20:22])
    assert len(ports) == len(range(0, 80_000, 7))


def test_sequence_numbers_begin_anew_after_4_gib() -> None:
    connection = TcpConnection(1)
    connection.skip(C, 0xFFFF_FFFE)
    packets = [*connection.segments(C, b"ab"), *connection.segments(C, b"c")]
    assert [struct.unpack("!I", packet[24:28])[0] for packet in packets] == [0xFFFF_FFFF, 1]


def test_an_existing_file_is_not_touched(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = write(tmp_path / "s.jsonl", SITUATIONS["finding"])
    (tmp_path / "s.pcapng").write_text("mine")
    assert main(["export", "pcapng", trace]) == 2
    assert "exists already; name another file with -o" in capsys.readouterr().err
    assert (tmp_path / "s.pcapng").read_text() == "mine"
