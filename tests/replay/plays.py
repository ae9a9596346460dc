"""A recorded client that is played, and the live server that answers it, line by line."""

import json
from pathlib import Path
from typing import Any

from mcpproxy.peers.replay.client.player import Player, Send
from mcpproxy.peers.replay.diff.comparison import ComparedItem
from mcpproxy.peers.replay.diff.session_diff import compare_sessions
from mcpproxy.peers.replay.diff.values import DiffRules
from tests.replay.scripts import Line, session

TIMEOUT_NS = 30_000_000_000


class Play:
    """``sends`` asserts what the client has said since; ``hears`` is the live server."""

    def __init__(self, folder: Path, *lines: Line) -> None:
        self._recorded = session(folder, *lines)
        self.player = Player(self._recorded)
        self._now_ns = 0
        self._sent: list[Send] = self.player.begin()

    def sends(self, *messages: Any) -> None:
        """Everything that was sent since the last time."""
        assert [json.loads(send.raw) for send in self._sent] == list(messages)
        self._sent = []

    def hears(self, *messages: Any, after_ms: int = 1) -> None:
        """What the server says, each some time after the one before."""
        for message in messages:
            self._now_ns += after_ms * 1_000_000
            raw = message.encode() if isinstance(message, str) else json.dumps(message).encode()
            self._sent += self.player.receive(raw, self._now_ns)

    def waits_in_vain(self) -> None:
        """The patience of the driver is over."""
        self._now_ns += self.player.patience_ns(TIMEOUT_NS)
        self._sent += self.player.give_up(self._now_ns)

    def loses_the_server(self) -> None:
        """The server is gone."""
        self.player.stop("the server ended")

    def items(self, *ignore: str, alike: tuple[str, ...] = ()) -> list[ComparedItem]:
        """The comparison with the recording."""
        rules = DiffRules(ignore, alike)
        return compare_sessions(self._recorded, self.player.live, self.player.pairing, rules)

    def told(self, *ignore: str, alike: tuple[str, ...] = ()) -> list[str]:
        """What is not as it was, in words: ``changed tools/list: tool "a" is gone``."""
        return told(self.items(*ignore, alike=alike))


def told(items: list[ComparedItem]) -> list[str]:
    """What is not as it was, in words, one line for each change."""
    lines: list[str] = []
    for item in items:
        if item.verdict != "same":
            words = [change.text for change in item.changes] or [item.remark]
            lines += [f"{item.verdict} {item.what}: {each}".removesuffix(": ") for each in words]
    return lines
