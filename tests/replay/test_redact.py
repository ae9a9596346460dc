"""A copy with values masked: what is, what is not, and that it still is the same conversation."""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from mcpproxy.judge.session.frame import Finding, Frame, RequestHead, ResponseHead, SseEvent, Stderr
from mcpproxy.judge.session.masked_values import is_masked
from mcpproxy.peers.replay.recording import load
from mcpproxy.protocol.jsonrpc import JSONObject
from mcpproxy.read.edit.redact import Redaction, RedactionScope
from mcpproxy.read.opening import open_trace
from mcpproxy.record.recorder.masking import Masker
from mcpproxy.record.trace.copy import write_trace
from mcpproxy.record.trace.encode import encode, encode_header
from mcpproxy.record.trace.records import Encoded, Header, Recorded, frame_bytes
from tests.cli import recordings
from tests.cli.conftest import Mcpproxy
from tests.cli.recordings import CLEAN, HANDSHAKE, HEADER, close, finding, frame
from tests.replay.test_trim import judged, write
from tests.rules import runner

JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJlLW9mLWl0"
PEM = "-----BEGIN RSA PRIVATE KEY-----\nMIIEow\nIBAAK\n-----END RSA PRIVATE KEY-----"
GITHUB = "ghp_" + "a1B2" * 9
AWS = "AKIA" + "Q3RT" * 4


def masked(message: object, what: RedactionScope) -> JSONObject:
    """A message after it was redacted."""
    raw = message if isinstance(message, bytes) else json.dumps(message).encode()
    new = Redaction(what).record(Frame(1, "client", raw))
    assert isinstance(new, Frame)
    value: JSONObject = json.loads(new.raw)
    return value


def call(**arguments: object) -> dict[str, object]:
    return {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": "t", "arguments": arguments},
    }


def test_every_piece_of_a_long_message_is_counted() -> None:
    redaction = Redaction(RedactionScope(keys=("token",)))
    pieces = [b'{"id":', b"1,", b'"token":1}', b"no message at all"]
    for number, raw in enumerate(pieces, 1):
        redaction.record(Frame(number, "client", raw, continues=number < 3))
    assert redaction.text_pieces == 3


PIECES: dict[str, Callable[[str], object]] = {
    "anthropic": lambda piece: {"type": "content_block_delta", "delta": {"partial_json": piece}},
    "responses": lambda piece: {"type": "response.function_call_arguments.delta", "delta": piece},
    "chat": lambda piece: {"choices": [{"delta": {"tool_calls": [{"function": {"arguments": piece}}]}}]},
}


@pytest.mark.parametrize("event", PIECES.values(), ids=PIECES)
def test_arguments_that_a_model_streams_are_masked_in_every_piece(event: Callable[[str], object]) -> None:
    def redacted(piece: str) -> str:
        raw = json.dumps(event(piece)).encode()
        new = Redaction(RedactionScope(secrets=True)).record(
            Frame(1, "server", raw, event=SseEvent(b"data: ", b"\n\n"))
        )
        assert isinstance(new, Frame)
        json.loads(new.raw)
        return new.raw.decode()

    for piece in ('{"city": "Oslo", "tok', 'en": "hunter2é', "4711", '"hunter2"', '"}'):
        assert json.dumps(piece)[1:-1] not in redacted(piece)
    assert "Oslo" in redacted('{"city": "Oslo"}')
    assert "hunter2" not in redacted('{"city": "Oslo", "token": "hunter2"}')


SECRETS = {
    "AWS": AWS,
    "GitHub": GITHUB,
    "Slack": "xoxb-123456789012-abcdefABCDEF",
    "JWT": JWT,
    "a private key": PEM,
    "a private key without end": PEM[:45],
    "the token of a header": "Bearer 0123456789abcdef",
    "the password of a URL": "postgres://me:hunter22@db/x",
    "a setting": "API_KEY=abcdef123456",
    "a setting in JSON": '{"client_secret": "abcdef"}',
    "behind a colon": "the password: correct7horse",
    "behind another name": "https://h/x?sig=abcdef123456",
    "JSON in a sentence": 'failed: {"a": [{"Value": "abc123", "name": "X-Api-Key"}]} (try again)',
}


@pytest.mark.parametrize("text", SECRETS.values(), ids=SECRETS)
@pytest.mark.parametrize("where", ["{}", "before {} after"])
def test_the_preset_knows_the_shapes_of_secrets(text: str, where: str) -> None:
    said = str(masked(call(note=where.format(text)), RedactionScope(secrets=True)))
    for secret in re.findall(r"[A-Za-z0-9+_.-]{6,}", text):
        if re.search(r"\d", secret) or secret in ("MIIEow", "IBAAK"):
            assert secret not in said
    assert "masked(len=" in said
    assert where[:7].strip("{}") in said


INNOCENT = {
    "the word password": "Ask the user for a password: never store it",
    "the word token": "a token of appreciation, basic authentication",
    "a challenge": 'Bearer resource_metadata="https://h/.well-known/x", realm=r1',
    "a path": "/home/me/keys.txt",
    "a URL": "https://example.com/a:b@c",
    "a hash": "d41d8cd98f00b204e9800998ecf8427e",
    "what stands for a value": "set API_KEY=${API_KEY}, password: <password>, --token TOKEN",
    "a header in a document": "send Authorization: Bearer <token>, or Authorization: required",
    "counts": "max_tokens=4096, tokens: 120034, progressToken=12345678",
    "a GPIO pin": "pin: 13, the PIN is on the board",
    "a user and a group": "docker run -u 1000:1000; curl -u 1000:1000 http://h/",
    "names and values": '[{"name": "LANG", "value": "C.UTF-8"}, {"name": "token"}, {"value": "x1234567"}]',
    "markup": "<name>password</name><td>12345678</td>",
    "the word PIN": "Pin 1234 pages to the board",
    "JSON that is none": '{"note": [{"a": "b"',
}


@pytest.mark.parametrize("text", INNOCENT.values(), ids=INNOCENT)
def test_the_preset_leaves_other_texts_alone(text: str) -> None:
    assert masked(call(note=text), RedactionScope(secrets=True)) == call(note=text)


def test_json_within_texts_stays_json_and_all_of_it_is_searched() -> None:
    objects = "".join('{"a": {"b": [{}]}} ' for _ in range(30))
    lists = json.dumps({"name": "password", "value": ["s3cret77"]})
    said = str(
        masked(
            call(note=f'{objects}{{"password": "correct horse"}}', text=lists), RedactionScope(secrets=True)
        )
    )
    assert "correct horse" not in said
    assert "s3cret77" not in said
    assert json.loads(
        json.loads(json.dumps(masked(call(text=lists), RedactionScope(secrets=True))))["params"]["arguments"][
            "text"
        ]
    )


def test_of_some_names_only_values_of_one_form_are_secrets() -> None:
    message = call(
        pin=13,
        otp="482915",
        tokens=["Hello", "a long word with spaces 1", "9f8e7d6c5b4a39281"],
        n={"pin": {}},
    )
    arguments = str(masked(message, RedactionScope(secrets=True)))
    assert "482915" not in arguments
    assert "9f8e7d6c5b4a39281" not in arguments
    assert "'pin': 13" in arguments
    assert "'Hello', 'a long word with spaces 1'" in arguments


@pytest.mark.parametrize(
    "name", ["apiKey", "API-KEY", "client_secret", "dbPassword", "accessToken", "token", "pw"]
)
def test_the_preset_knows_secrets_by_their_names(name: str) -> None:
    arguments = masked(call(**{name: "x"}), RedactionScope(secrets=True))
    assert "masked(len=1" in str(arguments)


@pytest.mark.parametrize("name", ["progressToken", "keyboard", "tokens_used", "cursor", "sessionId"])
def test_names_that_only_sound_like_it(name: str) -> None:
    assert masked(call(**{name: "x"}), RedactionScope(secrets=True)) == call(**{name: "x"})


def test_a_key_hides_all_that_it_holds_but_no_schema() -> None:
    described = {"type": "object", "properties": {"Email": {"type": "string"}}, "required": ["email"]}
    message = call(EMAIL=["a", {"b": 7, "c": True, "d": None, "e": ""}], schema=described, other="a")
    arguments = json.loads(json.dumps(masked(message, RedactionScope(keys=["email"]))))["params"]["arguments"]
    first, rest = arguments["EMAIL"]
    assert is_masked(first)
    assert is_masked(rest["b"])
    assert (rest["c"], rest["d"], rest["e"]) == (True, None, "")
    assert arguments["schema"] == described
    assert arguments["other"] == "a"


@pytest.mark.parametrize(
    ("pointer", "hidden"),
    [
        ("/params/arguments/a", {"a"}),
        ("/params/arguments/*", {"a", "b", "c"}),
        ("/params/arguments/**", {"a", "b", "c"}),
        ("/params/arguments/c/0/d", {"d"}),
        ("/**/d", {"d"}),
        ("/params/arguments/e~1f", set[str]()),
        ("/nowhere", set[str]()),
    ],
)
def test_pointers(pointer: str, hidden: set[str]) -> None:
    message = masked(call(a="x", b="y", c=[{"d": "z"}]), RedactionScope(pointers=[pointer]))
    params = message["params"]
    assert isinstance(params, dict)
    arguments = params["arguments"]
    assert isinstance(arguments, dict)
    said = json.dumps(arguments)
    assert (params["name"], message["id"], message["method"]) == ("t", 1, "tools/call")
    shows = {"a": '"x"', "b": '"y"', "c": '"z"', "d": '"z"'}
    assert {name for name, value in shows.items() if value not in said} == (
        hidden | {"c"} if "d" in hidden else hidden | ({"d"} if "c" in hidden else set())
    )


def test_a_pointer_reaches_into_each_message_of_a_batch() -> None:
    raw = json.dumps([call(a="x"), call(a="y")]).encode()
    new = Redaction(RedactionScope(pointers=["/params/arguments/a"])).record(Frame(1, "client", raw))
    assert isinstance(new, Frame)
    assert all(is_masked(one["params"]["arguments"]["a"]) for one in json.loads(new.raw))


def test_what_makes_a_message_is_never_masked() -> None:
    message = masked(
        call(id="x", method="y"), RedactionScope(keys=["id", "method", "jsonrpc"], pointers=["/**"])
    )
    assert (message["jsonrpc"], message["id"], message["method"]) == ("2.0", 1, "tools/call")
    assert "'x'" not in str(message)


def test_all_other_bytes_stay() -> None:
    raw = b'{ "id":1e0,\t"jsonrpc": "2.0","a":1, "a" : "\\u00e9\\/secret7", "n": 1234567890123456789.50 '
    raw += b',"e":"\xc3\xa9"}\r'
    new = Redaction(RedactionScope(values=[re.compile("secret(7)")])).record(Frame(1, "client", raw))
    assert isinstance(new, Frame)
    before, _, after = new.raw.partition(b'"\\u00e9/secretmasked(len=1,')
    assert raw.startswith(before)
    assert raw.endswith(after.partition(b')"')[2])
    assert after


def test_json_in_a_text_is_looked_into() -> None:
    inner = json.dumps({"list": [{"email": "a@b"}], "n": 1})
    result = masked({"jsonrpc": "2.0", "id": 1, "result": {"text": inner}}, RedactionScope(keys=["email"]))[
        "result"
    ]
    assert isinstance(result, dict)
    text = json.loads(str(result["text"]))
    assert is_masked(text["list"][0]["email"])
    assert text["n"] == 1


@pytest.mark.parametrize(
    "arguments",
    [
        r'{"text":"\u0067' + GITHUB.removeprefix("g") + '"}',
        r'{"url":"postgres:\/\/me:hunter22@db/x"}',
        r'{"to\u006ben":"hunter22"}',
        r'{"text":"{\"password\":\"hunter22\"}"}',
        r'{"list":[":","a\"b",{":":1,"password":"hunter22"}]}',
        '{"a":"b:","password" : "hunter22"}',
    ],
)
def test_a_secret_is_seen_however_it_is_written(arguments: str) -> None:
    raw = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":%b}}'
    text = json.dumps(masked(raw % arguments.encode(), RedactionScope(secrets=True)))
    assert "masked(len=" in text
    assert "hunter22" not in text
    assert GITHUB not in text


def test_equal_values_have_equal_masks_in_one_file_alone() -> None:
    first, again = (Redaction(RedactionScope(keys=["a"])) for _ in range(2))
    one, two = (first.record(Frame(n, "client", b'{"a":"x","b":[{"a":"x"}]}')) for n in (1, 2))
    assert isinstance(one, Frame)
    assert isinstance(two, Frame)
    assert one.raw == two.raw
    assert len(set(re.findall(rb"hash=\w+", one.raw))) == 1
    other = again.record(Frame(1, "client", b'{"a":"x","b":[{"a":"x"}]}'))
    assert isinstance(other, Frame)
    assert other.raw != one.raw


def test_the_reason_of_a_status_is_masked() -> None:
    head = ResponseHead(1, 1, 1, status=500, headers=(), reason=f"no {GITHUB}")
    redacted = Redaction(RedactionScope(secrets=True)).record(head)
    assert isinstance(redacted, ResponseHead)
    assert redacted.reason.startswith("no masked(len=")


TALK = (
    HEADER.replace(
        '["python","weather.py"]', f'["weather","--api-key","k","--url=https://u:pw@h/","{GITHUB}"]'
    ),
    *HANDSHAKE[1:],
    frame(4, "client", json.dumps(call(email="me@example.com", password="p4ss"))),
    finding("SCHEMA-002", 4, "the argument 'me@example.com' is wrong"),
    frame(5, "server", json.dumps({"jsonrpc": "2.0", "id": 1, "result": {"content": [], "t": GITHUB}})),
    f'{{"type":"frame","seq":6,"t":6000000,"from":"server","text":"debug: token={AWS}"}}',
    f'{{"type":"stderr","t":7000000,"text":"using {AWS}, email=me@example.com"}}',
    f'{{"type":"gap","t":8000000,"reason":"lost {AWS}","client":0,"server":3,"stderr":0}}',
    close(3, 3, errors=1),
)


def test_nothing_of_it_is_left_anywhere(mcpproxy: Mcpproxy, tmp_path: Path) -> None:
    path, out = recordings.write(tmp_path / "t.jsonl", TALK), tmp_path / "clean.jsonl"
    before = Path(path).read_bytes()
    done = mcpproxy("redact", path, "--preset", "secrets", "--key", "Email", "-o", str(out))
    assert done.code == 0, done.err
    text = out.read_text()
    for secret in ("me@example.com", "p4ss", GITHUB, AWS, '"k"', ":pw@"):
        assert secret not in text
    assert Path(path).read_bytes() == before
    trace = open_trace(out)
    assert trace.header.redaction == "keys,secrets"
    assert out.stat().st_mode & 0o77 == 0
    assert text.splitlines()[1:4] == list(HANDSHAKE[1:])
    assert [type(event) for event in trace.events()] == [type(event) for event in open_trace(path).events()]
    assert mcpproxy("show", str(out)).code == 0
    assert len(load(out).sessions[0].messages) == len(load(path).sessions[0].messages)


def test_a_value_that_cannot_be_seen_breaks_no_rule(mcpproxy: Mcpproxy, tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}, "e": {"enum": ["x"]}}}
    records = (
        *HANDSHAKE,
        frame(4, "client", recordings.LIST_TOOLS),
        frame(5, "server", json.dumps(
            {"jsonrpc": "2.0", "id": 7, "result": {"tools": [{"name": "t", "inputSchema": schema}]}}
        )),
        frame(6, "client", json.dumps(call(n=5, e="x") | {"id": 8})),
        frame(7, "server", '{"jsonrpc":"2.0","id":8,"result":{"content":[{"type":"text","text":"x"}]}}'),
        close(4, 3),
    )  # fmt: skip
    path, out = recordings.write(tmp_path / "t.jsonl", records), str(tmp_path / "o.jsonl")
    every = ("--pointer", "/params/arguments/**", "--pointer", "/result/content/**")
    assert mcpproxy("redact", path, *every, "-o", out).code == 0
    assert "no findings" in mcpproxy("check", path).out
    assert "no findings" in mcpproxy("check", out).out


def test_http(tmp_path: Path) -> None:
    target = f"/mcp?token=abc&x=1&k={GITHUB}"
    headers = (
        ("Authorization", "Bearer abcdef"),
        ("Mcp-Session-Id", "s-1"),
        ("X-Email", "me"),
        ("Mcp-Param-email", "me"),
    )
    lines = b'event: message\ndata: {"email":\ndata: "me"}\n\n'
    events: list[Recorded] = [
        RequestHead(1, 1, 1, "POST", target, headers),
        Frame(
            2, "client", b'{"jsonrpc":"2.0","method":"x","params":{"email":"me"}}', exchange=1, connection=1
        ),
        ResponseHead(3, 1, 1, 200, (("mcp-session-id", "s-1"), ("Location", "/?code=7"))),
        Encoded(1, 1, "server", b"secret, compressed"),
        Frame(
            4,
            "server",
            b'{"email":\n"me"}',
            exchange=1,
            connection=1,
            event=SseEvent(lines, None, name="message"),
        ),
        Frame(5, "server", b'{"email":"me"}', exchange=1, connection=1, event=SseEvent(b"data: ", b"\n\n")),
        Stderr(b"\xff email=me"),
    ]
    path = tmp_path / "t.jsonl"
    path.write_bytes(encode_header(Header(transport="http")) + b"".join(encode(event) for event in events))
    redaction = Redaction(RedactionScope(keys=["email", "x-email"], secrets=True))
    new = [record for record, _ in redaction.lines(open_trace(path))]
    request, asked, answer, several, single, stderr = new
    assert isinstance(request, RequestHead)
    assert isinstance(answer, ResponseHead)
    values = [value for _, value in request.headers]
    assert values[0].startswith("Bearer masked(")
    assert values[1] == answer.headers[0][1]
    assert values[2] == values[3]
    assert all("masked(" in value for value in values)
    assert re.fullmatch(r"/mcp\?token=masked\(.*\)&x=1&k=masked\(.*\)", request.target)
    assert answer.headers[1][1].startswith("/?code=masked(")
    for one in (asked, several, single):
        assert isinstance(one, Frame)
        assert b'"me"' not in frame_bytes(one)
        assert b"masked(len=2" in frame_bytes(one)
    assert isinstance(several, Frame)
    assert several.event is not None
    assert several.event.before.startswith(b'event: message\ndata: {"email":\ndata: "masked(')
    assert several.event.before.endswith(b"}\n\n")
    assert isinstance(stderr, Stderr)
    assert stderr.raw.startswith(b"\xff email=masked(len=2")


def test_the_answers_of_an_authorization_server_are_masked_as_the_recorder_masks_them() -> None:
    answer = b'{"device_code": "d-1", "user_code": "WDJB-MJHT", "session_id": "s-1", "otp": 1234}'
    redaction = Redaction(RedactionScope(secrets=True), b"key")
    redaction.record(RequestHead(1, 1, 1, "POST", "/device", (), endpoint=False))
    got = redaction.record(Frame(2, "server", answer, exchange=1, connection=1))
    assert isinstance(got, Frame)
    assert got.raw == Masker(b"key").body(answer)


def test_a_copy_of_a_copy(mcpproxy: Mcpproxy, tmp_path: Path) -> None:
    path, one, two = (str(tmp_path / name) for name in ("t", "1", "2"))
    recordings.write(Path(path), TALK)
    mcpproxy("redact", path, "--preset", "secrets", "-o", one)
    mcpproxy("redact", one, "--preset", "secrets", "-o", two)
    assert Path(one).read_bytes().splitlines()[1:] == Path(two).read_bytes().splitlines()[1:]


REFUSED = {
    "nothing to mask": ((), "no option says what to mask"),
    "no expression": (("--value", "("), "is not a regular expression"),
    "an expression for nothing": (("--value", "a*"), "matches the empty text"),
    "no pointer": (("--pointer", "params"), "is not a JSON Pointer"),
    "what must stay": (("--pointer", "/id"), "determines the kind of a message"),
    "no name": (("--key", ""), "is empty"),
    "no preset": (("--preset", "all"), "invalid choice"),
}


@pytest.mark.parametrize(("asked", "expected"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_done(
    mcpproxy: Mcpproxy, tmp_path: Path, asked: tuple[str, ...], expected: str
) -> None:
    path, out = recordings.write(tmp_path / "t.jsonl", CLEAN), tmp_path / "o.jsonl"
    refused = mcpproxy("redact", path, *asked, "-o", str(out))
    assert (refused.code, refused.err.count("\n"), out.exists()) == (2, 1, False)
    assert expected in refused.err


def test_the_input_is_never_written_over(mcpproxy: Mcpproxy, tmp_path: Path) -> None:
    path = recordings.write(tmp_path / "t.jsonl", CLEAN)
    link = tmp_path / "link.jsonl"
    link.symlink_to(path)
    before = Path(path).read_bytes()
    for out in (path, str(link)):
        refused = mcpproxy("redact", path, "--preset", "secrets", "-o", out)
        assert (refused.code, refused.err.count("\n")) == (2, 1)
        assert Path(path).read_bytes() == before


@pytest.mark.parametrize("content", [b"", b"\x00\x01\x02" * 99, b"{}", b'{"type":"header"'])
def test_a_file_that_is_no_trace(mcpproxy: Mcpproxy, tmp_path: Path, content: bytes) -> None:
    path, out = tmp_path / "t.jsonl", tmp_path / "o.jsonl"
    path.write_bytes(content)
    refused = mcpproxy("redact", str(path), "--preset", "secrets", "-o", str(out))
    assert (refused.code, out.exists()) == (2, False)
    assert refused.err.startswith(f"mcpproxy: {path}")
    assert "Traceback" not in refused.err


def test_a_finding_about_another_frame_keeps_its_words() -> None:
    told = Finding("TOOL-001", "error", "client", "no tool 'x' in frame 2", 3)
    assert Redaction(RedactionScope(keys=["email"])).record(told) is told


def test_a_header_that_repeats_a_masked_name_is_no_mismatch(mcpproxy: Mcpproxy, tmp_path: Path) -> None:
    fixture = runner.FOLDER / "HDR-004"
    seen = 0
    for path in sorted(fixture.glob("good*.jsonl")):
        written, out = tmp_path / path.name, tmp_path / f"{path.name}.redacted"
        write(written, runner.read(path), "2026-07-28")
        assert mcpproxy("redact", str(written), "--pointer", "/params/name", "-o", str(out)).code == 0
        seen += "masked(" in out.read_text()
        assert judged(out) == []
    assert seen


HIDING = {
    "arguments and contents": RedactionScope(pointers=["/params/arguments/**", "/result/content/**"]),
    "names": RedactionScope(keys=["name", "uri", "text"]),
    "secrets": RedactionScope(secrets=True),
}


@pytest.mark.parametrize("what", HIDING.values(), ids=HIDING)
def test_nothing_is_said_of_what_hangs_on_a_masked_value(tmp_path: Path, what: RedactionScope) -> None:
    good = [fixture for fixture in runner.fixtures() if not fixture.bad and fixture.revisions]
    for number, fixture in enumerate(good[::3]):
        path, out = tmp_path / f"{number}.jsonl", tmp_path / f"{number}.redacted"
        write(path, fixture, fixture.revisions[-1])
        trace, redaction = open_trace(path), Redaction(what)
        write_trace(str(out), redaction.header(trace.header), redaction.lines(trace))
        before = {(found.rule, found.frame) for found in judged(path)}
        assert {(found.rule, found.frame) for found in judged(out)} <= before, fixture


def test_a_masked_and_trimmed_recording_replays(mcpproxy: Mcpproxy, tmp_path: Path) -> None:
    asked = [call(email=f"{who}@example.com", n=n) | {"id": n} for n, who in ((8, "me"), (9, "you"))]
    done = [json.dumps({"jsonrpc": "2.0", "id": n, "result": {"content": [], "n": n}}) for n in (8, 9)]
    path, clean, part = (str(tmp_path / name) for name in ("t.jsonl", "clean.jsonl", "part.jsonl"))
    records = (
        *HANDSHAKE,
        frame(4, "client", json.dumps(asked[0])),
        frame(5, "server", done[0]),
        frame(6, "client", json.dumps(asked[1])),
        frame(7, "server", done[1]),
        close(4, 3),
    )
    recordings.write(Path(path), records)
    assert mcpproxy("redact", path, "--key", "email", "-o", clean).code == 0
    assert mcpproxy("trim", clean, "--around", "7", "-o", part).code == 0
    other = call(email="somebody@else.example", n=9) | {"id": "x"}
    lines = [recordings.INITIALIZE, recordings.READY, json.dumps(other)]
    replayed = subprocess.run(
        [sys.executable, "-m", "mcpproxy", "replay", "server", part],
        input="".join(line + "\n" for line in lines).encode(),
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert replayed.returncode == 0, replayed.stderr
    answers = [json.loads(line) for line in replayed.stdout.splitlines()]
    assert answers[-1] == {"jsonrpc": "2.0", "id": "x", "result": {"content": [], "n": 9}}
