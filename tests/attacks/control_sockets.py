"""Names beside recordings that look like the socket of a session and are none, or are somebody else's."""

import http.client
import json
import os
import re
import socket
import subprocess
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.attacks.stage import DEADLINE_S, BrokenError, Stage, Table, hold, is_line, read
from tests.cli import recordings

TABLE: Final = Table()

ESCAPE: Final = "\x1b]0;owned\x07\n::error::forged"


@contextmanager
def _page(stage: Stage, folder: Path) -> Generator[http.client.HTTPResponse]:
    """The live stream of the page of a folder."""
    process = stage.start("ui", str(folder), stdin=subprocess.DEVNULL)
    said = read(process.stdout, is_line).decode()
    found = re.search(r"127\.0\.0\.1:(\d+)/\?token=(\S+)", said)
    if found is None:
        raise BrokenError(f"no address: {said!r}")
    connection = http.client.HTTPConnection("127.0.0.1", int(found[1]), timeout=DEADLINE_S)
    connection.request("GET", "/api/live", headers={"Authorization": f"Bearer {found[2]}"})
    try:
        yield connection.getresponse()
    finally:
        connection.close()
        process.kill()


def _held(stream: http.client.HTTPResponse) -> dict[str, object]:
    """What is held, as the page is told first."""
    try:
        while (line := stream.readline().strip()) != b"event: held":
            if not line and stream.isclosed():
                raise BrokenError("the live stream of the page ends")
        return json.loads(stream.readline().partition(b":")[2])
    except (OSError, http.client.HTTPException) as error:
        raise BrokenError(f"the live stream of the page ends: {type(error).__name__}") from None


def _left(path: Path) -> None:
    """A socket at which nobody listens any more."""
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(str(path))


def _folder(stage: Stage) -> Path:
    folder = stage.folder / "f"
    folder.mkdir()
    for name in ("a.jsonl", "b.jsonl", "c.jsonl", "d.jsonl", "e.jsonl"):
        recordings.write(folder / name, recordings.CLEAN)
    for name in ("myext.control", "a.jsonl.control"):
        (folder / name).write_text("default_version = '1.0'\n")
    os.mkfifo(folder / "b.jsonl.control")
    (folder / "c.jsonl.control").symlink_to("missing")
    _left(folder / "d.jsonl.control")
    _left(folder / "service.control")
    (folder / "e.jsonl.control").symlink_to("service.control")
    return folder


@TABLE
def files_named_like_sockets(stage: Stage) -> str:
    """Whatever is named like a session's socket is there after page, breakpoints and session."""
    folder = _folder(stage)
    before = sorted(os.listdir(folder))
    with _page(stage, folder) as stream:
        _held(stream)
    for name in ("a", "b", "c", "d", "e"):
        hold(stage.run("breakpoints", "--trace", f"f/{name}.jsonl").code == 2, "breakpoints is content")
    gone = ", ".join(sorted(set(before) - set(os.listdir(folder))))
    hold(not gone, f"deleted: {gone}")
    wanted = stage.folder / "new.jsonl.control"
    wanted.write_text("of the user")
    stage.run("--break", "tool:x", "--trace", "new.jsonl", "--", "true", doing="a session")
    hold(wanted.exists() and wanted.read_text() == "of the user", "a session replaces a file by its socket")
    return f"{len(before)} names are there"


ODD: Final[dict[str, object]] = {
    "list": [],
    "text": "x",
    "held is text": {"state": 1, "held": "x"},
    "no members": {"state": 1, "held": [{}]},
    "no state": {"held": []},
    "nothing": {},
    "refused": {"refused": [ESCAPE, {}]},
}


class _Talker:
    """Listens at ``path`` and answers each line with ``answer``; with ``endless`` the line has no end."""

    def __init__(self, path: Path, answer: bytes, *, endless: bool = False) -> None:
        self.path, self.answer, self.endless = path, answer, endless
        self.connections = 0
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:  # closed
                return
            self.connections += 1
            threading.Thread(target=self._serve, args=(sock,), daemon=True).start()

    def _serve(self, sock: socket.socket) -> None:
        with sock:
            try:
                while sock.recv(1 << 16):
                    sock.sendall(self.answer if self.endless else self.answer + b"\n")
                    while self.endless:
                        sock.sendall(self.answer)
            except OSError:  # it has gone
                pass

    def close(self) -> None:
        self._listener.close()
        self.path.unlink()


def _message(**members: object) -> dict[str, object]:
    facts: dict[str, object] = {
        "number": 1, "from": "client", "rule": "x", "held_s": 1, "left_s": 1, "then": "pass", "findings": [],
        "kind": "request", "method": "m", "target": None, "id": "1", "bytes": 2, "start": "e30=",
    }  # fmt: skip
    return {"state": 1, "held": [facts | members]}


@TABLE
def odd_answers(stage: Stage) -> str:
    """Another program's answers: one line, no escapes, and the page goes on for the other sessions."""
    odd = {
        **ODD,
        "time": _message(held_s="x"),
        "number": _message(left_s=10**400),
        "from": _message(**{"from": ESCAPE, "then": ESCAPE}),
        "start": _message(start="$"),
        "surrogate": _message(method="\ud800"),
    }
    lines = {name: json.dumps(answer).encode() for name, answer in odd.items()}
    lines |= {"nan": b'{"state":NaN,"held":[]}', "deep": b"[" * 50_000, "bytes": b"\xff"}
    broken: list[str] = []
    talkers: dict[str, _Talker] = {}
    for number, (name, line) in enumerate(lines.items()):
        trace = f"{number}.jsonl"
        recordings.write(stage.folder / trace, recordings.CLEAN)
        talkers[name] = _Talker(stage.folder / f"{trace}.control", line)
        try:
            done = stage.run("breakpoints", "--trace", trace, doing=name)
            if "\x1b" in done.out + done.err or "\n::error" in done.out + done.err:
                raise BrokenError(f"{name}: raw escapes")
        except BrokenError as error:
            broken.append(str(error))
    asked = {name: talker.connections for name, talker in talkers.items()}
    with _page(stage, stage.folder) as stream:
        for _ in stage.looks("a question of the page to each session"):
            if all(talker.connections > asked[name] for name, talker in talkers.items()):
                break
        _held(stream)
    for talker in talkers.values():
        talker.close()
    hold(not broken, f"{len(broken)} of {len(lines)}: {broken[:2]}")
    return f"{len(lines)} answers"


@TABLE
def endless_answer(stage: Stage) -> str:
    """An answer that does not end: breakpoints does."""
    recordings.write(stage.folder / "a.jsonl", recordings.CLEAN)
    talker = _Talker(stage.folder / "a.jsonl.control", b"[" * (1 << 20), endless=True)
    done = stage.run("breakpoints", "--trace", "a.jsonl")
    talker.close()
    hold(done.code == 2 and "does not answer" in done.err, done.err[-80:])
    return "one line"


@TABLE
def link_to_a_socket(stage: Stage) -> str:
    """A name that is a link to another program's socket: it is not followed."""
    recordings.write(stage.folder / "a.jsonl", recordings.CLEAN)
    talker = _Talker(stage.folder / "service", b"{}")
    (stage.folder / "a.jsonl.control").symlink_to("service")
    stage.run("breakpoints", "--trace", "a.jsonl")
    with _page(stage, stage.folder) as stream:
        _held(stream)
    talker.close()
    hold(not talker.connections, f"{talker.connections} connections to it")
    return "not connected to"
