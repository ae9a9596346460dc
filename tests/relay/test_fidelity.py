"""Bytes in equal bytes out, in both directions, and the journal holds the same bytes."""

import shlex
import sys
from pathlib import Path

import pytest

from mcpproxy.record.relay import journal
from mcpproxy.record.relay.stdio.relay import CHUNK_BYTES
from tests.relay.hosts import RELAYS, Host, behind, peer, read_journal, stream

STREAMS: dict[str, bytes] = {
    "nothing at all": b"",
    "one message": b'{"jsonrpc":"2.0","method":"ping","id":1}\n',
    "odd whitespace": b' \t{ "a" :\t1 ,\r "b":2}  \n\t\n',
    "key order and duplicate keys": b'{"b":1,"a":2,"b":3}\n',
    "huge integers": b'{"id":123456789012345678901234567890}\n',
    "NaN": b'{"x":NaN,"y":-Infinity}\n',
    "CRLF": b'{"a":1}\r\n{"a":2}\r\n',
    "blank lines": b"\n\n\r\n\n",
    "byte order mark": b'\xef\xbb\xbf{"a":1}\n',
    "NUL": b'{"a":"\x00"}\n\x00\x00\n',
    "invalid UTF-8": b'{"a":"\xff\xfe\xc0\x80"}\n\xed\xa0\x80\n',
    "plain text": b"Server started, listening on stdio\n",
    "missing final newline": b'{"a":1}\n{"a":2}',
    "every byte": bytes(range(256)) * 3,
    "64 KiB + 1": b"x" * (1 << 16) + b"\n",
    "a line of 1 MiB": b"m" * (1 << 20) + b"\n",
    "a line of 32 MiB": b"0123456789abcdef" * (2 << 20) + b"\n",
}


@pytest.mark.parametrize("kind", RELAYS)
@pytest.mark.parametrize("over", ["pipes", "sockets"])
@pytest.mark.parametrize("sent", STREAMS.values(), ids=STREAMS)
def test_what_is_sent_comes_back_and_is_journaled(sent: bytes, over: str, kind: str, tmp_path: Path) -> None:
    trace = str(tmp_path / "t.jsonl")
    with Host(behind(kind, peer("echo"), trace), over) as host:
        writer = host.write_aside(sent)
        assert host.rest() == sent
        writer.join()
        assert host.wait() == 0
        assert host.all_errors() == b""
    records = read_journal(trace)
    assert stream(records, journal.CLIENT) == sent
    assert stream(records, journal.SERVER) == sent
    kinds = [one for one, _, _ in records]
    assert kinds[0] == journal.START
    assert kinds[-1] == journal.EXIT
    assert {journal.CLIENT_EOF, journal.SERVER_EOF, journal.STDERR_EOF} <= set(kinds)


@pytest.mark.parametrize("kind", RELAYS)
@pytest.mark.parametrize("over", ["pipes", "sockets"])
def test_half_a_line_is_delivered_before_the_other_half_is_sent(over: str, kind: str) -> None:
    with Host(behind(kind, peer("echo")), over) as host:
        host.write(b'{"half":')
        assert host.read(8) == b'{"half":'
        host.write(b"1}\n")
        assert host.read(3) == b"1}\n"
        host.end_input()
        assert host.rest() == b""


@pytest.mark.parametrize("kind", RELAYS)
@pytest.mark.parametrize("over", ["pipes", "sockets"])
def test_both_directions_full_at_once(over: str, kind: str, tmp_path: Path) -> None:
    size = 6 << 20
    trace = str(tmp_path / "t.jsonl")
    with Host(behind(kind, peer("duplex", str(size)), trace), over) as host:
        writer = host.write_aside(b"c" * size)
        assert host.rest() == b"s" * size
        writer.join()
        assert host.wait() == 0
        assert host.all_errors() == b"%d bytes\n" % size
    records = read_journal(trace)
    assert stream(records, journal.CLIENT) == b"c" * size
    assert stream(records, journal.SERVER) == b"s" * size


@pytest.mark.parametrize("kind", RELAYS)
def test_no_answer_is_journaled_before_its_question(kind: str, tmp_path: Path) -> None:
    trace = str(tmp_path / "t.jsonl")
    with Host(behind(kind, peer("echo"), trace)) as host:
        for number in range(2000):
            line = b"%d\n" % number
            host.write(line)
            assert host.read(len(line)) == line
        host.end_input()
        assert host.wait() == 0
    asked = answered = 0
    for one, _, payload in read_journal(trace):
        asked += len(payload) if one == journal.CLIENT else 0
        answered += len(payload) if one == journal.SERVER else 0
        assert answered <= asked
    assert asked == answered > 0


@pytest.mark.parametrize("kind", RELAYS)
def test_a_file_as_stdout_is_appended_to_where_it_stands(kind: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.write_bytes(b"before\n")
    script = f'exec "$@" >> {out} < {__file__}'
    with Host(["sh", "-c", script, "sh", *behind(kind, peer("echo"))]) as host:
        assert host.wait() == 0
    assert out.read_bytes() == b"before\n" + Path(__file__).read_bytes()


@pytest.mark.parametrize("kind", RELAYS)
@pytest.mark.parametrize("over", ["pipes", "sockets"])
def test_the_hosts_descriptors_stay_blocking(over: str, kind: str) -> None:
    """O_NONBLOCK on a shared descriptor would apply to every process that shares it."""
    script = "import os; print(*(os.get_blocking(fd) for fd in (0, 1, 2)))"
    wrapped = shlex.join(behind(kind, peer("echo")))
    # The outer shell shares its three descriptors with the relay and looks at them afterwards.
    with Host(["sh", "-c", f"{wrapped} && {peer()[0]} -S -c '{script}'"], over) as host:
        host.end_input()
        assert host.rest() == b"True True True\n"


PIPE_SIZE = """
import fcntl, sys
for line in sys.stdin:
    print("%08d" % fcntl.fcntl(0, fcntl.F_GETPIPE_SZ), flush=True)
"""
"""A server that answers each line with the size of the pipe that is its stdin."""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux makes pipes longer")
def test_the_servers_pipes_are_made_longer_once_a_message_fills_them(tmp_path: Path) -> None:
    command = behind("stdio", [sys.executable, "-c", PIPE_SIZE], str(tmp_path / "t.jsonl"))
    sizes: list[int] = []
    with Host(command, "sockets") as host:
        for length in (10, 1 << 20, 10):
            writer = host.write_aside(b"x" * length + b"\n", then_end=False)
            sizes.append(int(host.read(9)))
            writer.join()
        host.end_input()
        assert host.wait() == 0
    before, *after = sizes
    assert before < CHUNK_BYTES
    assert after == [CHUNK_BYTES, CHUNK_BYTES]
