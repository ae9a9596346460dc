"""Closed gates: addons that fail closed, messages at breakpoints, and the socket that answers those."""

import json
import os
import re
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

from tests.attacks.proxied import Origin
from tests.attacks.stage import DEADLINE_S, Stage, Table, hold, is_line, read
from tests.intercept.odd_messages import ADDON, REQUESTS, RESPONSES, SECRET

TABLE: Final = Table()

_BLOCKS: Final = """
import os, time
from mcpproxy.addons import Addon
class Guard(Addon):
    fail_open = False
    budget_s = {budget_s}
    def request(self, session, message):
        if message.tool == "SECRET":
            {does}
            return message.error(1, "blocked")
    def response(self, session, request, message):
        return None
"""
_CALL: Final = b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"SECRET"}}'
_SERVER: Final = Path(__file__).parent.parent / "intercept" / "odd_messages.py"


class Wrapped:
    """A client before a server that takes every line; ``heard`` is what that was given."""

    def __init__(self, stage: Stage, *options: str, addon: str = "") -> None:
        self._stage = stage
        self.trace = str(stage.folder / "t.jsonl")
        self._heard = stage.folder / "heard"
        self._heard.touch()
        if addon:
            (stage.folder / "guard.py").write_text(addon)
            options = (*options, "--addon", "guard.py")
        server = (sys.executable, str(_SERVER), str(self._heard))
        # The server imports nothing of this project but the module that it is.
        with (stage.folder / "stderr").open("wb") as stderr:
            self.process = stage.start(
                "run", "--trace", self.trace, *options, "--", *server, stderr=stderr.fileno()
            )
        self._unread = b""
        self.say(b'{"jsonrpc":"2.0","id":0,"method":"initialize","params":{}}')
        self.hear()

    @property
    def heard(self) -> bytes:
        return self._heard.read_bytes()

    @property
    def stderr(self) -> str:
        return (self._stage.folder / "stderr").read_text(errors="replace")

    def say(self, line: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + b"\n")
        self.process.stdin.flush()

    def hear(self) -> bytes:
        got = self._unread
        if b"\n" not in got:
            got += read(self.process.stdout, lambda new: b"\n" in new)
        line, _, self._unread = got.partition(b"\n")
        return line

    def until_answer(self, id: int) -> list[bytes]:
        """The lines up to the answer to a ping with this id, without it."""
        self.say(b'{"jsonrpc":"2.0","id":%d,"method":"ping"}' % id)
        lines = [self.hear()]
        while not re.match(rb'\{"jsonrpc": ?"2.0", ?"id": ?%d,' % id, lines[-1]):
            lines.append(self.hear())
        return lines[:-1]


def _calls(stage: Stage, does: str, budget_s: float) -> str:
    wrapped = Wrapped(stage, addon=_BLOCKS.format(does=does, budget_s=budget_s))
    for id in range(1, 9):
        wrapped.say(_CALL % id)
        answer = wrapped.hear()
        hold(b'"error"' in answer, f"call {id} was executed")
    hold(SECRET not in wrapped.heard, "the server got a call")
    hold("Traceback" not in wrapped.stderr, "a traceback on stderr")
    return "8 of 8 are answered with an error"


@TABLE
def a_closed_addon_always_hangs(stage: Stage) -> str:
    """An addon that fails closed and hangs at every call: none is executed."""
    return _calls(stage, "time.sleep(600)", 0.05)


@TABLE
def a_closed_addon_always_ends(stage: Stage) -> str:
    """An addon that fails closed and ends its process at every call: none is executed."""
    return _calls(stage, "os._exit(1)", 10)


@TABLE
def answers_open_a_closed_addon(stage: Stage) -> str:
    """A server that answers what nests 980 to 1,024 deep: an addon that blocks a tool still blocks it."""
    wrapped = Wrapped(stage, addon=_BLOCKS.format(does="pass", budget_s=1))
    for number, depth in enumerate((985, 1000, 1015, 1023)):
        deep = b"[" * depth + b"]" * depth
        wrapped.say(b'{"jsonrpc":"2.0","id":"%d","result":%b}' % (number, deep))
    wrapped.until_answer(900)
    wrapped.say(_CALL % 7)
    hold(b'"blocked"' in wrapped.hear(), "the call was executed, or the addon was not asked")
    hold("Traceback" not in wrapped.stderr, "a traceback on stderr")
    return "blocked"


@TABLE
def odd_requests_pass_a_closed_addon(stage: Stage) -> str:
    """Requests that are no JSON, batches or too long: none passes a closed addon, and each is answered."""
    wrapped = Wrapped(stage, addon=ADDON)
    for id, odd in enumerate(REQUESTS, 1):
        wrapped.say(odd.raw.replace(b"ID", b"%d" % id))
        lines = wrapped.until_answer(1000 + id)
        hold(not odd.told or any(b'"error"' in line for line in lines), f"{odd.name}: no answer")
    hold(SECRET not in wrapped.heard, f"{wrapped.heard.count(SECRET)} were executed")
    return f"0 of {len(REQUESTS)}"


@TABLE
def odd_answers_pass_a_closed_addon(stage: Stage) -> str:
    """Answers that are no JSON, batches or too long: none passes a closed addon, an error comes instead."""
    wrapped = Wrapped(stage, addon=ADDON)
    for number, odd in enumerate(RESPONSES):
        wrapped.say(b'{"jsonrpc":"2.0","id":%d,"method":"say","params":%d}' % (number, number))
        lines = wrapped.until_answer(1000 + number)
        hold(not any(SECRET in line for line in lines), f"{odd.name} passed")
        hold(odd.told != "ID" or any(b'"error"' in line for line in lines), f"{odd.name}: no answer")
    return f"0 of {len(RESPONSES)}"


@TABLE
def odd_bodies_pass_a_closed_addon(stage: Stage) -> str:
    """Over HTTP the same, and bodies that are compressed: none passes a closed addon, either way."""
    (stage.folder / "guard.py").write_text(ADDON)
    call = _CALL % 7
    with Origin() as origin:
        trace = str(stage.folder / "h.jsonl")
        options = ("--listen", "127.0.0.1:0", "--trace", trace, "--addon", "guard.py")
        upstream = f"http://127.0.0.1:{origin.port}/mcp"
        process = stage.start("http", upstream, *options, stdin=subprocess.DEVNULL)
        said = read(process.stderr, lambda got: b"listening on http://" in got and is_line(got))
        found = re.search(rb"listening on http://127.0.0.1:(\d+)", said)
        assert found is not None
        port = int(found[1])
        requests = [(odd.name, odd.raw.replace(b"ID", b"7"), b"") for odd in REQUESTS]
        requests += [
            (field.decode(), call, field + b"\r\n")
            for field in (b"Content-Encoding: gzip", b"Expect: 100-continue")
        ]
        for name, body, field in requests:
            answer = _post(port, body, field)
            hold(answer[:9] == b"HTTP/1.1 ", f"{name}: no answer")
        hold(not origin.heard, f"{len(origin.heard)} requests passed")
        for odd in RESPONSES:
            origin.answer = odd.raw.replace(b"ID", b"7")
            answer = _post(port, b'{"jsonrpc":"2.0","id":7,"method":"ping"}')
            hold(SECRET not in answer, f"the answer {odd.name} passed")
            hold(b'"id":7,"error"' in answer, f"{odd.name}: no error for the request")
        origin.answer, origin.fields = b'{"x":"SECRET"}', [b"Content-Encoding: br"]
        hold(
            SECRET not in _post(port, b'{"jsonrpc":"2.0","id":7,"method":"ping"}'),
            "a compressed answer passed",
        )
    return f"0 of {len(requests)} requests, 0 of {len(RESPONSES) + 1} answers"


def _post(port: int, body: bytes, field: bytes = b"") -> bytes:
    head = b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nConnection: close\r\n%b" % (port, field)
    head += b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
    answer = b""
    with socket.create_connection(("127.0.0.1", port), DEADLINE_S) as sock:
        sock.sendall(head + body)
        while data := sock.recv(1 << 20):
            answer += data
    return answer


@TABLE
def a_held_message_is_answered_badly(stage: Stage) -> str:
    """Answers to a held message that cannot be written: it is still held, and the person gets one line."""
    wrapped = Wrapped(stage, "--break", "from:client tool:SECRET")
    wrapped.say(_CALL % 7)
    for _ in stage.looks("the message at the breakpoint"):
        if '"SECRET"' in stage.run("breakpoints", "--trace", wrapped.trace).out:
            break
    for do in ("error", "edit"):
        done = stage.run("breakpoints", do, "1", "--text", os.fsdecode(b"caf\xe9"), "--trace", wrapped.trace)
        hold((done.code, done.err.count("\n")) == (2, 1), f"{do}: exit {done.code}, {done.err[-80:]}")
    _command(wrapped.trace, {"do": "edit", "number": 1, "base64": "@@@"})
    hold('"SECRET"' in stage.run("breakpoints", "--trace", wrapped.trace).out, "it is not held any more")
    done = stage.run("breakpoints", "error", "1", "--trace", wrapped.trace)
    hold(done.code == 0, f"exit {done.code}")
    hold(b'"id":7,"error"' in wrapped.hear(), "no answer")
    return "held, and then answered"


@TABLE
def a_command_nests_deep(stage: Stage) -> str:
    """Commands on the socket of breakpoints that nest 5,000 deep or are no commands: the session goes on."""
    wrapped = Wrapped(stage, "--break", "tool:none")
    for command in (b"[" * 5000 + b"]" * 5000, b'{"a":' * 5000, b"\xff", b"5", b'{"do":{}}'):
        hold(b"refused" in _command(wrapped.trace, command), f"{command[:20]!r} is not refused")
    wrapped.until_answer(5)
    hold("Traceback" not in wrapped.stderr, "a traceback on stderr")
    return "refused"


def _command(trace: str, command: bytes | dict[str, Any]) -> bytes:
    line = command if isinstance(command, bytes) else json.dumps(command).encode()
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(DEADLINE_S)
        sock.connect(trace + ".control")
        sock.sendall(line + b"\n")
        return sock.recv(1 << 16)
