"""Describe a call as the model saw it."""

from collections.abc import Callable, Iterable
from typing import Final

from mcpproxy.base.slotted import slotted
from mcpproxy.model.tool_names import written
from mcpproxy.read.opening import read_untouched
from mcpproxy.read.prompt.call_ways import CallWay
from mcpproxy.read.prompt.report import PromptReport, ServerWay
from mcpproxy.read.prompt.run import is_beside, model_of, read_run
from mcpproxy.read.prompt.words import seen_words
from mcpproxy.read.view.recording_entry import RecordingEntry


@slotted(frozen=True)
class SeenCall:
    """What the model saw of a call, in clauses. ``model`` is the path of the model's recording."""

    model: str
    words: tuple[str, ...]


class SeenCalls:
    """Describes calls as the model saw them. The run that was read last is kept until its recordings change.

    A run is one conversation with a model, and the sessions with servers that its host had open beside it.

    ``check`` is called with each recording before it is read, and raises an error to forbid the reading.
    """

    def __init__(self, check: Callable[[RecordingEntry], object] = bool) -> None:
        self._check: Final = check
        self._read: tuple[tuple[RecordingEntry, ...], PromptReport] | None = None

    def all(self, own: RecordingEntry, entries: Iterable[RecordingEntry]) -> dict[int, tuple[str, ...]]:
        """Return the clauses of the calls of tools in the recording ``own``, by the numbers of the calls.

        The result is empty if no model's recording shows a tool of the server.

        Raises:
            TraceError: a recording of the run cannot be read.
        """
        model_and_server = self._find_server(own, entries)
        if model_and_server is None:
            return {}
        _, server = model_and_server
        return {way.wire.number: _words(way, server) for way in server.calls}

    def of(self, own: RecordingEntry, entries: Iterable[RecordingEntry], number: int) -> SeenCall | None:
        """Return what the model saw of call ``number`` in the recording ``own``, one of ``entries``.

        Returns:
            ``None`` if the call does not call a tool, or if no recording of a model's interface that was open
            at the same time offers a tool of the server.

        Raises:
            TraceError: a recording of the run cannot be read.
        """
        model_and_server = self._find_server(own, entries)
        if model_and_server is None:
            return None
        model, server = model_and_server
        way = next((way for way in server.calls if way.wire.number == number), None)
        return SeenCall(model, _words(way, server)) if way is not None else None

    def _find_server(
        self, own: RecordingEntry, entries: Iterable[RecordingEntry]
    ) -> tuple[str, ServerWay] | None:
        """Return the path of the model's recording and the server of ``own``.

        Return ``None`` unless a model was offered a tool of the server.
        """
        entries = list(entries)
        model = model_of(own, entries)
        if model is None:
            return None
        beside = tuple(entry for entry in entries if is_beside(entry, model))
        report = self._report_on_run(model, beside)
        server = next((way for way in report.servers if way.server.path == own.path), None)
        if server is None or not server.offered:
            return None
        return model.path, server

    def _report_on_run(self, model: RecordingEntry, beside: tuple[RecordingEntry, ...]) -> PromptReport:
        run = (model, *beside)
        if self._read is None or self._read[0] != run:
            for entry in run:
                self._check(entry)
            trace = read_untouched(model.path)
            self._read = run, read_run(trace, [entry.path for entry in beside], only_reads=True)
        return self._read[1]


def _words(way: CallWay, server: ServerWay) -> tuple[str, ...]:
    names = {tool.match.tool.name: tool.match.offered for tool in server.tools}
    offered = names.get(way.wire.name)
    return tuple(seen_words(way, written(offered) if offered is not None else ""))
