"""The lock: it has one owner, is released when that ends, and is void once the journal is deleted."""

import os
import shutil
import signal
import threading
from pathlib import Path

from mcpproxy.recorder.lock import Lock


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
    waiter.join(10)
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
