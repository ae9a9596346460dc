"""Several servers at once: what may not be played side by side, and what is played again alone."""

import asyncio
from collections import Counter
from pathlib import Path

import pytest

from mcpproxy.judge.ruleset import ruleset
from mcpproxy.peers.client_tests import run
from mcpproxy.peers.client_tests.client_process import Stay
from mcpproxy.peers.client_tests.rows.authorized import AUTHORIZED
from mcpproxy.peers.client_tests.scenario import Scenario
from mcpproxy.peers.client_tests.scenarios import SCENARIOS
from mcpproxy.peers.client_tests.seen import SeenClient
from mcpproxy.peers.client_tests.verdict import Played
from mcpproxy.peers.validate.check_list import ProgressCallbacks

STEPS = 20


class PlayedAtOnce:
    """A run of four at once, whose client is only told of: it answers pings only if it is alone."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path, *names: str) -> None:
        self.most: Counter[str] = Counter()
        self.again: list[str] = []
        self._now: Counter[str] = Counter()
        monkeypatch.setattr(run.ClientTestRun, "_play", self._play)
        scenarios = tuple(one for one in SCENARIOS if one.name in ("ordinary", *names))
        test = run.ClientTest(("client",), scenarios, str(folder), "127.0.0.1:0", jobs=4)
        played = run.ClientTestRun(test, ruleset.load(), ProgressCallbacks())
        asyncio.run(played.test())
        self.statuses = {check.name: check.status for check in played.result().checks}

    async def _play(self, scenario: Scenario, number: int, total: int, mark: str = "") -> object:
        assert number <= total
        kind = "login" if scenario in AUTHORIZED else "other"
        self._now[kind] += 1
        self.most[kind] = max(self.most[kind], self._now[kind])
        for _ in range(STEPS):
            await asyncio.sleep(0)
        self._now[kind] -= 1
        seen = SeenClient(sessions=1, messages=3)
        seen.requests.update(("initialize", "tools/list", "tools/call"))
        if mark:
            self.again.append(scenario.name)
        elif scenario.name.startswith("ping"):
            seen.pings = 2
            seen.open_pings = {"1": ("t.jsonl", 1), "2": ("t.jsonl", 2)}
        play = vars(run)["_Play"]
        return play(Played(scenario, seen, Stay(0, 1.0, ""), ()), [], 1.0)


def test_logins_are_not_played_at_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    names = [one.name for one in AUTHORIZED]
    played = PlayedAtOnce(monkeypatch, tmp_path, *names, "two-pages", "many-pages", "empty-page")
    assert played.most == {"login": 1, "other": 3}


def test_who_answers_no_ping_in_time_is_asked_again_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    played = PlayedAtOnce(monkeypatch, tmp_path, "ping-in-call", "two-pages")
    assert played.again == ["ping-in-call"]
    assert played.statuses["ping-in-call"] == "passed"
