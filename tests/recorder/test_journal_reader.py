"""The journal reader: it reads every record once, in order, while segments are written and deleted."""

import errno
from pathlib import Path

import pytest

from mcpproxy.base.files import Folder
from mcpproxy.errors import TraceError
from mcpproxy.record.recorder import journal_reader
from mcpproxy.record.recorder.checkpoint import Checkpoint, PartialLine, read_checkpoint, write_checkpoint
from mcpproxy.record.recorder.journal_reader import JournalReader
from mcpproxy.record.relay import journal
from mcpproxy.record.relay.journal import SEGMENT_BYTES, Journal
from tests.recorder.journals import EXIT, SESSION, START, Entry, JournalFolder, client, packed

NO_LINE = PartialLine(b"", 0)


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    return tmp_path / "s.jsonl"


def everything(reader: JournalReader) -> list[Entry]:
    found: list[Entry] = []
    while entries := reader.read():
        found += entries
    return found


def test_records_come_as_they_were_written(trace: Path) -> None:
    reader = JournalReader(str(JournalFolder(trace, SESSION).path))
    assert reader.has_more()
    assert everything(reader) == SESSION
    assert not reader.has_more()
    reader.close()


def test_a_growing_segment_is_followed_byte_by_byte(trace: Path) -> None:
    folder = JournalFolder(trace, [])
    reader = JournalReader(str(folder.path))
    found: list[Entry] = []
    for byte in packed(*SESSION):
        folder.append(1, bytes([byte]))
        found += everything(reader)
    assert found == SESSION
    reader.close()


def test_a_segment_follows_the_other(trace: Path) -> None:
    folder = JournalFolder(trace)
    reader = JournalReader(str(folder.path))
    assert everything(reader) == []
    assert not reader.has_more()
    for number, entry in enumerate(SESSION, start=1):
        folder.append(number, packed(entry))
        assert reader.has_more()
        assert everything(reader) == [entry]
        assert not reader.has_more()
    assert reader.read_segments == len(SESSION) - 1
    reader.close()


@pytest.mark.parametrize("size", range(1, len(packed(client(b"lost")))))
def test_a_torn_record_is_passed_over_once_the_next_segment_is_there(trace: Path, size: int) -> None:
    folder = JournalFolder(trace, [START])
    folder.append(1, packed(client(b"lost"))[:size])
    reader = JournalReader(str(folder.path))
    assert everything(reader) == [START]
    assert not reader.has_more()
    folder.append(2, packed(EXIT))
    assert everything(reader) == [EXIT]
    reader.close()


def test_a_record_larger_than_a_read_comes_whole(trace: Path) -> None:
    big = client(b"x" * (1 << 20))
    reader = JournalReader(str(JournalFolder(trace, [START, big, EXIT]).path))
    assert everything(reader) == [START, big, EXIT]
    reader.close()


def test_what_the_relay_writes_is_read(trace: Path) -> None:
    """Over a rotation, with the real writing end."""
    entries = [client(b"x" * (1 << 20), at) for at in range(12)]
    relay = Journal(str(trace), START[1], START[2])
    for kind, payload, at_ns, _ in entries:
        relay.append(kind, at_ns, payload)
    relay.close(0)
    reader = JournalReader(journal.folder(str(trace)))
    assert everything(reader) == [START, *entries]
    assert reader.segment == 2
    assert SEGMENT_BYTES < 12 << 20
    reader.close()


def test_reading_goes_on_at_a_checkpoint(trace: Path) -> None:
    folder = JournalFolder(trace, SESSION[:3], SESSION[3:])
    reader = JournalReader(str(folder.path))
    reader.read()
    reader.read()
    folder.append(2, packed(EXIT))
    reader.checkpoint_and_clear(Checkpoint(trace_bytes=77, held=(NO_LINE, PartialLine(b"half", 5), NO_LINE)))
    reader.close()
    assert folder.names() == ["00000002", "checkpoint"]
    start = read_checkpoint(str(folder.path))
    assert start == Checkpoint(2, len(packed(*SESSION[3:])), 77, (NO_LINE, PartialLine(b"half", 5), NO_LINE))
    again = JournalReader(str(folder.path), start)
    assert everything(again) == [EXIT]
    assert again.read_segments == 0
    again.close()


def test_a_checkpoint_that_cannot_be_written_deletes_nothing(trace: Path) -> None:
    folder = JournalFolder(trace, SESSION[:3], SESSION[3:])
    reader = JournalReader(str(folder.path))
    everything(reader)
    (folder.path / "checkpoint.new").mkdir()
    with pytest.raises(OSError, match="directory"):
        reader.checkpoint_and_clear(Checkpoint())
    reader.close()
    assert folder.names() == ["00000001", "00000002", "checkpoint.new"]


def test_a_segment_that_another_program_has_open_is_deleted_later(
    trace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = JournalFolder(trace, SESSION[:1], SESSION[1:2], SESSION[2:3])
    reader = JournalReader(str(folder.path))
    everything(reader)
    unlink = Folder.unlink

    def refuse(opened: Folder, name: str) -> None:
        if name == "00000001":
            raise PermissionError(errno.EACCES, "in use")
        unlink(opened, name)

    with monkeypatch.context() as while_it_is_open:
        while_it_is_open.setattr(Folder, "unlink", refuse)
        reader.checkpoint_and_clear(Checkpoint())
    assert folder.names() == ["00000001", "00000003", "checkpoint"]
    assert reader.read_segments == 0
    reader.checkpoint_and_clear(Checkpoint())
    assert folder.names() == ["00000003", "checkpoint"]
    reader.close()


def test_clearing_deletes_every_segment_that_was_read(trace: Path) -> None:
    folder = JournalFolder(trace, SESSION[:3], SESSION[3:])
    reader = JournalReader(str(folder.path))
    everything(reader)
    reader.clear()
    assert folder.names() == []


def test_a_journal_without_a_checkpoint(trace: Path) -> None:
    assert read_checkpoint(str(JournalFolder(trace).path)) is None


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"{}", b'{"segment":1,"offset":0,"trace_bytes":0,"held":[["?",0],["",0],["",0]]}'],
)
def test_a_damaged_checkpoint_is_said_to_be(trace: Path, content: bytes) -> None:
    folder = JournalFolder(trace)
    (folder.path / "checkpoint").write_bytes(content)
    with pytest.raises(TraceError, match="the checkpoint is damaged"):
        read_checkpoint(str(folder.path))


def test_a_checkpoint_replaces_the_one_before(trace: Path) -> None:
    folder = JournalFolder(trace)
    for offset in (1, 2):
        write_checkpoint(str(folder.path), Checkpoint(offset=offset))
    assert read_checkpoint(str(folder.path)) == Checkpoint(offset=2)


def test_removing_takes_all_of_it_and_can_be_repeated(trace: Path) -> None:
    folder = JournalFolder(trace, SESSION, SESSION)
    write_checkpoint(str(folder.path), Checkpoint())
    journal_reader.remove(str(folder.path))
    assert not folder.path.exists()
    journal_reader.remove(str(folder.path))


def test_what_cannot_be_deleted_stays(trace: Path) -> None:
    folder = JournalFolder(trace, SESSION)
    (folder.path / "kept").mkdir()
    journal_reader.remove(str(folder.path))
    assert folder.names() == ["kept"]
