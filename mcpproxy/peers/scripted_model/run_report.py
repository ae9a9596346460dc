"""The report on a script that was played: lines for each turn (an answer of the model), or a JSON object."""

from collections import Counter
from collections.abc import Iterator
from typing import Final

from mcpproxy.base.style import Style, count
from mcpproxy.base.visible import visible
from mcpproxy.peers.scripted_model.model_script import ScriptTurn
from mcpproxy.peers.scripted_model.script_player import ScriptPlayer
from mcpproxy.peers.scripted_model.turn_state import TurnState
from mcpproxy.protocol.jsonrpc import JSON, JSONObject

_ENDINGS: Final = ("ran", "failed", "did not run")
"""What may become of a turn; one that ``failed`` has run, with a problem."""


def has_failed(player: ScriptPlayer) -> bool:
    """Whether a turn failed or did not run."""
    return any(state.has_failed for state in player.turns)


def lines(player: ScriptPlayer, style: Style) -> Iterator[str]:
    """Yield the report as text."""
    for state in player.turns:
        problems = list(state.problems())
        word = _ending(state)
        word = style.paint(word, "red") if problems else word
        names = f" as {visible(', '.join(state.names))}" if state.names else ""
        yield f"{state.number}  {visible(_action(state.turn))}{names}: {word}"
        yield from (f"   {visible(problem)}" for problem in problems)
    yield summary(player)


def summary(player: ScriptPlayer) -> str:
    """Return the report on one line."""
    endings = Counter(map(_ending, player.turns))
    text = f"{count(len(player.turns), 'turn')}: " + ", ".join(
        f"{number} {word}" for word in _ENDINGS if (number := endings[word])
    )
    if player.beyond:
        text += f"; {count(player.beyond, 'request')} after the last turn"
    return text


def as_json(player: ScriptPlayer) -> JSONObject:
    """Return the report as a JSON object."""
    turns: list[JSON] = [_turn(state) for state in player.turns]
    return {
        "ok": not has_failed(player),
        "turns": turns,
        "requests_aside": player.asides,
        "requests_after_the_last_turn": player.beyond,
    }


def _turn(state: TurnState) -> JSONObject:
    results: list[JSON] = [
        None if result is None else {"tool": result.tool, "text": result.text, "is_error": result.is_error}
        for result in state.results
    ]
    return {
        "turn": state.number,
        "line": state.turn.line,
        "does": _action(state.turn),
        "ran": state.has_run,
        "called_as": [*state.names],
        "results": results,
        "problems": [*state.problems()],
    }


def _ending(state: TurnState) -> str:
    passed, failed, not_run = _ENDINGS
    return not_run if not state.has_run else failed if state.has_failed else passed


def _action(turn: ScriptTurn) -> str:
    if turn.failure is not None:
        return "an answer that breaks off" if turn.failure.status is None else f"status {turn.failure.status}"
    return ", ".join(call.tool for call in turn.calls) or "text"
