"""The help of the viewer: its keys, its marks, and the language of filters."""

from collections.abc import Iterator
from typing import Final

from mcpproxy.judge.session.filter import EXAMPLE, KEYS, STATUS
from mcpproxy.show.tui.spans import Line, Span

KEYS_HELP: Final = (
    ("j k  ↓ ↑", "next, previous"),
    ("Ctrl+D Ctrl+U  PgDn PgUp", "down, up by half a page, by a page"),
    ("g G  Home End", "first, last"),
    ("Tab  Shift+Tab", "next, previous pane"),
    ("Enter", "open: the calls of a session, the detail of a call"),
    ("Esc", "back: close, clear the filter, previous pane"),
    ("[ ]", "previous, next session"),
    ("/", "filter the calls; in the list of sessions: words that choose sessions"),
    ("a", "search the calls of all recordings; Enter opens one"),
    ("F", "the findings of the recording, with what they rest on"),
    ("f", "follow: go to new calls, and to the next recording when this one has ended"),
    ("p", "pause: nothing changes until it is pressed again"),
    ("r", "the bytes of messages as they passed, and the fields of HTTP; again: laid out"),
    ("y", "copy the request and its answer as JSON"),
    ("t", "next theme"),
    ("?", "this help"),
    ("q", "quit"),
)

MARKS_HELP: Final = (
    ("✓ ✗ …", "ok, failed, waiting or unanswered"),
    ("⊘ ⊗ ↻", "cancelled, refused by mcpproxy, input required"),
    ("→ ← ↳", "from the client, from the server, within another call"),
    ("✗1 ▲1 i1", "number of the worst findings: errors, warnings, info; ▲1+ has others, too"),
    ("● ○ ◑", "session running, ended, cut"),
    ("┌ │ └", "recordings of one client"),
)


def help_lines(width: int) -> Iterator[Line]:
    """Yield the lines of the help."""
    del width  # a ``TextScreen`` gives it, but no line here depends on it
    for title, rows in (("Keys", KEYS_HELP), ("Marks", MARKS_HELP)):
        yield (Span(title, "strong"),)
        for key, what in rows:
            yield (Span(f"  {key:<26}", "key"), Span(what))
        yield ()
    yield (Span("Filter", "strong"),)
    yield (Span("  for example "), Span(EXAMPLE, "text"))
    yield (Span("  terms       ", "dim"), Span(" ".join(f"{key}:" for key in KEYS)))
    yield (Span("  status      ", "dim"), Span(" ".join(STATUS)))
    yield (Span("  - negates, a comma means or, * and ? stand for any characters"),)
