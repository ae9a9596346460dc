"""Lines over the panes, which any of the usual keys closes."""

from collections.abc import Callable, Iterator
from typing import ClassVar, Final

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import ModalScreen

from mcpproxy.show.tui.panes import DetailPane
from mcpproxy.show.tui.spans import Line


class TextScreen(ModalScreen[None]):
    """Shows the lines that ``lines`` yields for a width. Escape, q, Enter, ? and F close it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,question_mark,F,q,enter", "dismiss", "close", show=False)
    ]

    def __init__(self, lines: Callable[[int], Iterator[Line]]) -> None:
        super().__init__()
        self._lines: Final = lines

    def compose(self) -> ComposeResult:
        """Return the pane of the lines."""
        yield DetailPane("text")

    def on_mount(self) -> None:
        """Show the lines."""
        self.query_one(DetailPane).show(self._lines)
