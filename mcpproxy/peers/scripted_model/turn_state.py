"""What became of the turns of a script."""

from collections.abc import Iterator
from typing import Final

from mcpproxy.peers.scripted_model.expected_results import GivenResult, unmet
from mcpproxy.peers.scripted_model.model_script import ScriptTurn


class TurnState:
    """What became of a turn. ``number`` counts from 1.

    ``has_run`` says that its answer was given, ``names`` are those under which its tools were called, and
    ``results`` what the model was given for its calls, ``None`` for one without a result.
    """

    def __init__(self, number: int, turn: ScriptTurn) -> None:
        self.number: Final = number
        self.turn: Final = turn
        self.has_run = False
        self.names: tuple[str, ...] = ()
        self.results: list[GivenResult | None] = [None] * len(turn.calls)
        self._not_offered = ""

    def run(self, names: tuple[str, ...]) -> None:
        """Note that the answer is given, by which earlier results are no longer those of this turn."""
        self.has_run = True
        self.names = names
        self.results = [None] * len(self.turn.calls)

    def lacks_tool(self, why: str) -> None:
        """Note that a host asked for this turn and does not offer its tool. It may do so later."""
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
