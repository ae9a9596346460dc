"""What is watched while a client is there: its own recordings, and none that are made beside them."""

import asyncio
import json
import time
from pathlib import Path

import pytest

from mcpproxy.peers.client_tests.rows.stateless import NO_HANDSHAKE
from mcpproxy.peers.client_tests.visit import Invitation, wait_for_visit
from mcpproxy.peers.client_tests.watch import Watch
from tests.client_tests.test_facts import CALL, HEADER

ASK = {"type": "frame", "seq": 1, "t": 5, "from": "client", "message": CALL}


def write(path: Path, *records: object) -> None:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))


def test_a_client_rests_while_another_scenario_is_played(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    clock = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    watch = Watch(str(tmp_path / "two-pages.jsonl"))
    write(tmp_path / "two-pages.jsonl", HEADER, ASK)
    assert watch.look().requests["tools/call"] == 1
    clock[0] = 8.0
    write(tmp_path / "many-pages.jsonl", HEADER, ASK, {**ASK, "seq": 2})
    assert watch.look().requests["tools/call"] == 1
    assert watch.rested_s == 8.0
    write(tmp_path / "two-pages-2.jsonl", HEADER, ASK)
    assert watch.look().requests["tools/call"] == 2
    assert watch.rested_s == 0


def test_a_client_without_a_session_has_not_left_when_it_has_sent_what_is_wanted(tmp_path: Path) -> None:
    watch = Watch(str(tmp_path / "no-handshake.jsonl"))
    write(tmp_path / "no-handshake.jsonl", HEADER, ASK)

    async def visit() -> bool:
        pressed = asyncio.Event()
        asyncio.get_running_loop().call_soon(pressed.set)
        invitation = Invitation("http://127.0.0.1:1/", NO_HANDSHAKE, 1, 1, limit_s=60)
        await wait_for_visit(invitation, watch, 0, pressed)
        return pressed.is_set()

    assert asyncio.run(visit()), "the wait lasts until somebody presses Enter"
