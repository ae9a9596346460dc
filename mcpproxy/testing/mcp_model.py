"""A scripted model in a test: the value that the fixture ``mcp_model`` makes."""

import os
from collections.abc import Iterable, Sequence
from typing import Any, Final

from mcpproxy.base.visible import visible
from mcpproxy.peers.scripted_model.expected_results import GivenResult
from mcpproxy.peers.scripted_model.host_settings import codex_arguments, environment
from mcpproxy.peers.scripted_model.model_script import read_script_file, script_of
from mcpproxy.peers.scripted_model.model_server import ModelServer
from mcpproxy.peers.scripted_model.run_report import has_failed, summary
from mcpproxy.peers.scripted_model.turn_state import TurnState

__all__ = ["McpModel"]


class McpModel:
    """A model that follows ``script`` and answers at ``url`` until ``end``.

    ``script`` is the path of a file, or the turns themselves. ``environment`` has the environment variables
    that make hosts use the model. Codex reads only a key there; it needs the options ``codex_arguments``.

    Raises:
        UsageError: the script cannot be read.
    """

    def __init__(self, script: "str | os.PathLike[str] | Iterable[Any]") -> None:
        is_file = isinstance(script, str | os.PathLike)
        turns = read_script_file(os.fspath(script)) if is_file else script_of(script)
        self._server: Final = ModelServer(turns)
        self.url: Final = self._server.url
        self.environment: Final = environment(self.url)
        self.codex_arguments: Final = codex_arguments(self.url)
        self._server.start()

    @property
    def turns(self) -> Sequence[TurnState]:
        """The state of each turn of the script."""
        return self._server.player.turns

    @property
    def results(self) -> list[GivenResult]:
        """The results that the host returned for the calls of the model."""
        return self._server.player.results

    def end(self) -> None:
        """Stop answering."""
        self._server.end()

    def trouble(self) -> str:
        """Return text that says which turns failed or did not run, and why; empty if all succeeded."""
        player = self._server.player
        if not has_failed(player):
            return ""
        reasons = [
            f"  turn {state.number}: {visible(problem)}"
            for state in player.turns
            for problem in state.problems()
        ]
        return "\n".join([f"mcp_model: {summary(player)}", *reasons])
