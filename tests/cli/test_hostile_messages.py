"""Messages that a JSON parser takes and a writer does not, or that no parser takes: every command says
something about a recording of them, and none of them breaks off.
"""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from mcpproxy.judge.session.frame import Frame
from mcpproxy.read.opening import open_trace
from tests.cli import recordings
from tests.cli.conftest import Mcpproxy
from tests.cli.recordings import HANDSHAKE, close, frame
from tests.trace.test_foreign import envelope

DEADLINE_S = 60

HUGE: Final = "1" + "0" * 25
VALUES: Final = {
    "an integer of 65 bits": "18446744073709551616",
    "an integer of 26 digits": HUGE,
    "an integer of 900 digits": "9" * 900,
    "an integer of 5,000 digits": "9" * 5000,
    "a number beyond a double": "1e400",
    "a number that is all digits and a point": "0." + "1" * 5000,
    "half a surrogate pair": '"\\ud800"',
    "half a surrogate pair as a name": '{"\\udc00":1}',
    "a name twice": '{"a":1,"a":2}',
    "300 levels": "[" * 300 + "]" * 300,
    "1,010 levels": '{"a":' * 1010 + "1" + "}" * 1010,
    "NUL": '"\\u0000"',
    "spaces": "{ }",
}
NO_JSON: Final = {
    "NaN": "NaN",
    "infinity": "-Infinity",
    "5,000 levels": "[" * 5000 + "]" * 5000,
    "20,000 levels": "[" * 20_000 + "]" * 20_000,
}
TEXTS: Final = VALUES | NO_JSON
OF_EACH_KIND: Final = (
    "an integer of 5,000 digits",
    "half a surrogate pair as a name",
    "a name twice",
    "1,010 levels",
    "NaN",
    "20,000 levels",
)


def said(text: str) -> tuple[tuple[str, str], ...]:
    """The value as an argument, an id, an answer, a cursor, an error and an element, alone and in a batch."""
    ask = (
        f'{{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{{"name":"a","arguments":{{"x":{text}}}}}}}'
    )
    answer = f'{{"jsonrpc":"2.0","id":2,"result":{{"content":[],"structuredContent":{{"x":{text}}}}}}}'
    odd_id = f'{{"jsonrpc":"2.0","id":{text},"method":"tools/list","params":{{"cursor":{text}}}}}'
    odd_answer = f'{{"jsonrpc":"2.0","id":{text},"result":{{"tools":[{text}],"nextCursor":{text}}}}}'
    error = f'{{"jsonrpc":"2.0","id":3,"error":{{"code":{text},"message":{text},"data":{text}}}}}'
    told = f'{{"jsonrpc":"2.0","method":"notifications/message","params":{{"level":{text},"data":{text}}}}}'
    batched = f"[{ask.replace(':2,', ':4,')},{odd_id},{text}]"
    return (
        ("client", ask),
        ("server", told),
        ("server", answer),
        ("client", odd_id),
        ("server", odd_answer),
        ("client", '{"jsonrpc":"2.0","id":3,"method":"tools/list"}'),
        ("server", error),
        ("client", batched),
        ("server", f"[{answer.replace(':2,', ':4,')},{odd_answer},{told},{text}]"),
        ("client", f"[{text}]"),
    )


def trace(path: Path, text: str, *, is_json: bool) -> str:
    records = list(HANDSHAKE)
    for seq, (sender, message) in enumerate(said(text), 4):
        record = frame(seq, sender, "0")
        records.append(
            record.replace(
                '"message":0', f'"message":{message}' if is_json else f'"text":{json.dumps(message)}'
            )
        )
    return recordings.write(path, (*records, close(7, 6)))


@pytest.fixture(params=TEXTS, ids=list(TEXTS))
def recording(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    name: str = request.param
    return trace(tmp_path / "t.jsonl", TEXTS[name], is_json=name in VALUES)


def run(*argv: str, stdin: bytes = b"") -> "subprocess.CompletedProcess[bytes]":
    command = [sys.executable, "-m", "mcpproxy", *argv]
    return subprocess.run(command, input=stdin, capture_output=True, timeout=DEADLINE_S)


def test_every_command_that_reads_says_something(mcpproxy: Mcpproxy, tmp_path: Path, recording: str) -> None:
    """In this process: what a command does not catch ends the test."""
    other = trace(tmp_path / "other.jsonl", "1", is_json=True)
    formats = ("text", "json", "junit", "sarif", "github")
    commands = [
        ("show", recording),
        ("show", "--full", recording),
        ("show", "--json", "--full", recording),
        *(("check", "--format", each, recording) for each in formats),
        ("check", "--baseline", str(tmp_path / "baseline.json"), "--write-baseline", recording),
        ("list", str(tmp_path)),
        ("list", "--json", str(tmp_path)),
        ("versions", recording),
        ("versions", "--format", "json", recording),
        ("diff", recording, other),
        ("diff", other, recording),
        ("diff", "--format", "json", recording, other),
        ("diff", "--format", "junit", other, recording),
        ("trim", recording, "--frames", "8", "-o", str(tmp_path / "trimmed.jsonl")),
        ("redact", recording, "--preset", "secrets", "--key", "x", "-o", str(tmp_path / "redacted.jsonl")),
        ("pin", recording, "-o", str(tmp_path / "pins.json")),
    ]
    for command in commands:
        done = mcpproxy(*command)
        assert done.code in (0, 1, 2), command
        assert "Traceback" not in done.out + done.err, command
        if "json" in command or "--json" in command:
            for text in done.out.splitlines() if command[0] == "show" else [done.out or "0"]:
                json.loads(text, parse_constant=pytest.fail)
    same = mcpproxy("diff", recording, recording)
    assert (same.code, same.err) == (0, "")


def test_its_client_is_played_against_its_server(recording: str) -> None:
    server = [sys.executable, "-m", "mcpproxy", "replay", "server", recording]
    played = run("replay", "client", "--timeout", "30", recording, "--", *server)
    assert b"Traceback" not in played.stderr
    assert b"0 misses" in played.stderr
    assert played.returncode == 0, played.stdout


@pytest.mark.parametrize("recording", OF_EACH_KIND, indirect=True)
def test_its_client_is_played_against_its_server_over_http(recording: str) -> None:
    """What becomes of a value is the same on stdio, where all are tried."""
    command = [sys.executable, "-m", "mcpproxy", "replay", "server", "--http", "127.0.0.1:0", recording]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        try:
            found = (re.search(r"http://\S+", line) for line in server.stderr)
            where = next(each[0] for each in found if each)
            played = run("replay", "client", "--timeout", "30", recording, where)
        finally:
            server.terminate()
        said = server.stderr.read()
    assert "Traceback" not in said
    assert b"Traceback" not in played.stderr
    assert played.returncode in (0, 1), played.stderr


@pytest.mark.parametrize("text", TEXTS.values(), ids=list(TEXTS))
@pytest.mark.parametrize("form", ["mcp-rec", "mcpsnoop", "har"])
def test_it_is_imported(mcpproxy: Mcpproxy, tmp_path: Path, form: str, text: str) -> None:
    """To the byte, where the line can be read at all."""
    message = f'{{"jsonrpc":"2.0","id":2,"result":{{"x":{text}}}}}'
    forms = {
        "mcp-rec": f'{{"ts":1790000000.5,"dir":"server->client","msg":{message}}}\n',
        "mcpsnoop": envelope(1, "s2c", message),
        "har": f'{{"log":{{"entries":[{{"x":{text}}}]}}}}',
    }
    path, to = tmp_path / "foreign", tmp_path / "t.jsonl"
    path.write_text(forms[form])
    done = mcpproxy("import", "--format", form, str(path), "-o", str(to))
    assert done.code in (0, 2)
    assert "Traceback" not in done.err
    if text in VALUES.values() and form != "har" and done.code == 0:
        raws = [event.raw for event in open_trace(to).events() if isinstance(event, Frame)]
        assert raws == [message.encode()]
