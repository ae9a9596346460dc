"""Addons: what hooks get and return, in sessions on stdio and over HTTP, and what they cannot harm."""

import errno
import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from mcpproxy.addons import Message
from mcpproxy.cli.main import main
from mcpproxy.gate.intercept.addons import examples as example_addons
from mcpproxy.gate.intercept.addons.addon_loading import load_addons
from mcpproxy.judge.session.frame import Note
from tests.intercept.test_fault_http import (
    ANSWER,
    LOG_LINE,
    THE_STREAMS_S,
    Streams,
    Talk,
    streams,
)
from tests.intercept.test_fault_relay import INITIALIZED, THE_PEER_S, Played, call
from tests.intercept.test_fault_relay import Message as Sent
from tests.relay.hosts import DEADLINE_S, HOME, gone
from tests.relay.test_http_enforce import SESSION

__all__ = ["streams"]

EXAMPLES: Final = Path(example_addons.__file__).parent
RAW: Final = b'{"jsonrpc": "2.0","id": 12345678901234567890,"method":"tools/call","params":{"name":"a/b"}}'
SEARCH: Final = [call(id, name="search", arguments={}) for id in (1, 2, 3)]


# A message


def test_a_change_keeps_every_other_byte() -> None:
    message = Message(RAW, "client")
    assert message.set("/params/name", "c").raw == RAW.replace(b"a/b", b"c")
    stamped = message.set("/params/_meta/traceparent", "00").raw
    assert stamped == RAW.replace(b'"a/b"', b'"a/b","_meta":{"traceparent":"00"}')
    assert message.remove("/params/name").raw == RAW.replace(b'"name":"a/b"', b"")
    assert message.remove("/params/other") is message
    assert message.raw == RAW


@pytest.mark.parametrize(
    ("pointer", "params"),
    [
        ("/params/list/0/a/b", b'{"list": [{"a":{"b":7}}, 1]}'),
        ("/params/list/1/a", b'{"list": [{}, {"a":7}]}'),
        ("/params/list/-/a", b'{"list": [{}, 1,{"a":7}]}'),
        ("/params/list/9", b'{"list": {"9":7}}'),
        ("/params/new/a", b'{"list": [{}, 1],"new":{"a":7}}'),
    ],
)
def test_a_value_that_is_set_leaves_its_neighbours(pointer: str, params: bytes) -> None:
    before = b'{"method":"tools/call","params":%b}'
    message = Message(before % b'{"list": [{}, 1]}', "client")
    assert message.set(pointer, 7).raw == before % params


def test_an_answer_has_the_id_as_it_was_written() -> None:
    message = Message(RAW, "client")
    assert message.answer({}).raw == b'{"jsonrpc":"2.0","id":12345678901234567890,"result":{}}'
    assert json.loads(message.error(-1, "no", [1]).raw)["error"] == {"code": -1, "message": "no", "data": [1]}


def test_what_a_message_says_about_itself() -> None:
    message = Message(RAW, "client")
    assert (message.method, message.tool, message.id) == ("tools/call", "a/b", 12345678901234567890)
    answer = Message(b'{"jsonrpc":"2.0","id":1,"result":{}}', "server")
    assert (answer.method, answer.tool, answer.params) == ("", "", {})
    with pytest.raises(ValueError, match="write it as /params/name"):
        message.set("name", 1)


DEEP: Final = b"[" * 1000 + b"]" * 1000


@pytest.mark.parametrize("params", [b"[]", b"5", b"null", b'{"name":5}', b'{"name":{}}', b'["name"]', DEEP])
def test_a_message_says_what_it_can_of_odd_members(params: bytes) -> None:
    message = Message(b'{"id":%b,"method":"tools/call","params":%b}' % (DEEP, params), "client")
    assert (message.method, message.tool) == ("tools/call", "")
    assert isinstance(message.id, list)
    assert Message(b'{"method":5}', "client").method == ""
    assert Message(b'{"id":%b}' % (b"9" * 5000), "client").id == float("inf")


def test_half_a_surrogate_pair_stays_an_escape_and_nan_is_refused() -> None:
    message = Message(rb'{"id":1,"method":"tools/call","params":{"name":"\ud800"}}', "client")
    assert message.set("/params/name", message.tool).raw == message.raw
    assert (
        json.loads(message.error(1, message.tool).raw)["error"]["message"] == "?"
    )  # as in every error of ours
    with pytest.raises(ValueError, match="not JSON compliant"):
        message.answer({"x": float("nan")})
    for raw in (b"", b"{", b'{"x":NaN}', b"\xff", b"[" * 100_000):
        with pytest.raises(ValueError, match="the frame"):
            message.with_raw(raw).tool  # noqa: B018 # to read it is what fails
    assert message.with_raw(b"[]").tool == ""


# Sessions on stdio


class Talking:
    """Sessions with addons: their code is written to a file."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def write(self, code: str) -> str:
        path = self.folder / "addon.py"
        start = "from mcpproxy.addons import *\nimport asyncio, os, sys, time\n"
        path.write_text(start + textwrap.dedent(code))
        return str(path)

    def play(self, code: str, messages: list[Sent], *options: str) -> Played:
        return Played(self.folder, "--addon", self.write(code), *options, messages=[INITIALIZED, *messages])


@pytest.fixture
def talking(tmp_path: Path) -> Talking:
    return Talking(tmp_path)


def given(played: Played) -> list[Any]:
    """The answers to the calls, without that to initialize."""
    return [json.loads(line) for line in played.stdout.splitlines()[1:]]


def test_every_hook_is_called_with_what_it_is_about(talking: Talking) -> None:
    code = """
        class Log(Addon):
            def opened(self, session):
                session.memory["log"] = ["opened"]
            def request(self, session, message):
                session.memory["log"].append(f"request {message.method}")
            async def response(self, session, request, message):
                await asyncio.sleep(0)
                session.memory["log"].append(f"response to {request.method}")
            def notification(self, session, message):
                session.memory["log"].append(message.method)
            def finding(self, session, finding):
                session.memory["log"].append(f"{finding.rule} {finding.blame}")
            def closed(self, session):
                with open(__file__ + ".log", "w") as file:
                    file.write("\\n".join([*session.memory["log"], "closed"]))
    """
    played = talking.play(code, SEARCH[:1])
    assert played.findings() == THE_PEER_S
    assert (talking.folder / "addon.py.log").read_text().splitlines() == [
        "opened",
        "request initialize",
        "response to initialize",
        "notifications/initialized",
        "request tools/call",
        "response to tools/call",
        "TOOL-005 server",
        "closed",
    ]
    assert [frame.fault for frame in played.frames()] == [None] * 5, "what passes is recorded as ever"


def test_a_message_is_changed_dropped_or_answered(talking: Talking) -> None:
    code = """
        class Edit(Addon):
            def request(self, session, message):
                if message.id == 1:
                    return message.set("/params/name", "find")
                if message.id == 2:
                    return message.answer({"content": []})
                if message.id == 3:
                    return DROP
            def response(self, session, request, message):
                if message.id == 1:
                    return message.set("/result/content", [])
    """
    played = talking.play(code, SEARCH)
    assert sorted(given(played), key=lambda message: message["id"]) == [
        {"jsonrpc": "2.0", "id": id, "result": {"content": []}} for id in (1, 2)
    ]
    assert played.server_heard == [0, None, 1]
    assert played.findings() == THE_PEER_S
    acted = [(f.fault.rule, f.fault.action, f.by_proxy) for f in played.frames() if f.fault]
    assert ("addon Edit", "drop", False) in acted
    assert ("addon Edit", "answer", True) in acted


def test_an_exception_lets_the_message_pass_and_is_told_once(talking: Talking) -> None:
    played = talking.play(
        """
        class Broken(Addon):
            def request(self, session, message):
                if message.tool:
                    raise KeyError("no such thing")
        """,
        SEARCH,
    )
    assert sorted(played.answers) == [0, 1, 2, 3]
    assert played.stderr.count("Broken.request: KeyError: 'no such thing'") == 1
    assert played.findings() == THE_PEER_S


@pytest.mark.parametrize(
    ("what", "budget_s", "told"),
    [
        ("time.sleep(60)", 0.2, "addon Bad did not answer in time; messages pass"),
        ("os._exit(3)", 60, "addon Bad has ended; messages pass"),
        ("return 7", 60, "addon Bad.request: TypeError: it returned a int, not a Message"),
        ("return message.with_raw(b'x' * (17 << 20))", 60, "its message is longer than 16 MiB"),
        ("print('x' * 1000000)", 60, "xxxx"),
    ],
)
def test_what_a_bad_hook_does_harms_no_message(
    talking: Talking, what: str, budget_s: float, told: str
) -> None:
    code = f"""
        class Bad(Addon):
            budget_s = {budget_s}
            def request(self, session, message):
                if message.id == 2:
                    {what}
    """
    played = talking.play(code, SEARCH)
    assert sorted(played.answers) == [0, 1, 2, 3]
    assert told in played.stderr
    assert played.findings() == THE_PEER_S


@pytest.mark.parametrize("end", ["time.sleep(60)", "os._exit(3)"])
def test_messages_behind_one_that_fails_reach_the_next_host(talking: Talking, end: str) -> None:
    # The next host has to be ready within the budget, for which a busy machine needs seconds.
    code = f"""
        class Mark(Addon):
            budget_s = 6
            def request(self, session, message):
                if message.id == 2:
                    {end}
                return message.tool and message.set("/params/marked", True) or None
    """
    calls = [call(id, name="search", arguments={}) for id in range(1, 9)]
    played = talking.play(code, calls)
    marked = [json.loads(frame.raw)["id"] for frame in played.frames() if frame.fault and frame.by_proxy]
    assert marked == [1, 3, 4, 5, 6, 7, 8]
    assert played.server_heard == [0, None, *range(1, 9)]
    assert sorted(played.answers) == list(range(9))


def test_a_request_that_only_its_response_is_seen_beside_does_not_wait(talking: Talking) -> None:
    code = """
        class Named(Addon):
            def response(self, session, request, message):
                return message.set("/result/about", request.method)
    """
    played = talking.play(code, SEARCH)
    assert [message["result"]["about"] for message in given(played)] == ["tools/call"] * 3
    assert {frame.sender for frame in played.frames() if frame.fault} == {"server"}


def test_a_coroutine_that_is_late_is_cancelled(talking: Talking) -> None:
    code = """
        class Late(Addon):
            budget_s = 0.05
            async def request(self, session, message):
                if message.id == 2:
                    await asyncio.sleep(60)
    """
    played = talking.play(code, SEARCH)
    assert sorted(played.answers) == [0, 1, 2, 3]
    assert "addon Late.request: took longer than 0.05 s" in played.stderr


def test_a_hook_that_fails_closed_is_answered_with_an_error(talking: Talking) -> None:
    code = """
        class Closed(Addon):
            fail_open = False
            def request(self, session, message):
                if message.id == 2:
                    raise ValueError
            def response(self, session, request, message):
                if message.id == 3:
                    raise ValueError
    """
    played = talking.play(code, SEARCH)
    errors = {message["id"]: message["error"]["message"] for message in given(played) if "error" in message}
    assert errors == {2: "An addon failed", 3: "An addon failed"}
    assert played.server_heard == [0, None, 1, 3]
    assert played.findings() == THE_PEER_S


def test_an_addon_that_always_hangs_harms_no_message(talking: Talking) -> None:
    code = """
        class Hang(Addon):
            budget_s = 0.05
            def request(self, session, message):
                if message.tool:
                    time.sleep(60)
    """
    calls = [call(id, name="search", arguments={}) for id in range(1, 9)]
    played = talking.play(code, calls)
    assert sorted(played.answers) == list(range(9))
    assert "addon Hang did not answer in time; messages pass" in played.stderr


@pytest.mark.parametrize("concurrent", [False, True])
def test_messages_keep_their_order(talking: Talking, concurrent: bool) -> None:
    code = f"""
        class Slow(Addon):
            concurrent = {concurrent}
            async def request(self, session, message):
                if message.id:
                    await asyncio.sleep(0.05 if message.id % 2 else 0)
                    return message.set("/params/arguments", {{"n": message.id}})
    """
    calls = [call(id, name="search", arguments={}) for id in range(1, 13)]
    played = talking.play(code, calls)
    assert played.server_heard == [0, None, *range(1, 13)]
    assert played.findings() == THE_PEER_S


def test_addons_beside_fault_rules(talking: Talking) -> None:
    code = """
        class Mark(Addon):
            def request(self, session, message):
                if message.tool:
                    return message.set("/params/arguments", {"marked": True})
    """
    fault = "from:client id:2 => error"
    played = talking.play(code, SEARCH, "--fault", fault)
    assert played.server_heard == [0, None, 1, 3]
    actions = [f.fault.action for f in played.frames() if f.fault and f.sender == "client" and f.by_proxy]
    assert actions == ["new", "new"]


# The examples


def test_requests_get_a_traceparent(tmp_path: Path) -> None:
    path = str(EXAMPLES / "stamp_traceparent.py")
    played = Played(tmp_path, "--addon", path, messages=[INITIALIZED, *SEARCH])
    heard = [json.loads(line) for line in played.stderr.splitlines() if line[:1] == "{"]
    stamps = [each["params"]["_meta"]["traceparent"] for each in heard if "id" in each]
    assert len(stamps) == len(set(stamps)) == 4
    assert len({stamp[:35] for stamp in stamps}) == 1
    assert played.findings() == THE_PEER_S


def test_a_tool_is_answered_here(tmp_path: Path) -> None:
    path = str(EXAMPLES / "answer_locally.py")
    messages = [INITIALIZED, call(1, "tools/list"), call(2, name="local_clock", arguments={})]
    played = Played(tmp_path, "--addon", path, messages=messages)
    answers = {message["id"]: message for message in given(played)}
    assert "20" in answers[2]["result"]["content"][0]["text"]
    assert played.server_heard == [0, None, 1]


@pytest.mark.parametrize(
    "kind", [{"method": "notifications/message"}, {"id": "s1", "method": "elicitation/create"}]
)
def test_keys_are_masked_before_the_client_gets_them(tmp_path: Path, kind: dict[str, object]) -> None:
    path = str(EXAMPLES / "mask_on_the_wire.py")
    note: dict[str, object] = {"jsonrpc": "2.0", **kind, "params": {"data": "sk-abcdefgh1234"}}
    asked: Sent = {"jsonrpc": "2.0", "method": "_ask", "params": note}
    played = Played(tmp_path, "--addon", path, messages=[INITIALIZED, asked])
    assert b"sk-***" in played.stdout
    assert b"sk-abcd" not in played.stdout
    sent = [frame for frame in played.frames() if frame.sender == "server" and not frame.by_proxy]
    assert any(b"sk-abcdefgh1234" in frame.raw for frame in sent), "the recording says what the server sent"


# Over HTTP

HTTP_CODE: Final = """
    class Edit(Addon):
        def request(self, session, message):
            if message.id == 2:
                return message.set("/params/name", "find")
            if message.id == 3:
                return message.answer({"content": [3]})
            if message.id == 4:
                return DROP
        def response(self, session, request, message):
            if message.id == 5 and request.tool == "search":
                return message.set("/result/content", [session.id[:4]])
            if message.id == 6:
                return DROP
        def notification(self, session, message):
            if message.params.get("data"):
                return message.set("/params/data", "y")
"""
MakeTalk = Callable[[str], Talk]


@pytest.fixture
def talk(tmp_path: Path, streams: Streams) -> Iterator[MakeTalk]:
    talks: list[Talk] = []

    def make(code: str) -> Talk:
        talks.append(Talk(tmp_path, streams, Talking(tmp_path).write(code), "--addon"))
        return talks[-1]

    yield make
    for each in talks:
        each.close()


LOUD: Final = LOG_LINE.replace('"x"', '"y"')


@pytest.mark.parametrize("form", ["tools/call", "tools/call at once"])
def test_messages_over_http_are_changed_dropped_or_answered(
    streams: Streams, talk: MakeTalk, form: str
) -> None:
    with_addon = talk(HTTP_CODE)
    said = {id: with_addon.ask(id, **{"X-Method": form}) for id in (1, 2, 3, 5, 6)}
    assert said == {
        1: (200, [LOUD, ANSWER % 1]),
        2: (200, [LOUD, ANSWER % 2]),
        3: (200, ['{"jsonrpc":"2.0","id":3,"result":{"content":[3]}}']),
        5: (200, [LOUD, (ANSWER % 5).replace("[]", '["0123"]')]),
        6: (200, [LOUD]),
    }
    assert [message.get("id") for message in streams.heard] == [0, None, 1, 2, 5, 6]
    assert streams.heard[3]["params"]["name"] == "find"
    assert with_addon.findings() == THE_STREAMS_S


def test_an_answer_in_json_is_changed(talk: MakeTalk) -> None:
    with_addon = talk("""
        class Edit(Addon):
            def response(self, session, request, message):
                return message.set("/result/content", [])
    """)
    assert with_addon.ask(1, **{"X-Method": ""})[1] == [
        '{"jsonrpc": "2.0", "id": 1, "result": {"tools": [],"content":[]}}'
    ]
    with_addon.proxied.stop()


def test_a_notification_of_the_client_is_dropped_and_accepted(streams: Streams, talk: MakeTalk) -> None:
    with_addon = talk("""
        class Quiet(Addon):
            def notification(self, session, message):
                if "progress" in message.method:
                    return DROP
    """)
    note: Sent = {"jsonrpc": "2.0", "method": "notifications/progress"}
    assert with_addon.proxied.post(note, **SESSION).status == 202
    assert streams.heard[2:] == []
    told = with_addon.proxied.stop()
    assert "addon Quiet: drop" in [event.why for event in told if isinstance(event, Note)]


def test_a_hook_that_hangs_over_http_delays_one_message(talk: MakeTalk) -> None:
    with_addon = talk("""
        class Hang(Addon):
            budget_s = 0.1
            def request(self, session, message):
                if message.id == 1:
                    time.sleep(60)
            def response(self, session, request, message):
                if message.id == 2:
                    time.sleep(60)
    """)
    for id in (1, 2, 3):
        assert with_addon.ask(id) == (200, [LOG_LINE, ANSWER % id])
    assert with_addon.findings() == THE_STREAMS_S


# What cannot be used


@pytest.mark.parametrize(
    ("code", "fact"),
    [
        (None, "no such file; name a file of Python, or an installed addon"),
        ("x = 1\n", "there is no addon; derive a class from mcpproxy.addons.Addon"),
        ("x =\n", ":1: SyntaxError"),
        ("x = 1\nx / 0\n", ":2: ZeroDivisionError"),
        ("import os\nos._exit(1)\n", "it ends; correct it"),
    ],
)
def test_an_addon_that_cannot_be_used(tmp_path: Path, code: str | None, fact: str) -> None:
    path = tmp_path / "addon.py"
    if code is not None:
        path.write_text(code)
    command = [sys.executable, "-m", "mcpproxy", "--trace-dir", str(tmp_path / "traces")]
    done = subprocess.run(
        [*command, "--addon", str(path), "--", "touch", str(tmp_path / "started")],
        capture_output=True,
        text=True,
        env=HOME,
        timeout=DEADLINE_S,
    )
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert fact in done.stderr
    assert not (tmp_path / "started").exists()
    assert not (tmp_path / "traces").exists()


def test_no_process_for_an_addon(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def refuse(*arguments: object, **options: object) -> None:
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    monkeypatch.setattr(subprocess, "Popen", refuse)
    assert main(["--addon", str(EXAMPLES / "mask_on_the_wire.py"), "--", "cat"]) == 2
    assert "run: --addon: no process can be started: " in capsys.readouterr().err


def test_no_host_stays_when_the_relay_is_killed(talking: Talking) -> None:
    path = talking.write("""
        class Pid(Addon):
            def request(self, session, message):
                with open(__file__ + ".pid", "w") as file:
                    file.write(str(os.getpid()))
                time.sleep(600)
    """)
    trace = str(talking.folder / "t.jsonl")
    with subprocess.Popen(
        [sys.executable, "-m", "mcpproxy", "--trace", trace, "--addon", path, "--", "cat"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=HOME,
    ) as process:
        assert process.stdin is not None
        process.stdin.write(json.dumps(SEARCH[0]).encode() + b"\n")
        process.stdin.flush()
        while not (pid_file := Path(path + ".pid")).exists() or not pid_file.read_text():
            assert process.poll() is None
        process.kill()
    assert gone(int(pid_file.read_text()))


def test_an_addon_imports_what_lies_beside_it_and_mcpproxy_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its folder is searched first only while it is loaded."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "neighbour_of_addon.py").write_text("name = 'neighbour'\n")
    (tmp_path / "addon.py").write_text(
        "import sys\n"
        "from neighbour_of_addon import name\n"
        "from mcpproxy.addons import Addon\n"
        "first = sys.path[0]\n"
        "class Named(Addon):\n"
        "    name, first = name, first\n"
    )
    before = list(sys.path)
    (addon,) = load_addons([str(tmp_path / "addon.py")])
    assert [vars(type(addon))[name] for name in ("name", "first")] == ["neighbour", str(tmp_path)]
    assert sys.path == [*before, str(tmp_path)]
