"""The transcript on terminals of all kinds; what it says is tested where people call it."""

import pytest

from mcpproxy.base.style import Style
from mcpproxy.judge.session.frame import CLIENT, SERVER, Close, Ending, Finding, Frame, Stderr
from mcpproxy.read.reports.transcripts.transcript import INDENT, Transcript
from mcpproxy.record.trace.records import Header

CALL = b'{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"echo","arguments":{"text":"%b"}}}'


def one(style: Style, raw: bytes, *, terminated: bool = True, continues: bool = False) -> str:
    (line,) = Transcript(style).lines(Frame(1, CLIENT, raw, 5_000_000, terminated, continues))
    return line


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_a_frame_fits_the_terminal(width: int) -> None:
    line = one(Style(width=width), CALL % (b"x" * 500))
    assert len(line) <= width
    assert "→ tools/call id 3" in line
    assert line.endswith("…") or width == 60


def test_a_batch_and_a_line_of_stderr_fit_too() -> None:
    transcript = Transcript(Style(width=80))
    batch = b"[" + b",".join([CALL % b"x"] * 9) + b"]"
    lines = [*transcript.lines(Frame(1, CLIENT, batch)), *transcript.lines(Stderr(b"y" * 500))]
    assert [len(line) for line in lines] == [80, 80]
    assert "batch of 9: tools/call, tools/call" in lines[0]


def test_a_long_finding_wraps_beside_the_columns() -> None:
    message = "server " + "said something it should not have said " * 4
    finding = Finding("STDIO-002", "error", "server", message.strip(), 7)
    (whole,) = Transcript().lines(finding)
    lines = Transcript(Style(width=100)).lines(finding)
    assert len(lines) > 2
    assert max(map(len, lines)) <= 100
    assert all(line.startswith(INDENT) for line in lines)
    assert " ".join(line.strip() for line in lines) == whole.strip()
    assert whole.endswith("have said (frame 7)")


def test_colours_change_nothing_but_colours() -> None:
    import re

    plain, coloured = (one(Style(colour=c, width=100), CALL % b"hi") for c in (False, True))
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == plain != coloured


def test_a_terminal_without_arrows_gets_ascii() -> None:
    transcript = Transcript(Style(unicode=False, width=80))
    lines = transcript.lines(Frame(1, SERVER, CALL % (b"x" * 500)))
    lines += transcript.lines(Finding("PROTO-007", "error", "server", "wrong", 1))
    assert "\n".join(lines).isascii()
    assert lines[1] == f"{INDENT}` error PROTO-007 server: wrong"


UNUSUAL: dict[str, tuple[bytes, dict[str, bool], str]] = {
    "a last line without its end": (b'{"method":"n"}', {"terminated": False}, "→ n (no line feed)"),
    "a piece": (
        b"x",
        {"terminated": False, "continues": True},
        "→ the frame is not JSON (a piece, the line goes on)",
    ),
    "an empty line": (b"", {}, "→ the frame is empty"),
    "bytes that are no text": (b"\xff\xfe", {}, "→ the frame is not UTF-8  \\xff\\xfe"),
    "an error for nobody": (
        b'{"id":null,"error":{"code":-32700}}',
        {},
        '→ error for an unknown request id unusable  {"code"',
    ),
    "an id that is a list": (b'{"id":[1],"method":"m"}', {}, "→ m id unusable"),
    "a method with a terminal command": (b'{"method":"\\u001b[2J"}', {}, "→ \\u001b[2J"),
}


@pytest.mark.parametrize(("raw", "facts", "expected"), UNUSUAL.values(), ids=UNUSUAL)
def test_unusual_frames(raw: bytes, facts: dict[str, bool], expected: str) -> None:
    assert expected in one(Style(), raw, **facts)


ENDINGS: dict[str, tuple[Ending, int | None, int | None]] = {
    "the server exited with 3": ("exited", 3, None),
    "signal 9 ended the server": ("signalled", None, 9),
    "the server could not be started": ("not started", 127, None),
    "the recording was cut here; how the session ended is unknown": ("cut", None, None),
}


@pytest.mark.parametrize(("words", "ending"), ENDINGS.items(), ids=ENDINGS)
def test_endings(words: str, ending: tuple[Ending, int | None, int | None]) -> None:
    assert Transcript().lines(Close(*ending))[0].endswith(f"close {words}")


@pytest.mark.parametrize(
    ("command", "tried"), [(("npxx",), "npxx"), (("",), "''"), (("a\x1b[2J",), "a\\u001b[2J")], ids=str
)
def test_why_a_server_could_not_be_started(command: tuple[str, ...], tried: str) -> None:
    transcript = Transcript(header=Header(command=command))
    (close, _) = transcript.lines(Close("not started", reason="no such command"))
    assert close.endswith(f"close the server could not be started: {tried}: no such command")


def test_a_proxy_over_http_was_stopped() -> None:
    transcript = Transcript(header=Header(transport="http"))
    assert transcript.lines(Close("exited", 0))[0].endswith("close mcpproxy was stopped")
    assert transcript.lines(Close("signalled", None, 9))[0].endswith("close signal 9 ended the server")


def test_what_mcpproxy_answers_in_the_place_of_a_server_is_about_what_was_posted() -> None:
    transcript = Transcript(Style(width=100))
    transcript.lines(Frame(1, CLIENT, CALL % b"hi", exchange=1))
    transcript.lines(Frame(2, CLIENT, b'{"jsonrpc":"2.0","id":2,"method":"ping"}', exchange=2))
    own = b'{"jsonrpc":"2.0","error":{"code":-32000,"message":"mcpproxy: no server"}}'
    (line,) = transcript.lines(Frame(3, SERVER, own, exchange=2, by_proxy=True))
    assert "← #2 error for ping" in line
    (line,) = transcript.lines(Frame(4, SERVER, own, exchange=1, by_proxy=True))
    assert "← #1 error for tools/call" in line
