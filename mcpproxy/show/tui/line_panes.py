"""Panes that draw only their visible lines, so that the number of lines does not matter."""

from collections.abc import Iterator, Sequence
from typing import ClassVar, Final

from rich.segment import Segment
from rich.style import Style
from textual.app import RenderResult
from textual.binding import Binding, BindingType
from textual.events import Click, Resize
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widget import Widget

from mcpproxy.show.tui.spans import TONES, Line, Span, fitted

_COMPONENTS: Final = frozenset({f"tone--{tone}" for tone in TONES} | {"tone--cursor"})
"""The names by which a widget asks for the style of a tone, or of the line under the cursor."""

TONE_CSS: Final = """
    .tone--dim { color: $text-muted; }
    .tone--strong { text-style: bold; }
    .tone--good { color: $text-success; }
    .tone--bad { color: $text-error; }
    .tone--warning { color: $text-warning; }
    .tone--info { color: $text-accent; }
    .tone--key { color: $text-primary; }
    .tone--text { color: $text-success; }
    .tone--number { color: $text-warning; }
"""
"""The styles of the tones. The theme says what the named colours are."""


def strip_of(widget: Widget, line: Line, width: int, *, under_cursor: bool = False) -> Strip:
    """Return a line in the colours of a widget. The texts go to the terminal as they are, never as markup."""
    style = widget.get_component_rich_style
    cursor = Style(bgcolor=style("tone--cursor").bgcolor) if under_cursor else Style.null()
    segments = [Segment(text, style(f"tone--{tone}") + cursor) for text, tone in fitted(line, width)]
    return Strip(segments).adjust_cell_length(width, style("tone--plain") + cursor)


class Bar(Widget):
    """One line of text."""

    COMPONENT_CLASSES: ClassVar[set[str]] = set(_COMPONENTS)

    def __init__(self, id: str) -> None:
        super().__init__(id=id)
        self._line: Line = ()

    def show(self, line: Sequence[Span]) -> None:
        """Show ``line`` in place of the present one."""
        if self._line != (line := tuple(line)):
            self._line = line
            self.refresh()

    @property
    def text(self) -> str:
        """The text of the line."""
        return "".join(span.text for span in self._line)

    def render(self) -> RenderResult:
        """Return nothing: ``render_line`` draws."""
        return ""

    def render_line(self, y: int) -> Strip:
        """Draw the line."""
        del y
        return strip_of(self, self._line, self.size.width)


class LinePane(ScrollView):
    """Lines that can be scrolled. A subclass gives their number, and makes each line when it is drawn."""

    COMPONENT_CLASSES: ClassVar[set[str]] = set(_COMPONENTS)
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j,down", "step(1)", "down", show=False),
        Binding("k,up", "step(-1)", "up", show=False),
        Binding("ctrl+f,pagedown,space", "turn_page(1)", "page down", show=False),
        Binding("ctrl+b,pageup", "turn_page(-1)", "page up", show=False),
        Binding("ctrl+d", "turn_page(0.5)", "half a page down", show=False),
        Binding("ctrl+u", "turn_page(-0.5)", "half a page up", show=False),
        Binding("g,home", "first", "first", show=False),
        Binding("G,end", "last", "last", show=False),
    ]

    @property
    def total(self) -> int:
        """The number of lines."""
        raise NotImplementedError

    def line(self, index: int, width: int) -> Line:
        """Return one line, in about ``width`` columns."""
        raise NotImplementedError

    @property
    def columns(self) -> int:
        """The width of a line in columns: that of the pane without its scrollbar."""
        return self.scrollable_content_region.width

    def texts(self) -> Iterator[str]:
        """Yield the texts of the visible lines."""
        top = self.scroll_offset.y
        for index in range(top, min(top + self.size.height, self.total)):
            yield "".join(span.text for span in fitted(self.line(index, self.columns), self.columns))

    def lay_out(self) -> None:
        """Adapt to another number of lines, or another width."""
        self.virtual_size = Size(0, self.total)
        self.refresh()

    def on_resize(self, event: Resize) -> None:
        """Adapt to a new size of the pane."""
        del event
        self.lay_out()

    def render_line(self, y: int) -> Strip:
        """Draw the line in row ``y`` of the pane, which may be scrolled."""
        index, width = y + self.scroll_offset.y, self.columns
        if index >= self.total:
            return Strip.blank(width, self.get_component_rich_style("tone--plain"))
        return self.draw_line(index, width)

    def draw_line(self, index: int, width: int) -> Strip:
        """Draw the line ``index``, which is less than ``total``."""
        return strip_of(self, self.line(index, width), width)

    def action_step(self, lines: int) -> None:
        """Go ``lines`` down, or up if it is negative."""
        self.scroll_to(y=self.scroll_offset.y + lines, animate=False)

    def action_turn_page(self, pages: float) -> None:
        """Go ``pages`` down, or up if it is negative."""
        self.action_step(round(pages * max(self.size.height - 1, 1)))

    def action_first(self) -> None:
        """Go to the first line."""
        self.scroll_to(y=0, animate=False)

    def action_last(self) -> None:
        """Go to the last line."""
        self.scroll_to(y=self.total, animate=False)


class CursorPane(LinePane):
    """Lines with a cursor on one of them, which is the chosen line."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter,l,right", "choose", "open", show=False)]

    class Moved(Message):
        """The cursor of ``pane`` has moved to another line."""

        def __init__(self, pane: "CursorPane") -> None:
            super().__init__()
            self.pane: Final = pane

    class Chosen(Message):
        """The user opens the line under the cursor of ``pane``."""

        def __init__(self, pane: "CursorPane") -> None:
            super().__init__()
            self.pane: Final = pane

    def __init__(self, id: str) -> None:
        super().__init__(id=id)
        self.cursor = 0

    def draw_line(self, index: int, width: int) -> Strip:
        """Draw a line, the chosen one with the colours of the cursor."""
        return strip_of(self, self.line(index, width), width, under_cursor=index == self.cursor)

    def go_to(self, index: int, *, tell: bool = True) -> None:
        """Choose a line and make it visible. With ``tell``, post ``Moved`` if it is another line."""
        index = max(min(index, self.total - 1), 0)
        before, self.cursor = self.cursor, index
        top, height = self.scroll_offset.y, max(self.size.height, 1)
        if index < top or index >= top + height:
            self.scroll_to(y=index if index < top else index - height + 1, animate=False)
        self.refresh_line(before)
        self.refresh_line(index)
        if tell and index != before:
            self.post_message(self.Moved(self))

    def action_step(self, lines: int) -> None:
        """Choose another line."""
        self.go_to(self.cursor + lines)

    def action_first(self) -> None:
        """Choose the first line."""
        self.go_to(0)

    def action_last(self) -> None:
        """Choose the last line."""
        self.go_to(self.total - 1)

    def action_choose(self) -> None:
        """Open the chosen line."""
        if self.total:
            self.post_message(self.Chosen(self))

    def on_click(self, event: Click) -> None:
        """Choose the line that was clicked, or open it if it already was the chosen line."""
        index = event.y + self.scroll_offset.y
        if index < self.total:
            if index == self.cursor:
                self.action_choose()
            else:
                self.go_to(index)
