"""The raw client: what it does on a good day, and how it says what went wrong on a bad one."""

import asyncio
import signal
import subprocess
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from mcpproxy.judge.session.frame import CLIENT, SERVER, Close
from mcpproxy.peers.validate import Client, connected_stdio
from mcpproxy.peers.validate.errors import (
    AlreadyInitializedError,
    CouldNotStartError,
    GoneError,
    IdMismatchError,
    MalformedAnswerError,
    NotInitializedError,
    RefusedError,
    TimedOutError,
    ToolFailedError,
    ToolNotFoundError,
    UnsupportedVersionError,
    ValidateError,
)
from mcpproxy.peers.validate.probe_context import ProbeContext, ValidateOptions
from mcpproxy.peers.validate.recordings import Recordings
from mcpproxy.peers.validate.transports.stdio_wire import GRACE_S, SHORT_GRACE_S, StdioWire
from tests.validate.trial import command, rules, target

Story = Callable[[Client], Awaitable[None]]


def talk(story: Story, flaw: str = "", start_s: float = 60, revision: str = "2025-11-25") -> None:
    async def main() -> None:
        async with connected_stdio(
            command(flaw), env=target().env, timeout_s=1, start_s=start_s, revision=revision
        ) as client:
            await story(client)

    asyncio.run(main())


def test_a_good_day() -> None:
    async def story(client: Client) -> None:
        answer = await client.connect()
        assert answer.frames == (1, 2)
        assert client.server["serverInfo"] == {"name": "scripted", "version": "1.0"}
        tools = await client.list("tools/list")
        assert [tool["name"] for tool in tools] == ["greet", "add"]
        result = await client.call("add", {"a": 1, "b": 2})
        assert result == {"content": [{"type": "text", "text": "3"}]}
        assert await client.alive()

    talk(story)


def test_a_day_without_a_handshake() -> None:
    async def story(client: Client) -> None:
        await client.connect()
        assert client.server["supportedVersions"] == ["2026-07-28"]
        assert [tool["name"] for tool in await client.list("tools/list")] == ["greet", "add"]

    talk(story, revision="2026-07-28")


def test_all_that_passes_is_judged_as_it_does() -> None:
    async def story(client: Client) -> None:
        await client.connect()
        seq = await client.send(b'{"jsonrpc":"1.0","id":"x","method":"ping"}')
        answer = await client.ping()
        assert answer.frame.seq > seq
        blamed = {(finding.blame, finding.rule) for finding in client.wire.recording.findings}
        assert ("client", "PROTO-002") in blamed
        assert not [blame for blame, _ in blamed if blame == "server"]

    talk(story)


def test_answers_in_any_order_find_their_requests() -> None:
    async def story(client: Client) -> None:
        await client.connect()
        first = await client.begin("tools/list")
        second = await client.begin("ping", id="two")
        assert (await client.wait_for_answer(second)).members == {}
        assert "tools" in (await client.wait_for_answer(first)).members

    talk(story)


def test_what_the_server_asks_is_answered() -> None:
    async def story(client: Client) -> None:
        await client.initialize()
        before = len(client.unsolicited)
        await client.request("tools/list")
        asked = await client.next_unsolicited(5, before)
        assert asked is not None
        await client.ping()
        assert [request.method for request in client.server_requests] == ["roots/list"]

    talk(story, "early-question")


async def _twice(client: Client) -> None:
    await client.connect()
    await client.initialize()


async def _early(client: Client) -> None:
    await client.list("tools/list")


async def _initialize(client: Client) -> None:
    await client.initialize()


async def _no_such_tool(client: Client) -> None:
    await client.connect()
    await client.call("no-such-tool")


async def _wrong_call(client: Client) -> None:
    await client.connect()
    await client.call("greet", {"name": 42})


async def _list_tools(client: Client) -> None:
    await client.connect()
    await client.list("tools/list")


async def _list_prompts(client: Client) -> None:
    await client.connect()
    await client.list("prompts/list")


async def _list_resources(client: Client) -> None:
    await client.connect()
    await client.list("resources/list")


async def _digits(client: Client) -> None:
    await client.connect()
    await client.request("ping", id="0815")


async def _discover(client: Client) -> None:
    client.revision = "2026-07-28"
    await client.discover()


ERRORS = [
    (_twice, "", AlreadyInitializedError, "the session is open already"),
    (_early, "", NotInitializedError, "call initialize or discover first"),
    (_no_such_tool, "", ToolNotFoundError, 'there is no tool "no-such-tool"'),
    (_wrong_call, "", ToolFailedError, 'the tool "greet" failed: name is no string'),
    (_list_prompts, "refused-prompts", RefusedError, "refused prompts/list: error -32603"),
    (_list_tools, "tools-without-list", MalformedAnswerError, "has no list tools"),
    (_list_resources, "circular-pages", MalformedAnswerError, "its pages have no end"),
    (_initialize, "nameless-revision", MalformedAnswerError, "names no protocolVersion"),
    (_initialize, "garbage", MalformedAnswerError, "something that is not a message"),
    (_initialize, "mute-initialize", TimedOutError, "no answer to initialize within 4 s"),
    (_initialize, "dying-in-mid-answer", GoneError, "it ended with exit code 7"),
    (_initialize, "future-version", UnsupportedVersionError, 'the server offers "2099-12-31"'),
    (
        _initialize,
        "stateless-version",
        UnsupportedVersionError,
        'the server offers "2026-07-28", a revision that has no initialize',
    ),
    (_digits, "numbers-for-digits", IdMismatchError, '(id "0815") has the id 815'),
    (_discover, "old-era", UnsupportedVersionError, "the server speaks 2024-11-05"),
]


@pytest.mark.parametrize(
    ("story", "flaw", "kind", "says"), ERRORS, ids=[f"{one[2].__name__}-{one[1]}" for one in ERRORS]
)
def test_what_goes_wrong_has_a_type(story: Story, flaw: str, kind: type[ValidateError], says: str) -> None:
    with pytest.raises(kind) as caught:
        talk(story, flaw, start_s=4 if flaw in ("mute-initialize", "garbage") else 60)
    assert type(caught.value) is kind
    assert says in str(caught.value)


def test_a_server_that_is_gone_takes_nothing() -> None:
    async def story(client: Client) -> None:
        await client.connect()
        with pytest.raises(GoneError):
            await client.request("tools/call", {"name": "greet", "arguments": {}})
        with pytest.raises(GoneError, match="the server is gone: it ended with exit code 3"):
            await client.ping()
        assert not await client.alive()

    talk(story, "tool-that-ends-it")


def test_nothing_is_said_once_stdin_was_closed() -> None:
    async def story(client: Client) -> None:
        await client.connect()
        wire = client.wire
        assert isinstance(wire, StdioWire)
        wire.close_stdin()
        before = wire.recording.seq
        with pytest.raises(GoneError, match="stdin is closed"):
            await client.notify("notifications/roots/list_changed")
        assert wire.recording.seq == before  # what was not sent is not recorded as sent

    talk(story)


def test_a_signal_does_not_take_the_exit_code_away(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(client: Client) -> None:
        await client.connect()
        wire = client.wire
        assert isinstance(wire, StdioWire)
        wire.signal(signal.SIGTERM)
        assert await wire.wait_for_exit(10)
        await client.close()
        assert wire.exit_code == -signal.SIGTERM

    # It polls the process, and what it learns then is lost to the watcher of the event loop.
    monkeypatch.delattr(subprocess.Popen, "send_signal")
    talk(story)


def test_who_is_known_to_run_on_is_not_waited_for_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def closed(flaw: str) -> ProbeContext:
        recordings = Recordings(rules(), str(tmp_path / f"{flaw}.jsonl"), "trial")
        context = ProbeContext(target(flaw), ValidateOptions(), recordings, "2025-11-25")
        async with context.new_session("first", connected=True):
            pass
        return context

    def patience_s(context: ProbeContext) -> float:
        wire = context.new_client("second").wire
        assert isinstance(wire, StdioWire)
        wire.recording.close(Close("exited"))
        return wire.grace_s

    assert patience_s(asyncio.run(closed(""))) == GRACE_S
    monkeypatch.setattr("mcpproxy.peers.validate.probe_context.GRACE_S", 0.2)
    assert patience_s(asyncio.run(closed("deaf-to-eof"))) == SHORT_GRACE_S


def test_there_is_no_such_command() -> None:
    async def main() -> None:
        async with connected_stdio(["/nowhere/no-such-server"]):
            pytest.fail("it was started")

    with pytest.raises(CouldNotStartError, match="/nowhere/no-such-server: no such command; check"):
        asyncio.run(main())


def test_the_recording_stays_where_it_is_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "session.jsonl"

    async def main() -> None:
        async with connected_stdio(command(), env=target().env, trace=str(path)) as client:
            await client.connect()
            assert client.wire.recording.tally.frames == {CLIENT: 2, SERVER: 1}

    asyncio.run(main())
    assert path.read_text().count('"initialize"') == 1
