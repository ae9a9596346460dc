"""Judging a recording again, from its frames alone: for the command, the Python API and the pytest plugin.

Findings that were recorded are not read: whoever recorded with an older mcpproxy gets the findings of
this one, and nobody has to trust a trace about itself.
"""

from collections.abc import Callable
from typing import Final

from mcpproxy.reports.judged_traces import JudgedTrace
from mcpproxy.ruleset.ruleset import Ruleset
from mcpproxy.ruleset.selection import Selection
from mcpproxy.session.frame import Event, Finding, Frame
from mcpproxy.trace.reader import Trace

_OFTEN: Final = 2048
"""Frames from one word on the progress to the next: some hundredths of a second."""


def judge(
    trace: Trace,
    rules: Ruleset,
    selection: Selection,
    shown: Callable[[Event | Finding], bool] | None = None,
    progress: Callable[[int], None] | None = None,
) -> JudgedTrace:
    """Judge the frames of one trace, as they were judged when they passed.

    With ``shown``, all is judged, but only frames and findings for which it is true are counted; it is asked
    in the order of the recording. ``progress`` is told now and then how many bytes are read.

    Raises:
        TraceError: the trace cannot be read.
        CustomRuleError: a rule of the user's own failed.
    """
    # Where only a part is shown, what is beyond a bound could be all of that part.
    observer = rules.observer(
        joined_late=trace.joined_late, redacted=trace.redacted, lists_all=shown is not None
    )
    observe = observer.observe
    frames = 0
    findings: list[Finding] = []
    for event in trace.events():
        # Nearly all are frames, and nearly all of those are as they should be.
        if type(event) is Frame:
            frames += shown is None or shown(event)
            if progress is not None and event.seq % _OFTEN == 0:
                progress(trace.read_bytes)
        elif isinstance(event, Finding):
            continue
        elif shown is not None:
            shown(event)
        if found := observe(event):
            found = [f for f in found if selection.takes(f.rule)]
            findings += found if shown is None else filter(shown, found)
    revision, notes = observer.revision, (*trace.notes, *filter(None, [observer.forgot]))
    more = tuple(one for one in observer.more if selection.takes(one.rule))
    return JudgedTrace(
        trace.path,
        trace.complete,
        revision,
        frames,
        tuple(findings),
        notes,
        more=more,
        unfolded=trace.unfolded,
    )
