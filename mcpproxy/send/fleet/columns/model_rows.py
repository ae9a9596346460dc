"""A recording of the traffic with a model as rows: its requests, and the tools that they offer."""

from collections.abc import Iterator, Mapping
from typing import Final

from mcpproxy.model.tool_names import written
from mcpproxy.model.turns import OfferedTool
from mcpproxy.protocol.jsonrpc import JSONObject
from mcpproxy.record.recorder.model.turns import ModelTurn, model_turns
from mcpproxy.record.trace.reader import Trace
from mcpproxy.send.fleet.columns.frame_batch import text

_MOST_TOOLS: Final = 1 << 14
"""How many tools of a recording have a row; clients could make up any number of names."""


class ModelRows:
    """The rows of ``trace``; ``name`` is its name in the fleet, ``started_us`` its start (Unix time, µs).

    ``turns`` has a row for each request to the model.

    Raises:
        TraceError: the recording cannot be read.
    """

    def __init__(self, trace: Trace, name: str, started_us: int) -> None:
        self._name: Final = name
        self._started_us: Final = started_us
        self._offered: Final[dict[str, OfferedTool]] = {}
        """The name of a tool in the prompt -> the tool as it was offered last."""
        self._calls: Final[dict[str, int]] = {}
        self.turns: Final = [self._turn(turn) for turn in model_turns(trace)]

    def tools(self) -> Iterator[tuple[str, JSONObject, int]]:
        """Yield the offered tools, at most ``_MOST_TOOLS``: name, last definition and number of calls."""
        for name, tool in self._offered.items():
            definition: JSONObject = {"name": tool.name, "description": tool.description}
            yield text(name), {**definition, "schema": tool.schema}, self._calls.get(name, 0)

    def _turn(self, turn: ModelTurn) -> Mapping[str, object]:
        request, answer = turn.request, turn.answer
        for tool in request.tools:
            if written(tool) in self._offered or len(self._offered) < _MOST_TOOLS:
                self._offered[written(tool)] = tool
        called = [written(call) for call in (answer.calls if answer is not None else ())]
        for name in called:
            if name in self._offered:
                self._calls[name] = self._calls.get(name, 0) + 1
        usage = answer.usage if answer is not None else None
        return {
            "recording": self._name,
            "time": self._started_us + turn.at_ns // 1000,
            "frame": turn.seq,
            "dialect": request.dialect,
            "model": text(request.model or (answer.model if answer is not None else "")),
            "user_agent": text(turn.user_agent),
            "status": turn.status,
            "whole": answer is not None and answer.whole,
            "tools": len(request.tools),
            "results": len(request.results),
            "calls": [text(name) for name in called],
            "input_tokens": _fitting(usage.input) if usage else None,
            "output_tokens": _fitting(usage.output) if usage else None,
            "cached_tokens": _fitting(usage.cached) if usage else None,
        }


def _fitting(number: int) -> int | None:
    """Return ``number`` if it fits its column, else ``None``."""
    return number if 0 <= number < 1 << 63 else None
