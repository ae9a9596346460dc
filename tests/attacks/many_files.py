"""A host whose children inherit more open files than ``select`` knows numbers for."""

import json
import resource
import sys
from pathlib import Path
from typing import Final

from tests.attacks.proxied import Origin, Proxied
from tests.attacks.stage import DEADLINE_S, Stage, Table, hold, is_line, read
from tests.relay.hosts import until_recorded

TABLE: Final = Table()

METHODS: Final = ("tools/list", "prompts/list")

_WANTED: Final = 1100
_OWN: Final = 100
"""What the command may open itself where no more than ``_WANTED`` are allowed."""

INHERITED: Final = (
    "import os, sys\n"
    "null = os.open(os.devnull, os.O_RDWR)\n"
    "for number in range(3, int(sys.argv[1])):\n"
    "    os.dup2(null, number)\n"
    "os.execv(sys.argv[2], sys.argv[2:])\n"
)


def _with_many_files() -> tuple[str, ...]:
    """What starts a command with that many; with fewer where the system allows no more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = min(soft if hard == resource.RLIM_INFINITY else hard, _WANTED + _OWN)
    raising = f"import resource; resource.setrlimit(resource.RLIMIT_NOFILE, ({allowed}, {allowed}))\n"
    return sys.executable, "-c", raising + INHERITED, str(allowed - _OWN)


def _message(method: str) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": METHODS.index(method), "method": method}).encode()


def _recorded(stage: Stage, trace: Path, text: str) -> None:
    for _ in stage.looks(f"{text} in the recording"):
        if trace.exists() and text in trace.read_text():
            return


def _whole(trace: Path, said: str) -> None:
    hold("Traceback" not in said and "out of range" not in said, f"it says {said.strip().splitlines()[-1:]}")
    until_recorded(trace)
    end = trace.read_text().splitlines()[-1]
    hold(end.startswith('{"type":"close"'), "the recording has no end")


@TABLE
def many_files_stdio(stage: Stage) -> str:
    """A host with 1,100 open files that we inherit: the wrapped session is passed on and recorded whole."""
    trace = stage.folder / "t.jsonl"
    process = stage.start("run", "--trace", str(trace), "--", "cat", before=_with_many_files())
    assert process.stdin is not None
    for method in METHODS:  # the second when the recorder has begun, and waits for it
        message = _message(method) + b"\n"
        process.stdin.write(message)
        process.stdin.flush()
        hold(read(process.stdout, is_line) == message, "it is not passed on")
        _recorded(stage, trace, method)
    _, err = process.communicate(timeout=DEADLINE_S)
    hold(process.returncode == 0, f"exit {process.returncode}")
    _whole(trace, err.decode(errors="replace"))
    return "recorded whole"


@TABLE
def many_files_http(stage: Stage) -> str:
    """The same for http before a server, where they stay open: each request is recorded at once."""
    with (
        Origin() as origin,
        Proxied(stage, origin, path="/mcp", before=_with_many_files()) as proxied,
    ):
        origin.answer = b'{"jsonrpc":"2.0","id":1,"result":{}}'
        for method in METHODS:
            answer = proxied.ask("POST", "/mcp", _message(method), {"Content-Type": "application/json"})
            hold(b"200 OK" in answer, f"the answer is {answer[:60]!r}")
            _recorded(stage, proxied.trace, method)
        proxied.stop()
        _whole(proxied.trace, proxied.said)
    return "recorded whole"
