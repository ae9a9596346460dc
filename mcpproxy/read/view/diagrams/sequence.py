"""Draw the messages of calls as a sequence diagram: who sends what to whom, and when; also as Mermaid text.

Code hosts such as GitHub draw Mermaid text in issues and in Markdown; https://mermaid.js.org draws it, too.
"""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

from mcpproxy.base.slotted import slotted
from mcpproxy.base.style import duration
from mcpproxy.judge.session.frame import Frame, Sender, other
from mcpproxy.judge.session.outcomes import Outcome, state_words
from mcpproxy.read.view.calls import Call, Detail, Part, Role
from mcpproxy.read.view.view import AnyFilter, View

MOST_CALLS: Final = 100
"""How many calls a diagram has at most."""

_MOST_PARTS: Final = 40
_LONGEST_TEXT: Final = 80
"""How many records of a call, and how many characters of a text, are shown."""

_UNESCAPED: Final = frozenset(" ._-/,()'→…")
"""The characters that are not escaped in Mermaid text, besides letters and digits."""


@slotted(frozen=True)
class Arrow:
    """One message, or a missing answer; ``mermaid`` is its line of Mermaid text.

    ``outcome`` is the outcome of the call if the arrow is its answer, or its missing answer; else ``None``.
    """

    at_ns: int
    row: int
    sender: Sender
    text: str
    outcome: Outcome | None
    mermaid: str


@slotted(frozen=True)
class Sequence:
    """The arrows of the first calls, in the order of their times, and the number of calls that are left out.

    ``participants`` are the lines of Mermaid text that name the peers.
    """

    participants: tuple[str, ...]
    arrows: tuple[Arrow, ...]
    left_out: int

    def mermaid(self) -> str:
        """Return the whole text for Mermaid."""
        lines = ["sequenceDiagram", *self.participants, *(arrow.mermaid for arrow in self.arrows)]
        if self.left_out:
            lines.append(f"    Note over C: {self.left_out} more calls are left out")
        return "\n".join(lines) + "\n"


def sequence(
    view: View,
    filter: AnyFilter = None,
    begin_ns: int = 0,
    end_ns: int | None = None,
    limit: int = MOST_CALLS,
    server: int = 1,
) -> Sequence:
    """Return the first ``limit`` rows (calls or other records) that pass a filter, as a diagram.

    Only rows that began between the two times count; ``end_ns`` is ``None`` for the end of the recording.
    ``server`` is the number of the server among those of a diagram with several recordings.
    """
    started_ns = view.columns.started_ns
    rows = (
        row
        for row in view.numbers(filter)
        if started_ns[row] >= begin_ns and (end_ns is None or started_ns[row] <= end_ns)
    )
    details = [view.parts(row, _MOST_PARTS) for row in islice(rows, limit)]
    return sequence_of(view, details, sum(1 for _ in rows), server)


def sequence_of(view: View, details: Iterable[Detail], left_out: int, server: int = 1) -> Sequence:
    """Return the diagram of calls that were already read. ``left_out`` and ``server`` as for ``sequence``."""
    peers = view.sessions[0] if view.sessions else None
    participants = (
        f"    participant C as {escape(peers.client if peers else '') or 'client'}",
        f"    participant S{server} as {escape(peers.server if peers else '') or 'server'}",
    )
    arrows = sorted(
        (arrow for detail in details for arrow in _arrows(detail, server)), key=lambda arrow: arrow[0]
    )
    return Sequence(participants, tuple(arrow for _, arrow in arrows), left_out)


def escape(text: str) -> str:
    """Return ``text`` escaped for Mermaid, and shortened."""
    short = text if len(text) <= _LONGEST_TEXT else f"{text[: _LONGEST_TEXT - 1]}…"
    return "".join(c if c.isalnum() or c in _UNESCAPED else f"#{ord(c)};" for c in short).strip()


def _arrows(detail: Detail, server: int) -> Iterator[tuple[tuple[int, int], Arrow]]:
    """Yield the arrows of a call, each with its time and frame, by which arrows are sorted."""
    call = detail.call
    last_seq = 0
    for part in detail.parts:
        record = part.record
        # The messages of an inner request have arrows of their own row.
        if part.row != call.number or not isinstance(record, Frame) or part.seq is None:
            continue
        last_seq = part.seq
        outcome = call.outcome if part.role is Role.ANSWER else None
        words = _arrow_text(call, part)
        yield (part.at_ns, part.seq), _arrow(call, part.at_ns, record.sender, words, outcome, server)
    if call.outcome is Outcome.UNANSWERED and call.waited_ns is not None:
        at_ns = call.started_ns + call.waited_ns
        words = f"no answer to {_call_name(call)}" + (
            f" for {duration(call.waited_ns)}" if call.waited_ns else ""
        )
        yield (at_ns, last_seq), _arrow(call, at_ns, other(call.sender), words, call.outcome, server)


def _arrow(call: Call, at_ns: int, sender: Sender, text: str, outcome: Outcome | None, server: int) -> Arrow:
    ends = ("C", f"S{server}") if sender == "client" else (f"S{server}", "C")
    head = "--x" if outcome is Outcome.UNANSWERED else "-->>" if outcome else "->>"
    return Arrow(at_ns, call.number, sender, text, outcome, f"    {ends[0]}{head}{ends[1]}: {escape(text)}")


def _arrow_text(call: Call, part: Part) -> str:
    if part.role is Role.REQUEST:
        return _call_name(call)
    if part.role is not Role.ANSWER:
        return part.summary[:_LONGEST_TEXT]
    took = "" if call.latency_ns is None else f", {duration(call.latency_ns)}"
    reason = f": {call.result}" if call.is_error else ""
    return f"{_call_name(call)}: {state_words(call.outcome, call.error_code)}{took}{reason}"[:_LONGEST_TEXT]


def _call_name(call: Call) -> str:
    return f"{call.method} {call.target}"[:_LONGEST_TEXT] if call.target else call.method
