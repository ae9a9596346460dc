"""The fields in which the user types a filter of calls, or words that select sessions."""

from typing import Final

from textual.message import Message
from textual.widgets import Input

from mcpproxy.judge.session.filter import EXAMPLE, Filter, FilterError, parse_filter


class HiddenField(Input):
    """A field of one line that is hidden until it is opened."""

    @property
    def is_open(self) -> bool:
        """Whether the field is shown."""
        return self.has_class("open")

    def open(self, text: str) -> None:
        """Show the field with ``text`` in it."""
        self.add_class("open")
        self.value = text
        self.focus()

    def close(self) -> None:
        """Hide the field."""
        self.remove_class("open")


class SessionField(HiddenField):
    """The field of the words that select sessions."""

    class Typed(Message):
        """The user has typed ``text``; ``is_entered`` says whether Enter was pressed."""

        def __init__(self, text: str, *, is_entered: bool) -> None:
            super().__init__()
            self.text: Final = text
            self.is_entered: Final = is_entered

    def __init__(self) -> None:
        super().__init__(id="words", placeholder="words of a session: label, server, client, failed, running")

    def on_input_changed(self, event: Input.Changed) -> None:
        """Post what was typed so far."""
        event.stop()
        self.post_message(self.Typed(event.value, is_entered=False))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Post the whole text."""
        event.stop()
        self.post_message(self.Typed(event.value, is_entered=True))


class FilterField(HiddenField):
    """The field of the filter. A text that is not a filter cannot be entered."""

    class Checked(Message):
        """The user has typed a text; ``fault`` says why it is not a filter, and is empty if it is one."""

        def __init__(self, fault: str) -> None:
            super().__init__()
            self.fault: Final = fault

    class Entered(Message):
        """The user has entered a filter."""

        def __init__(self, filter: Filter) -> None:
            super().__init__()
            self.filter: Final = filter

    def __init__(self) -> None:
        super().__init__(id="filter", placeholder=EXAMPLE)

    def on_input_changed(self, event: Input.Changed) -> None:
        """Check the filter while the user types it."""
        event.stop()
        try:
            parse_filter(event.value)
        except FilterError as fault:
            self.post_message(self.Checked(str(fault)))
        else:
            self.post_message(self.Checked(""))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Post the filter, or why it is not one."""
        event.stop()
        try:
            filter = parse_filter(event.value)
        except FilterError as fault:
            self.post_message(self.Checked(str(fault)))
        else:
            self.post_message(self.Entered(filter))
