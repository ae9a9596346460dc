"""``show --all``: the calls of many recordings that pass a filter, those of the latest recording first."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from mcpproxy.base.style import Style, count
from mcpproxy.base.visible import visible
from mcpproxy.cli import find_traces
from mcpproxy.cli.calls.heading import heading
from mcpproxy.cli.calls.lines_of_calls import CallLines
from mcpproxy.cli.calls.listing import call_lines
from mcpproxy.judge.session.filter import Filter
from mcpproxy.read.view.rows.search_recordings import RecordingSearch
from mcpproxy.read.view.view import View, open_view


@dataclass(slots=True)
class AllRecordings:
    """The recordings ``paths``, in this order, and the filter of the ``wanted`` calls.

    ``heads`` and ``full`` are as for ``listing``. When ``lines`` was read to its end, ``faults`` has a text
    for each recording that could not be read.
    """

    paths: Sequence[str]
    wanted: Filter
    heads: bool = False
    full: bool = False
    faults: list[str] = field(default_factory=list[str])

    def lines(self, style: Style) -> Iterator[str]:
        """Yield a heading and the wanted calls of each recording that has some, then the totals.

        Without a filter, or with one for failures, sessions that failed before any message are included.
        """
        calls = matching = 0
        failed_starts: list[str] = []

        def recording_lines(path: str, view: View) -> Iterator[str]:
            nonlocal calls, matching
            asks_for_starts = self.wanted.asks_for_failures or not self.wanted
            failed_start, passing = view.not_begun if asks_for_starts else "", view.count(self.wanted)
            if not (failed_start or passing):
                return
            if passing and not matching:
                yield style.paint(CallLines(style).heading, "dim")
            yield from _heading_lines(view, style)
            if failed_start:
                yield style.paint(f"  {failed_start}", "red")
                failed_starts.append(path)
            if passing:
                yield from call_lines(view, self.wanted, style, heads=self.heads, full=self.full)
                calls, matching = calls + passing, matching + 1
            yield ""

        search = RecordingSearch(self.paths, open_view)
        yield from search.results(recording_lines)
        self.faults += search.faults
        searched = count(len(self.paths), "recording")
        shown = f"{count(calls, 'row')} in {matching:,} of {searched}"
        if failed_starts:
            shown += f", {len(failed_starts):,} failed before any message"
        yield f"{shown}: {visible(self.wanted.text)}" if self.wanted else shown


def _heading_lines(view: View, style: Style) -> Iterator[str]:
    words = heading(view.header, with_command=False)
    yield f"{style.paint(visible(find_traces.shown(view.path)), 'bold')} {style.paint(words, 'dim')}"
