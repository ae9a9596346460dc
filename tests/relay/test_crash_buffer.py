"""The crash buffer outlives a relay that is killed between forwarding and journaling."""

import errno
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from mcpproxy.record.recorder.checkpoint import Checkpoint
from mcpproxy.record.recorder.journal_reader import Entry, JournalReader
from mcpproxy.record.relay import crash_buffer, journal
from mcpproxy.record.relay.crash_buffer import CrashBuffer, TurnBuffer
from mcpproxy.record.relay.journal import Journal

START = b'{"transport":"stdio"}'


@pytest.fixture
def written(tmp_path: Path) -> Iterator[Journal]:
    made = Journal(str(tmp_path / "t"), START, 1)
    yield made
    made.close(99)


@pytest.fixture
def holding(written: Journal) -> Iterator[CrashBuffer]:
    with closing(CrashBuffer(written, 64)) as made:
        yield made


def left_by(written: Journal) -> list[Entry]:
    """The records that a reader finds when the relay is gone, without START."""
    reader = JournalReader(written.folder)
    reader.end()
    found: list[Entry] = []
    while entries := reader.read():
        found += entries
    reader.close()
    return found[1:]


def test_the_last_chunk_is_kept(written: Journal, holding: CrashBuffer) -> None:
    holding.store(journal.CLIENT, 5, b"a longer question")
    holding.store(journal.SERVER, 7, b"answer")
    assert left_by(written) == [(journal.SERVER, b"answer", 7, 0)]


def test_an_empty_crash_buffer_gives_no_record(written: Journal) -> None:
    assert crash_buffer.left_records(written.folder, 0) == []
    with closing(CrashBuffer(written, 64)):
        assert crash_buffer.left_records(written.folder, 0) == []


def test_a_cleared_chunk_is_not_kept(written: Journal, holding: CrashBuffer) -> None:
    holding.store(journal.CLIENT, 5, b"found no room")
    holding.clear()
    assert left_by(written) == []


@pytest.mark.parametrize("content", [b"", b"\0" * 5, b"\xff" * 68, b"\xff" * 200])
def test_a_damaged_crash_buffer_gives_no_record(written: Journal, content: bytes) -> None:
    Path(written.folder, crash_buffer.NAME).write_bytes(content)
    assert [entry for entry in left_by(written) if entry[0] != journal.GAP] == []


def test_a_full_disk_is_refused_at_once(written: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    def short(fd: int, data: bytes) -> int:
        return len(data) - 1

    monkeypatch.setattr(os, "write", short)
    with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
        CrashBuffer(written, 64)


def test_a_chunk_that_was_forwarded_but_not_journaled_is_found(
    written: Journal, holding: CrashBuffer
) -> None:
    written.append(journal.CLIENT, 2, b"ask")
    holding.store(journal.SERVER, 3, b"answer")
    assert left_by(written) == [(journal.CLIENT, b"ask", 2, 0), (journal.SERVER, b"answer", 3, 0)]


def test_a_rest_is_found_although_the_journal_is_younger(written: Journal, holding: CrashBuffer) -> None:
    """The rest waited for room while an answer passed, so its time is earlier than the last record's."""
    written.append(journal.CLIENT, 2, b"first half, ")
    written.append(journal.SERVER, 9, b"answer")
    holding.store(journal.CLIENT, 2, memoryview(b"second half"))
    assert left_by(written)[-1] == (journal.CLIENT, b"second half", 2, 0)


@pytest.mark.parametrize("journaled", [b"answer", b"ans"], ids=["whole", "in part"])
def test_a_chunk_that_was_journaled_is_not_found_again(
    written: Journal, holding: CrashBuffer, journaled: bytes
) -> None:
    holding.store(journal.SERVER, 3, b"answer")
    written.append(journal.SERVER, 3, journaled)
    assert left_by(written) == [(journal.SERVER, journaled, 3, 0)]


@pytest.mark.parametrize("is_journaled", [True, False])
def test_a_chunk_at_the_end_of_a_segment(
    written: Journal, holding: CrashBuffer, is_journaled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next record begins another segment, which a killed relay may have made and left empty."""
    monkeypatch.setattr(journal, "SEGMENT_BYTES", 8)
    holding.store(journal.SERVER, 3, b"answer")
    if is_journaled:
        written.append(journal.SERVER, 3, b"answer")
    else:
        Path(written.folder, journal.segment_name(2)).touch()
    assert left_by(written) == [(journal.SERVER, b"answer", 3, 0)]


def test_a_checkpoint_does_not_hide_the_chunk_in_the_crash_buffer(
    written: Journal, holding: CrashBuffer
) -> None:
    """The recorder that adds the chunk to the trace may be killed, too."""
    holding.store(journal.SERVER, 3, b"answer")
    reader = JournalReader(written.folder)
    reader.end()
    while reader.read():
        reader.checkpoint_and_clear(Checkpoint(trace_bytes=1000))
    reader.close()
    assert left_by(written) == [(journal.SERVER, b"answer", 3, 0)]


def test_unwritten_records_come_after_the_journal_instead_of_the_crash_buffer(
    written: Journal, holding: CrashBuffer
) -> None:
    holding.store(journal.CLIENT, 8, b"lost")
    written.close(9)
    reader = JournalReader(written.folder)
    gap = b'{"reason":"full","client":4,"server":0,"stderr":0}'
    reader.end(journal.HEAD.pack(len(gap), journal.GAP, 0, 9) + gap)
    assert [kind for kind, *_ in reader.read()] == [journal.START]
    assert reader.read() == [(journal.GAP, gap, 9, 0)]
    assert reader.read() == []
    reader.close()


def fail(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(fd: int, parts: tuple[bytes, bytes]) -> int:
        return 0

    monkeypatch.setattr(journal, "_write", nothing)


def test_a_journal_hands_over_what_a_full_disk_did_not_take(
    written: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail(monkeypatch)
    written.append(journal.CLIENT, 2, b"four")
    written.append(journal.EXIT, 3, b"{}")
    owed = written.close(4)
    assert owed.endswith(journal.HEAD.pack(2, journal.EXIT, 0, 3) + b"{}")
    assert b'"client":4' in owed


def test_a_kill_does_not_take_the_count_of_what_a_full_disk_lost(
    written: Journal, holding: CrashBuffer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as disk:
        fail(disk)
        for number in range(3):
            holding.store(journal.SERVER, 2 + number, b"answer")
            written.append(journal.SERVER, 2 + number, b"answer")
        holding.store(journal.CLIENT, 5, b"next")
        (gap, chunk) = left_by(written)
    assert (gap[0], b'"client":0,"server":18,' in gap[1]) == (journal.GAP, True)
    assert chunk == (journal.CLIENT, b"next", 5, 0)
    written.append(journal.CLIENT, 3_000_000_000, b"next")  # there is room again
    assert [kind for kind, *_ in left_by(written)] == [journal.GAP, journal.CLIENT]


def test_a_chunk_that_was_read_to_its_place_is_kept_from_store_on(
    written: Journal, holding: CrashBuffer
) -> None:
    source, end = os.pipe()
    for number, sent in enumerate((b"a longer question", b"answer"), start=1):
        os.write(end, sent)
        chunk = holding.read(source)
        assert chunk == sent
        assert len(left_by(written)) == number - 1  # the chunks before, which are journaled
        holding.store(journal.CLIENT, number, chunk)
        assert left_by(written)[-1] == (journal.CLIENT, sent, number, 0)
        written.append(journal.CLIENT, number, chunk)
    os.close(end)
    assert not holding.read(source)
    os.close(source)
    assert left_by(written) == [
        (journal.CLIENT, b"a longer question", 1, 0),
        (journal.CLIENT, b"answer", 2, 0),
    ]


def test_a_rest_is_stored_after_another_chunk_was_read_over_it(
    written: Journal, holding: CrashBuffer
) -> None:
    source, end = os.pipe()
    os.write(end, b"first half, second half")
    rest = memoryview(bytes(holding.read(source)[12:]))
    os.write(end, b"an answer that is longer than the rest")
    holding.store(journal.SERVER, 3, holding.read(source))
    holding.store(journal.CLIENT, 2, rest)
    os.close(end)
    os.close(source)
    assert left_by(written) == [(journal.CLIENT, b"second half", 2, 0)]


# The records of a turn of the loop.

TURN = [
    (journal.CONNECT, b'{"client":"a"}', 3, 1),
    (journal.CLIENT, b"question", 3, 1),
    (journal.SERVER, b"answer", 5, 2),
    (journal.CLIENT_EOF, b"", 6, 1),
]


TurnOf = Callable[..., TurnBuffer]


@pytest.fixture
def turn_of(written: Journal) -> Iterator[TurnOf]:
    with ExitStack() as stack:

        def turn(*records: Entry) -> TurnBuffer:
            buffer = stack.enter_context(closing(TurnBuffer(written, 200)))
            for kind, payload, at_ns, connection in records:
                buffer.append(kind, at_ns, payload, connection)
            return buffer

        yield turn


def journaled(written: Journal) -> bytes:
    return Path(written.folder, journal.segment_name(1)).read_bytes()


def packed(*records: Entry) -> bytes:
    return b"".join(
        journal.HEAD.pack(len(payload), kind, connection, at_ns) + payload
        for kind, payload, at_ns, connection in records
    )


def test_a_turn_that_was_not_journaled_is_found(written: Journal, turn_of: TurnOf) -> None:
    turn_of(*TURN)
    assert left_by(written) == TURN


def test_a_kill_at_any_step_of_a_turn_leaves_whole_records_in_order(
    written: Journal, turn_of: TurnOf
) -> None:
    """The longer turn before it must not show through."""
    buffer = turn_of(*TURN, (journal.CLIENT, bytes(90), 7, 1))
    buffer.flush()
    end = written.position
    found: list[list[Entry]] = [[]]

    def step(frame: FrameType, event: str, arg: object) -> Any:
        frame.f_trace_opcodes = True
        found.append(crash_buffer.left_records(written.folder, end))
        return step

    for number, (kind, payload, at_ns, connection) in enumerate(TURN, start=1):
        sys.settrace(step)
        buffer.append(kind, at_ns, payload, connection)
        sys.settrace(None)
        assert crash_buffer.left_records(written.folder, end) == TURN[:number]
        assert all(left in (TURN[: number - 1], TURN[:number]) for left in found)
        found.clear()


def test_a_turn_is_journaled_in_one_write(
    written: Journal, turn_of: TurnOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    start, sizes, write = journaled(written), list[int](), os.write

    def counted(fd: int, data: bytes) -> int:
        sizes.append(len(data))
        return write(fd, data)

    buffer = turn_of(*TURN)
    monkeypatch.setattr(os, "write", counted)
    buffer.flush()
    buffer.flush()
    assert sizes == [len(packed(*TURN))]
    assert journaled(written) == start + packed(*TURN)
    assert left_by(written) == TURN


@pytest.mark.parametrize("size", range(len(packed(*TURN)) + 1))
def test_a_turn_of_which_a_part_was_written_is_found_whole(
    written: Journal, turn_of: TurnOf, size: int
) -> None:
    """A kill may interrupt the write."""
    turn_of(*TURN)
    with Path(written.folder, journal.segment_name(1)).open("ab") as segment:
        segment.write(packed(*TURN)[:size])
    assert left_by(written) == TURN


@pytest.mark.parametrize("size", range(len(packed(*TURN)) + 1))
def test_what_the_disk_did_not_take_of_a_turn_is_written_later(
    written: Journal, turn_of: TurnOf, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = os.write

    def short(fd: int, data: bytes) -> int:
        return write(fd, data[:size])

    buffer = turn_of(*TURN)
    monkeypatch.setattr(os, "write", short)
    buffer.flush()
    assert left_by(written) == TURN


def test_a_turn_that_a_full_disk_does_not_take_is_counted(
    written: Journal, turn_of: TurnOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(fd: int, data: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    buffer = turn_of(*TURN)
    monkeypatch.setattr(os, "write", full)
    monkeypatch.setattr(journal, "_write", full)
    buffer.flush()
    [(kind, payload, at_ns, _)] = left_by(written)
    assert (kind, at_ns) == (journal.GAP, 6)
    assert b'"client":8,"server":6,"stderr":0' in payload


def test_a_turn_longer_than_its_buffer_keeps_its_order(written: Journal, turn_of: TurnOf) -> None:
    long = [(journal.CLIENT, bytes([number]) * size, 2, 1) for number, size in enumerate((160, 30, 400, 9))]
    turn_of(*long)
    assert left_by(written) == long


def test_a_turn_at_the_end_of_a_segment(
    written: Journal, turn_of: TurnOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "SEGMENT_BYTES", 8)
    buffer = turn_of(*TURN)
    assert crash_buffer.left_records(written.folder, journal.position(1, 1000)) == TURN
    buffer.flush()
    assert crash_buffer.left_records(written.folder, written.position) == []
    buffer.append(journal.SERVER, 9, b"more", 2)
    assert left_by(written) == [*TURN, (journal.SERVER, b"more", 9, 2)]


def test_a_closed_buffer_has_journaled_its_turn(written: Journal, turn_of: TurnOf) -> None:
    turn_of(*TURN).close()
    assert left_by(written) == TURN
