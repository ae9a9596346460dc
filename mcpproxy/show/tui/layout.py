"""How the screen of ``mcpproxy tui`` is laid out, its keys, and its themes."""

from typing import Final

from textual.binding import Binding, BindingType

from mcpproxy.show.tui.line_panes import TONE_CSS

THEMES: Final = ("textual-dark", "textual-light", "gruvbox", "nord", "solarized-light", "ansi-dark")

CSS: Final = (
    """
    Screen { layout: vertical; }
    #head, #status { height: 1; background: $panel; }
    #top { height: 1fr; }
    #left { width: 24; background: $surface; }
    #left.wide { width: 36; }
    #left.widest { width: 48; }
    #left.alone { display: none; }
    #bottom { height: 1fr; }
    #bottom.wide { height: 45%; }
    Vertical > Bar { height: 1; background: $boost; }
    Vertical > Bar.focused { background: $primary-muted; text-style: bold; }
    LinePane { scrollbar-size-vertical: 1; overflow-x: hidden; overflow-y: auto; height: 1fr; }
    .zoomed #top { display: none; }
    #body.zoomed #bottom { height: 1fr; }
    #filter, #words { height: 1; border: none; padding: 0 1; display: none; background: $boost; }
    #filter.open, #words.open { display: block; }
    TextScreen, SearchScreen { align: center middle; }
    #search { width: 95%; height: 90%; padding: 0 1; background: $surface; }
    #search-filter { height: 1; border: none; padding: 0 1; background: $boost; }
    #text { width: 90%; max-width: 92; height: 90%; max-height: 40; padding: 0 1; background: $surface; }
    CursorPane .tone--cursor { background: $boost; }
    CursorPane:focus .tone--cursor { background: $primary-muted; }
    """
    + TONE_CSS
)

BINDINGS: Final[list[BindingType]] = [
    Binding("q", "quit", "quit"),
    Binding("ctrl+c", "quit", "quit", show=False, priority=True),
    Binding("slash", "filter", "filter"),
    Binding("a", "search_all", "search all"),
    Binding("question_mark", "help", "help"),
    Binding("escape", "leave", "back", show=False),
    Binding("left_square_bracket", "session(-1)", "previous session"),
    Binding("right_square_bracket", "session(1)", "next session"),
    Binding("F", "findings", "findings"),
    Binding("f", "follow", "follow"),
    Binding("p", "pause", "pause"),
    Binding("r", "raw", "raw"),
    Binding("y", "copy", "copy"),
    Binding("t", "theme", "theme"),
]


def next_theme(theme: str) -> str:
    """Return the theme after ``theme``; the first one after the last, or after one that is not listed."""
    index = THEMES.index(theme) if theme in THEMES else -1
    return THEMES[(index + 1) % len(THEMES)]
