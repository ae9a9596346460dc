"""The writer: what reaches the file, and what happens when the disk is full."""

import errno
import os
import stat
from pathlib import Path

import pytest

from mcpproxy.errors import TraceError
from mcpproxy.record.trace.writer import BATCH_BYTES, TraceWriter


class SmallDisk:
    """Stands in for ``os.write`` on a disk with room for ``free`` bytes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, free: int) -> None:
        self.free = free
        self._write = os.write
        monkeypatch.setattr("mcpproxy.record.trace.writer.os.write", self)

    def __call__(self, fd: int, data: memoryview) -> int:
        if self.free == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        count = self._write(fd, data[: self.free])
        self.free -= count
        return count


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "s.jsonl")


def content(path: str) -> bytes:
    return Path(path).read_bytes()


def test_records_are_collected_and_appended(path: str) -> None:
    writer = TraceWriter(path)
    writer.write(b"one\n")
    assert not os.path.exists(path)
    assert writer.flush()
    writer.write(b"two\n")
    assert writer.flush()
    assert content(path) == b"one\ntwo\n"
    assert writer.size == 8
    writer.close()
    writer.close()


def test_a_batch_is_written_by_itself(path: str) -> None:
    writer = TraceWriter(path)
    writer.write(b"x" * BATCH_BYTES + b"\n")
    assert writer.size == BATCH_BYTES + 1
    writer.close()


def test_a_large_record_stays_in_order(path: str) -> None:
    writer = TraceWriter(path)
    writer.write(b"one\n")
    writer.write_large((b"<", b"x" * (1 << 20), b">\n"))
    writer.write(b"two\n")
    assert writer.flush()
    assert content(path) == b"one\n<" + b"x" * (1 << 20) + b">\ntwo\n"
    writer.close()


def test_only_the_owner_may_read_it(path: str) -> None:
    writer = TraceWriter(path)
    writer.flush()
    writer.close()
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600


def test_a_file_that_is_there_is_not_touched(path: str) -> None:
    Path(path).write_bytes(b"precious")
    writer = TraceWriter(path)
    writer.write(b"one\n")
    with pytest.raises(TraceError, match="exists already"):
        writer.flush()
    assert content(path) == b"precious"


def test_a_recording_is_continued_from_where_it_stood(path: str) -> None:
    Path(path).write_bytes(b"one\ntwo\nthr")
    writer = TraceWriter(path, resume_at=4)
    writer.write(b"2\n")
    assert writer.flush()
    assert content(path) == b"one\n2\n"
    writer.close()


@pytest.mark.parametrize("free", range(9))
def test_what_a_full_disk_did_not_take_is_kept(path: str, free: int, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = SmallDisk(monkeypatch, free)
    writer = TraceWriter(path)
    writer.write(b"one\n")
    writer.write(b"two2\n")
    assert not writer.flush()
    assert writer.fault == "No space left on device"
    assert content(path) == b"one\ntwo2\n"[:free]
    writer.write(b"three\n")
    assert not writer.flush()
    disk.free = 100
    assert writer.flush()
    assert writer.fault is None
    assert content(path) == b"one\ntwo2\nthree\n"
    writer.close()


@pytest.mark.parametrize("free", [3, 4, 5, BATCH_BYTES, 3 * BATCH_BYTES + 4, 3 * BATCH_BYTES + 5])
def test_a_large_record_that_a_full_disk_did_not_take_is_kept(
    path: str, free: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = SmallDisk(monkeypatch, free)
    writer = TraceWriter(path)
    writer.write(b"one\n")
    writer.write_large((b"<", b"x" * 3 * BATCH_BYTES, b">\n"))
    writer.write_large((b"<", b"y" * BATCH_BYTES, b">\n"))
    writer.write(b"z" * BATCH_BYTES)
    disk.free = 10 * BATCH_BYTES
    assert writer.flush()
    expected = b"one\n<" + b"x" * 3 * BATCH_BYTES + b">\n<" + b"y" * BATCH_BYTES + b">\n" + b"z" * BATCH_BYTES
    assert content(path) == expected
    writer.close()


@pytest.mark.parametrize(
    ("free", "reserve", "left"),
    [
        (0, 0, b""),
        (3, 0, b""),
        (4, 0, b"one\n"),
        (7, 0, b"one\n"),
        (8, 0, b"one\ntwo\n"),
        (8, 1, b"one\n"),
        (8, 99, b""),
    ],
)
def test_giving_up_leaves_whole_records(
    path: str, free: int, reserve: int, left: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = SmallDisk(monkeypatch, free)
    writer = TraceWriter(path)
    for record in (b"one\n", b"two\n", b"three\n"):
        writer.write(record)
    assert not writer.flush()
    assert writer.rewind(reserve) == len(left)
    disk.free = 100
    writer.write(b"end\n")
    assert writer.flush()
    assert content(path) == left + b"end\n"
    writer.close()


def test_the_last_whole_record_is_found_behind_a_large_torn_one(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    SmallDisk(monkeypatch, 300_000)
    writer = TraceWriter(path)
    writer.write(b"one\n" + b"x" * 400_000)
    assert writer.rewind() == 4
    writer.close()


def test_a_file_that_cannot_be_made_is_tried_again(tmp_path: Path) -> None:
    folder = tmp_path / "later"
    writer = TraceWriter(str(folder / "s.jsonl"))
    writer.write(b"one\n")
    assert not writer.flush()
    assert writer.fault == "No such file or directory"
    folder.mkdir()
    assert writer.flush()
    assert content(writer.path) == b"one\n"
    writer.close()
    assert TraceWriter(writer.path).rewind() == 0
