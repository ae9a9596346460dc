"""The locks: each has one owner, is released when that ends, and is void once the journal is deleted."""

import os
import shutil
import signal
import threading
from pathlib import Path

from mcpproxy.base.files import Folder
from mcpproxy.record.recorder.lock import Lock, is_held_by_relay
from mcpproxy.record.recorder.recovery import recover, recover_copy
from mcpproxy.record.relay import journal
from tests.recorder import journals


def test_one_owner_at_a_time(tmp_path: Path) -> None:
    lock = Lock.take(str(tmp_path))
    assert lock
    assert Lock.take(str(tmp_path)) is None
    lock.release()
    again = Lock.take(str(tmp_path))
    assert again
    again.release()


def test_a_journal_that_is_gone_has_no_owner(tmp_path: Path) -> None:
    assert Lock.take(str(tmp_path / "gone")) is None


def test_the_lock_of_a_deleted_journal_is_worth_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "s.journal"
    folder.mkdir()
    lock = Lock.take(str(folder))
    assert lock
    taken: list[Lock | None] = []
    waiter = threading.Thread(target=lambda: taken.append(Lock.take(str(folder), is_waiting=True)))
    waiter.start()
    # Whether it waits by now or only begins to: either way it finds no journal.
    shutil.rmtree(folder)
    lock.release()
    waiter.join(60)
    assert taken == [None]


def test_a_process_that_dies_gives_it_back(tmp_path: Path) -> None:
    ready, tell = os.pipe()
    pid = os.fork()
    if pid == 0:
        Lock.take(str(tmp_path))
        os.write(tell, b"x")
        signal.pause()
        os._exit(0)
    os.read(ready, 1)
    assert Lock.take(str(tmp_path)) is None
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    lock = Lock.take(str(tmp_path))
    assert lock
    lock.release()
    os.close(ready)
    os.close(tell)


def test_the_lock_of_a_relay_is_seen_until_it_dies(tmp_path: Path) -> None:
    """Whatever its header says: here, that it is a process that does not exist."""
    trace = str(tmp_path / "s.jsonl")
    ready, tell = os.pipe()
    pid = os.fork()
    if pid == 0:
        written = journal.Journal(trace, journals.START[1], journals.STARTED_NS)
        if os.fork() == 0:  # as the recorder is, which may live longer
            signal.pause()
            os._exit(0)
        written.append(journal.CLIENT, journals.STARTED_NS + 1, b"{}\n")
        os.write(tell, b"x")
        signal.pause()
        os._exit(0)
    os.read(ready, 1)
    folder = Folder(journal.folder(trace))
    assert is_held_by_relay(folder)
    assert not recover(trace)
    assert not recover_copy(trace)
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    assert not is_held_by_relay(folder)
    assert recover(trace)
    os.kill(int(children[0]), signal.SIGKILL)
    os.close(ready)
    os.close(tell)


def test_a_relay_that_is_done_holds_no_lock(tmp_path: Path) -> None:
    trace = str(tmp_path / "s.jsonl")
    journal.Journal(trace, b"{}", 0).close(1)
    assert not is_held_by_relay(Folder(journal.folder(trace)))
    other = str(tmp_path / "t.jsonl")
    journal.Journal(other, b"{}", 0).discard()
    assert not Path(journal.folder(other)).exists()
