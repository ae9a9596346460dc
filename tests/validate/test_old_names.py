"""What the raw client was called before still works for one release."""

import asyncio
import sys

import pytest

from mcpproxy.validate import connected_stdio

SERVER = [sys.executable, "-m", "mcpproxy.demo.server"]


def test_the_old_names_of_the_client_give_the_new_ones_with_a_warning() -> None:
    asyncio.run(_compare())


async def _compare() -> None:
    async with connected_stdio(SERVER) as client:
        await client.connect()
        with pytest.warns(DeprecationWarning, match="heard is received now"):
            assert client.heard is client.received
        with pytest.warns(DeprecationWarning, match="strays is unsolicited now"):
            assert client.strays is client.unsolicited
        with pytest.warns(DeprecationWarning, match="asked is server_requests now"):
            assert client.asked is client.server_requests
        with pytest.warns(DeprecationWarning, match="tape is recording now"):
            assert getattr(client.wire, "tape") is client.wire.recording  # noqa: B009 # no type checker knows it
