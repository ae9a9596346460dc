"""A stream of another transport is named as what it is, once, and not line by line."""

import json
from collections.abc import Iterator

from mcpproxy.judge.observer import Observer
from mcpproxy.judge.ruleset import catalogue
from mcpproxy.judge.session.frame import CLIENT, SERVER, Close, Finding, Frame, Sender


def judged(sender: Sender, stream: bytes) -> list[Finding]:
    """Judge a stream that only one of the peers writes."""
    observer = Observer(catalogue.load())
    *lines, rest = stream.split(b"\n")
    frames = [Frame(seq, sender, line, seq) for seq, line in enumerate(lines, start=1)]
    if rest:
        frames.append(Frame(len(frames) + 1, sender, rest, terminated=False))
    found = [finding for frame in frames for finding in observer.observe(frame)]
    return found + observer.observe(Close("exited", 0, observed_at_ns=1_000))


def with_headers(count: int) -> Iterator[bytes]:
    for id in range(count):
        message = json.dumps({"jsonrpc": "2.0", "id": id, "result": {"id": id}}).encode()
        yield b"Content-Length: %d\r\n\r\n%s" % (len(message), message)


def test_headers_of_the_language_server_protocol_are_named_once() -> None:
    header, last = judged(SERVER, b"".join(with_headers(200)))
    assert header.rule == "STDIO-002"
    assert "not by headers as in the Language Server Protocol" in header.message
    assert last.frame > 400  # the last message has no header after it, so it can be read


def test_http2_is_named_once() -> None:
    preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
    frames = b"".join(b"\0\0%c\x04\0\0\0\0\n{%c\n\n5\n{}\n" % (size, size) for size in range(100))
    (found,) = judged(CLIENT, preface + frames)
    assert found.rule == "STDIO-003"
    assert "this is the beginning of HTTP/2" in found.message


def test_a_header_after_a_message_is_noise_like_any_other() -> None:
    message = b'{"jsonrpc": "2.0", "id": 1, "method": "initialize"}'
    found = judged(CLIENT, message + b"\nContent-Length: 5\nnoise\nnoise\n")
    assert [finding.frame for finding in found if finding.rule == "STDIO-003"] == [2, 3, 4]


def test_a_header_before_the_first_message_hides_no_noise_after_it() -> None:
    message = b'{"jsonrpc": "2.0", "id": 1, "method": "initialize"}'
    found = judged(CLIENT, b"Content-Length: 5\n" + message + b"\nnoise\n")
    assert [finding.frame for finding in found if finding.rule == "STDIO-003"] == [1, 3]


def test_a_header_in_a_message_is_text() -> None:
    (found,) = judged(SERVER, b'{"jsonrpc": "2.0", "id": 1, "result": {"head": "Content-Length: 5"}}\n')
    assert found.rule == "PROTO-007"


def test_two_messages_on_a_line_are_still_reported() -> None:
    found = judged(
        SERVER, b'{"jsonrpc": "2.0", "id": 1, "result": {}}{"jsonrpc": "2.0", "id": 2, "result": {}}\n'
    )
    assert "RPC-001" in {finding.rule for finding in found}
