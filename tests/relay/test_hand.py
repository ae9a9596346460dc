"""The chunk in hand outlives a relay that is killed between forwarding and journaling."""

import errno
import os
from pathlib import Path

import pytest

from mcpproxy.recorder.follow import JournalReader
from mcpproxy.relay import hand, journal
from mcpproxy.relay.journal import Journal

START = b'{"transport":"stdio"}'


@pytest.fixture
def folder(tmp_path: Path) -> str:
    return str(tmp_path)


def test_what_was_taken_last_is_held(folder: str) -> None:
    holding = hand.Hand(folder, 64)
    holding.take(journal.CLIENT, 5, b"a longer question")
    holding.take(journal.SERVER, 7, b"answer", 3)
    assert hand.held(folder) == (journal.SERVER, 7, b"answer", 3)


def test_an_empty_hand_holds_nothing(folder: str) -> None:
    assert hand.held(folder) is None
    hand.Hand(folder, 64)
    assert hand.held(folder) is None


@pytest.mark.parametrize("content", [b"", b"\0" * 5, journal.HEAD.pack(99, 1, 0, 1) + b"short"])
def test_a_damaged_hand_holds_nothing(folder: str, content: bytes) -> None:
    Path(folder, hand.NAME).write_bytes(content)
    assert hand.held(folder) is None


def test_a_full_disk_is_refused_at_once(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def short(fd: int, data: bytes) -> int:
        return len(data) - 1

    monkeypatch.setattr(os, "write", short)
    with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
        hand.Hand(folder, 64)


def entries_after(
    journaled: list[tuple[int, int, bytes]], in_hand: tuple[int, int, bytes], trace: Path
) -> list[object]:
    """What a reader finds when the relay is gone, the START record left out."""
    written = Journal(str(trace), START, 1)
    for kind, at_ns, payload in journaled:
        written.append(kind, at_ns, payload)
    holding = hand.Hand(written.folder, 64)
    holding.take(*in_hand)
    assert written.close(9) == b""
    reader = JournalReader(written.folder)
    reader.end()
    found: list[object] = []
    while entries := reader.read():
        found += entries
    reader.close()
    return found[1:]


def test_a_chunk_that_was_forwarded_but_not_journaled_is_found(tmp_path: Path) -> None:
    found = entries_after([(journal.CLIENT, 2, b"ask")], (journal.SERVER, 3, b"answer"), tmp_path / "t")
    assert found == [(journal.CLIENT, b"ask", 2, 0), (journal.SERVER, b"answer", 3, 0)]


def test_a_chunk_that_was_journaled_is_not_found_again(tmp_path: Path) -> None:
    found = entries_after([(journal.SERVER, 3, b"answer")], (journal.SERVER, 3, b"answer"), tmp_path / "t")
    assert found == [(journal.SERVER, b"answer", 3, 0)]


def test_a_chunk_that_was_journaled_in_part_is_not_found_again(tmp_path: Path) -> None:
    found = entries_after([(journal.SERVER, 3, b"ans")], (journal.SERVER, 3, b"answer"), tmp_path / "t")
    assert found == [(journal.SERVER, b"ans", 3, 0)]


def test_last_words_come_after_the_journal_and_instead_of_the_hand(tmp_path: Path) -> None:
    written = Journal(str(tmp_path / "t"), START, 1)
    hand.Hand(written.folder, 64).take(journal.CLIENT, 8, b"lost")
    written.close(9)
    reader = JournalReader(written.folder)
    gap = b'{"reason":"full","client":4,"server":0,"stderr":0}'
    reader.end(journal.HEAD.pack(len(gap), journal.GAP, 0, 9) + gap)
    assert [kind for kind, *_ in reader.read()] == [journal.START]
    assert reader.read() == [(journal.GAP, gap, 9, 0)]
    assert reader.read() == []
    reader.close()


def test_a_journal_hands_over_what_a_full_disk_did_not_take(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = Journal(str(tmp_path / "t"), START, 1)

    def nothing(fd: int, parts: tuple[bytes, bytes]) -> int:
        return 0

    monkeypatch.setattr(journal, "_write", nothing)
    written.append(journal.CLIENT, 2, b"four")
    written.append(journal.EXIT, 3, b"{}")
    owed = written.close(4)
    assert owed.endswith(journal.HEAD.pack(2, journal.EXIT, 0, 3) + b"{}")
    assert b'"client":4' in owed
