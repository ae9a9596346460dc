"""The results that requests to a model have, each as the first request had it that was not refused.

Each request has the whole conversation again, or what a host has left of it: results are cleared, and put
into a summary, so a result is known again by its id and not by its content.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from mcpproxy.base.slotted import slotted
from mcpproxy.model.turns import Content, ModelCall, ModelRequest, ModelResult


@slotted(frozen=True)
class AskedModel:
    """A request to the model: the frame with its body, 0 for none, and its time in ns since 1970."""

    frame: int = 0
    at_ns: int = 0


@slotted(frozen=True)
class ArrivedResult:
    """A result when a request had it first, with the texts and pictures that came with it.

    ``is_refused``: no other request had it, and the service refused that one.
    """

    result: ModelResult
    beside: tuple[Content, ...]
    texts: tuple[str, ...]
    asked: AskedModel
    is_refused: bool = False

    @property
    def said(self) -> tuple[str, ...]:
        content = (*self.result.content, *self.beside)
        return (*(one.text for one in content if one.kind == "text"), *self.texts)


class Arrivals:
    """Collects the results of a conversation, request by request."""

    def __init__(self) -> None:
        self._found: Final[dict[str, list[ArrivedResult]]] = {}
        self._before: Sequence[ModelResult] = ()
        """The results without an id that the last request had, of those that were not refused."""

    @property
    def found(self) -> Mapping[str, list[ArrivedResult]]:
        """The id of a call, or a space and the name of its tool -> its results in their order."""
        return self._found

    def take(
        self,
        request: ModelRequest,
        beside: tuple[Content, ...],
        texts: tuple[str, ...],
        asked: AskedModel,
        *,
        is_refused: bool,
    ) -> None:
        """Take the results of a request; ``beside`` and ``texts`` are what is new in it besides them."""
        counted: Counter[str] = Counter()
        without_id = [result for result in request.results if not result.call_id]
        new = {id(result) for result in self._new(without_id, request.calls)}
        for result in request.results:
            key = result.call_id or f" {result.name}"
            arrived = self._found.setdefault(key, [])
            arrived[:] = [one for one in arrived if not one.is_refused or one.asked == asked]
            counted[key] += 1
            is_new = counted[key] > len(arrived) if result.call_id else id(result) in new
            if is_new:
                arrived.append(ArrivedResult(result, beside, texts, asked, is_refused))
        if not is_refused:
            self._before = without_id

    def _new(self, results: Sequence[ModelResult], calls: Sequence[ModelCall]) -> Sequence[ModelResult]:
        """Return the results that the request before did not have: those behind the ones that are left of its
        results, or if none is as it was, those behind the last call."""
        had = [(one.name, one.content) for one in self._before]
        has = [(one.name, one.content) for one in results]
        for start in range(len(had)):
            left = had[start:]
            if has[: len(left)] == left:
                return results[len(left) :]
        last = max((_place(call.pointer) for call in calls), default=())
        return [one for one in results if _place(one.pointer) >= last] if had else results


def _place(pointer: str) -> tuple[int, ...]:
    """Return where something stands in a request, by the indices in its pointer."""
    return tuple(int(step) for step in pointer.split("/") if step.isdecimal())
