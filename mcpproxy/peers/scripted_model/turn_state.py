"""The state of a turn, one answer in a script: whether it has run, and the results of its calls."""

from collections.abc import Iterator
from typing import Final

from mcpproxy.peers.scripted_model.expected_results import GivenResult, unmet
from mcpproxy.peers.scripted_model.model_script import ScriptTurn


class TurnState:
    """The state of one turn. ``number`` counts from 1.

    ``has_run`` says whether its answer was sent, ``names`` are the names under which its tools were called,
    and ``results`` are the results of its calls, ``None`` for a call without one.
    """

    def __init__(self, number: int, turn: ScriptTurn) -> None:
        self.number: Final = number
        self.turn: Final = turn
        self.has_run = False
        self.names: tuple[str, ...] = ()
        self.results: list[GivenResult | None] = [None] * len(turn.calls)
        self._not_offered = ""

    def mark_run(self, names: tuple[str, ...]) -> None:
        """Note that the answer is sent, perhaps again, and forget earlier results."""
        self.has_run = True
        self.names = names
        self.results = [None] * len(self.turn.calls)

    def note_missing_tool(self, why: str) -> None:
        """Note that a host came to this turn without offering its tool. It may offer the tool later."""
        self._not_offered = why

    @property
    def has_results(self) -> bool:
        """Whether each of its calls has a result."""
        return None not in self.results

    def problems(self) -> Iterator[str]:
        """Yield why the turn failed: a sentence for each reason."""
        if not self.has_run:
            yield self._not_offered or "no host asked for this turn"
            return
        for call, result in zip(self.turn.calls, self.results, strict=True):
            if result is None:
                yield f"no result of {call.tool} came back"
            else:
                for expected in call.expects:
                    yield from (f"{call.tool}: {reason}" for reason in unmet(expected, result))

    @property
    def has_failed(self) -> bool:
        """Whether there is a problem."""
        return next(self.problems(), None) is not None
