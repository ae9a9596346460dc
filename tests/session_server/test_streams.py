"""Streams of events that outlive their connections."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from mcpproxy.peers.session_server.event_stream import (
    ConnectionLimit,
    EventStream,
    GoneEventsError,
    event_bytes,
)
from mcpproxy.peers.session_server.resumable_streams import ResumableStream


def played(scene: Coroutine[Any, Any, None]) -> None:
    """Play a scene, within a time limit."""
    asyncio.run(asyncio.wait_for(scene, 60))


def with_events(*events: bytes) -> EventStream:
    stream = EventStream()
    for event in events:
        stream.add(event)
    return stream


async def rest(stream: EventStream) -> list[bytes]:
    """Return all that a new connection gets."""
    return [event async for event in stream.read()]


async def reads(stream: EventStream) -> "asyncio.Task[list[bytes]]":
    """Return what a connection gets that waits for the next event."""
    reading = asyncio.create_task(rest(stream))
    await asyncio.sleep(0)  # the task begins
    return reading


def test_a_connection_ends_where_the_stream_is_paused_and_the_next_goes_on() -> None:
    async def scene() -> None:
        stream = with_events(b"1", b"2")
        stream.pause()
        stream.add(b"3")
        stream.end()
        assert [await rest(stream), await rest(stream)] == [[b"1", b"2"], [b"3"]]
        stream.rewind(2)  # the client asks for what comes after 2, and not for a pause
        assert await rest(stream) == [b"3"]

    played(scene())


def test_a_newer_connection_ends_the_older_one() -> None:
    async def scene() -> None:
        stream = EventStream()
        older = await reads(stream)
        newer = await reads(stream)
        assert await older == []
        stream.add(b"1")
        stream.end()
        assert await newer == [b"1"]

    played(scene())


def test_a_connection_gets_nothing_after_another_one_has_asked_to_go_on() -> None:
    async def scene() -> None:
        stream = with_events(b"1")
        older = await reads(stream)
        stream.rewind(0)
        stream.add(b"2")
        assert await older == [b"1"]
        stream.end()
        assert await rest(stream) == [b"1", b"2"]

    played(scene())


def test_a_connection_past_its_limit_waits_for_its_first_event(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float | None] = []
    timeout_at = asyncio.timeout_at

    def noted(when: float | None) -> asyncio.Timeout:
        waits.append(when)
        return timeout_at(when)

    async def scene() -> None:
        stream = EventStream()
        past = ConnectionLimit(asyncio.get_running_loop().time(), 1)
        reading = asyncio.create_task(anext(stream.read(past)))
        for _ in range(10):
            await asyncio.sleep(0)
        stream.add(b"1")
        assert await reading == b"retry: 1000\n1"
        assert len(waits) == 1

    monkeypatch.setattr(asyncio, "timeout_at", noted)
    played(scene())


@pytest.mark.parametrize("number", [-1, 3])
def test_what_is_not_kept_cannot_be_asked_for(number: int) -> None:
    async def scene() -> None:
        stream = with_events(b"1", b"2")
        with pytest.raises(GoneEventsError, match="not kept"):
            stream.rewind(number)

    played(scene())


def test_a_client_that_comes_back_is_expected_until_it_reads() -> None:
    async def scene() -> None:
        stream = ResumableStream(1, lambda _: None, lambda: None, lambda _, __: None, has_ids=True)
        stream.put(b"1")
        older = await reads(stream)
        stream.rewind(0)
        assert (stream.is_connected, stream.has_client) == (False, True)
        await older
        newer = await reads(stream)
        assert stream.is_connected
        stream.end()
        assert await newer == [b"event: message\nid: 1-1\ndata: 1\n\n"]

    played(scene())


@pytest.mark.parametrize(
    ("data", "event"),
    [
        (b"", b"data: \n\n"),
        (b"one", b"data: one\n\n"),
        (b"one\r\ntwo\rthree\n", b"data: one\ndata: two\ndata: three\n\n"),
    ],
)
def test_each_line_of_the_data_is_a_line_of_the_event(data: bytes, event: bytes) -> None:
    assert event_bytes(data, b"") == event
    assert event_bytes(data) == b"event: message\n" + event
