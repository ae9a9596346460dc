"""A host for the relay's tests: starts a command, plain or behind a relay, and plays a client with it.

Every wait has a deadline, and what is waited for is bytes, an end of stream or an exit.
"""

import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import TracebackType

from mcpproxy.base.ready import is_readable
from mcpproxy.record.relay import journal

DEADLINE_S = 60
HERE = Path(__file__).parent
PEERS = str(HERE / "peers.py")

HOME = {**os.environ, "PYTHONPATH": str(HERE.parent.parent)}
"""The environment in which the relay is found."""

RELAYS = ("stdio", "threads", "macos")
"""The kinds of relay: for Linux, for systems without fork (Windows), and what Linux can play of macOS."""

LOOPS = ("stdio", "macos")
"""The kinds that fork the recorder and wait with ``poll``. The document of the relay says what is different
where the relay has threads."""

Record = tuple[int, int, bytes]


def peer(*words: str) -> list[str]:
    """The command of one of the servers in peers.py."""
    return [sys.executable, "-S", PEERS, *words]


def behind(
    kind: str, command: list[str], trace: str = "", recorder: str = "none", grace_s: float = 20
) -> list[str]:
    """``command`` behind a relay of this kind, as in ``drive.py``; plain for none at all."""
    if kind == "plain":
        return command
    return [sys.executable, "-S", str(HERE / "drive.py"), kind, trace, recorder, str(grace_s), *command]


def read_journal(trace: str) -> list[Record]:
    """The records of a journal: kind, time, payload. A torn one may only end a segment."""
    records: list[Record] = []
    for name in sorted(Path(journal.folder(trace)).glob("0*")):
        data, at = name.read_bytes(), 0
        while at + journal.HEAD.size <= len(data):
            length, kind, _, at_ns = journal.HEAD.unpack_from(data, at)
            at += journal.HEAD.size
            if at + length > len(data):
                break
            records.append((kind, at_ns, data[at : at + length]))
            at += length
    return records


def until_recorded(where: str | Path) -> None:
    """Wait until the recorder of a trace, or all that record into a folder, have removed their journals.

    On a busy machine a recorder needs longer than the relay waits for it.
    """
    end = time.monotonic() + 5 * DEADLINE_S  # a recorder has the lowest priority
    while os.path.isdir(journal.folder(str(where))) or any(Path(where).glob("*.journal")):
        assert time.monotonic() < end, f"{where} is still being recorded"
        select.select([], [], [], 0.005)  # it is nobody's child any more, so there is no exit to wait for


def stream(records: list[Record], kind: int) -> bytes:
    """All payloads of one kind, joined."""
    return b"".join(payload for one, _, payload in records if one == kind)


class Host:
    """A running command, and our ends of its streams (pipes or socket pairs)."""

    def __init__(
        self,
        command: list[str],
        over: str = "pipes",
        env: dict[str, str] | None = None,
        without: tuple[str, ...] = (),
        pass_fds: tuple[int, ...] = (),
        reads_errors: bool = True,
        process_group: int | None = None,
    ) -> None:
        pairs = [socket.socketpair() if over == "sockets" else os.pipe() for _ in range(3)]
        ends = [[end if isinstance(end, int) else end.detach() for end in pair] for pair in pairs]
        (theirs_in, self.stdin), (self.stdout, theirs_out), (self.stderr, theirs_err) = ends
        if over == "pipes":
            theirs_in, self.stdin = ends[0]
        environ = {name: value for name, value in HOME.items() if name not in without} | (env or {})
        self.over = over
        self.process = subprocess.Popen(
            command,
            stdin=theirs_in,
            stdout=theirs_out,
            stderr=theirs_err,
            env=environ,
            pass_fds=pass_fds,
            process_group=process_group,
        )
        for fd in (theirs_in, theirs_out, theirs_err):
            os.close(fd)
        self.errors = bytearray()
        self._collector = threading.Thread(target=self._collect)
        if reads_errors:
            self._collector.start()

    def read_errors(self) -> None:
        """Read stderr from now on, for a host that did not until now."""
        self._collector.start()

    def __enter__(self) -> "Host":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.end_input()
        self.stop_reading()
        if self._collector.ident is not None:
            self._collector.join(DEADLINE_S)
        os.close(self.stderr)

    def write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self.stdin, view) :]

    def write_aside(self, data: bytes, then_end: bool = True) -> threading.Thread:
        """Write from a thread, so that the caller can read at the same time."""

        def work() -> None:
            self.write(data)
            if then_end:
                self.end_input()

        thread = threading.Thread(target=work)
        thread.start()
        return thread

    def read(self, size: int) -> bytes:
        """Exactly ``size`` bytes of stdout, fewer at its end."""
        got = bytearray()
        while len(got) < size and (data := self._some(size - len(got))):
            got += data
        return bytes(got)

    def rest(self) -> bytes:
        return self.read(1 << 40)

    def _some(self, size: int) -> bytes:
        readable = is_readable(self.stdout, DEADLINE_S)
        assert readable, "nothing came in time"
        return os.read(self.stdout, min(size, 1 << 18))

    def silent_for(self, seconds: float) -> bool:
        return not is_readable(self.stdout, seconds)

    def end_input(self) -> None:
        if self.stdin >= 0:
            os.close(self.stdin)
            self.stdin = -1

    def stop_reading(self) -> None:
        if self.stdout >= 0:
            os.close(self.stdout)
            self.stdout = -1

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def wait(self) -> int:
        """The exit code, as a shell counts."""
        code = self.process.wait(DEADLINE_S)
        return code if code >= 0 else 128 - code

    def all_errors(self) -> bytes:
        """What came on stderr, up to its end."""
        self._collector.join(DEADLINE_S)
        assert not self._collector.is_alive(), "stderr did not end"
        return bytes(self.errors)

    def _collect(self) -> None:
        try:
            while data := os.read(self.stderr, 1 << 16):
                self.errors += data
        except ConnectionResetError:
            pass

    def until_said(self, words: bytes) -> None:
        """Wait until ``words`` have come on stderr."""
        end = time.monotonic() + DEADLINE_S
        while words not in self.errors:
            assert time.monotonic() < end, bytes(self.errors)
            select.select([], [], [], 0.005)

    def status(self, name: str) -> int:
        """A number from /proc/<pid>/status of the started process."""
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith(name + ":"):
                return int(line.split()[1])
        raise LookupError(name)


def gone(pid: int) -> bool:
    """Whether process ``pid`` ends before the deadline."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return is_readable(handle, DEADLINE_S)
    finally:
        os.close(handle)


def kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
