"""Collect the results of calls from the requests to a model.

Each result is kept as it was in the first request that the service did not refuse. Later requests repeat the
conversation, but the host may have cleared a result or put it into a summary, so a result is recognised by
its id and not by its content; one without an id, by its place after those of the request before.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from mcpproxy.base.slotted import slotted
from mcpproxy.model.turns import Content, ModelCall, ModelRequest, ModelResult


@slotted(frozen=True)
class AskedModel:
    """A request to the model: the frame with its body (0: no request), and its time in ns since 1970."""

    frame: int = 0
    at_ns: int = 0


@slotted(frozen=True)
class ArrivedResult:
    """A result in the first request with it that was not refused, or else in the last.

    ``beside`` and ``texts`` are the new pictures and files, and the new texts, of that request.
    ``is_refused`` is true if the service refused that request.
    """

    result: ModelResult
    beside: tuple[Content, ...]
    texts: tuple[str, ...]
    asked: AskedModel
    is_refused: bool = False

    @property
    def said(self) -> tuple[str, ...]:
        """All texts that came with the result, and its own."""
        content = (*self.result.content, *self.beside)
        return (*(piece.text for piece in content if piece.kind == "text"), *self.texts)


class Arrivals:
    """Collects the results of a conversation, request by request."""

    def __init__(self) -> None:
        self._found: Final[dict[str, list[ArrivedResult]]] = {}
        self._before: Sequence[ModelResult] = ()
        """The results without an id in the last request that was not refused."""

    @property
    def found(self) -> Mapping[str, list[ArrivedResult]]:
        """The id of a call -> its results, in their order.

        Without an id, the key is a space and the tool's name.
        """
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
        """Add the results of a request. ``beside`` and ``texts`` are its other new content.

        ``is_refused`` is whether the service refused the request.
        """
        counted: Counter[str] = Counter()
        without_id = [result for result in request.results if not result.call_id]
        new = {id(result) for result in self._new_results(without_id, request.calls)}
        for result in request.results:
            key = result.call_id or f" {result.name}"
            arrived = self._found.setdefault(key, [])
            arrived[:] = [earlier for earlier in arrived if not earlier.is_refused or earlier.asked == asked]
            counted[key] += 1
            is_new = counted[key] > len(arrived) if result.call_id else id(result) in new
            if is_new:
                arrived.append(ArrivedResult(result, beside, texts, asked, is_refused))
        if not is_refused:
            self._before = without_id

    def _new_results(
        self, results: Sequence[ModelResult], calls: Sequence[ModelCall]
    ) -> Sequence[ModelResult]:
        """Return the ``results`` (without ids) that the previous request did not have.

        They follow the results that are left of the previous request. If none is left unchanged, they follow
        the last call. If the previous request had none, all are new.
        """
        before = [(result.name, result.content) for result in self._before]
        now = [(result.name, result.content) for result in results]
        for start in range(len(before)):
            left = before[start:]
            if now[: len(left)] == left:
                return results[len(left) :]
        last = max((_place(call.pointer) for call in calls), default=())
        return [result for result in results if _place(result.pointer) >= last] if before else results


def _place(pointer: str) -> tuple[int, ...]:
    """Return the indices in a pointer, which order places in a request."""
    return tuple(int(step) for step in pointer.split("/") if step.isdecimal())
