"""The recording that the terminal view shows, and how it is read: opened in a thread, then on the event loop.

Its first rows are there after ``_FIRST_S``. The rest of a large recording, and new records of a running one,
are read in steps of ``_STEP_S``, between which keys are handled.
"""

import asyncio
import time
from collections.abc import Callable
from functools import partial
from typing import Final

from textual.app import App

from mcpproxy.errors import McpProxyError
from mcpproxy.read.view.view import View, open_view
from mcpproxy.show.tui.call_rows import CallRows

_FIRST_S: Final = 0.05
"""How long the first rows of a recording are read."""
_STEP_S: Final = 0.004
"""How long one step reads; keys wait meanwhile."""
_QUIET_S: Final = 0.025
"""How long after the last key the next step begins: a key takes several turns of the event loop."""


class ShownRecording:
    """The open recording. ``rows`` is ``None`` while it is being opened, or if none can be opened.

    ``opened`` is called when it has its first rows, ``read`` when the rest of a large one was read,
    ``failed`` with the reason if it cannot be read. While ``is_held()`` is true, that rest is not read.
    """

    def __init__(
        self,
        app: App[None],
        opened: Callable[[CallRows], None],
        read: Callable[[], None],
        failed: Callable[[str], None],
        is_held: Callable[[], bool],
    ) -> None:
        self._app: Final = app
        self._tell_opened: Final = opened
        self._tell_read: Final = read
        self._tell_failed: Final = failed
        self._is_held: Final = is_held
        self.path = ""
        self.rows: CallRows | None = None
        self.is_opening = True
        self._is_reading = False
        self._has_read = False
        """Whether something was read since the last ``refresh``."""
        self._key_at_s = 0.0
        """When the user last pressed a key, by the monotonic clock."""

    @property
    def is_settled(self) -> bool:
        """Whether nothing is being opened, and all records have been read and shown."""
        if self.rows is None:
            return not self.is_opening
        return not (self.rows.view.unread or self._has_read)

    @property
    def may_change(self) -> bool:
        """Whether ``refresh`` may find new rows; false for an unread rest while the user presses keys."""
        if self.rows is None or (self.rows.view.unread and not self._is_quiet):
            return False
        return self.rows.view.running or not self.is_settled

    @property
    def _is_quiet(self) -> bool:
        """Whether the user has pressed no key for a while."""
        return time.monotonic() - self._key_at_s >= _QUIET_S

    def open(self, path: str) -> None:
        """Open the recording at ``path`` in place of the present one."""
        self.close()
        self.path, self.is_opening = path, True
        self._app.run_worker(partial(self._open_view, path), thread=True, group="open")

    def _open_view(self, path: str) -> None:
        """Open a recording and pass its view to the event loop. This runs in a thread."""
        try:
            view = open_view(path, _FIRST_S)
        except McpProxyError as fault:
            self._app.call_from_thread(self._show_failure, path, str(fault))
        else:
            self._app.call_from_thread(self._show_view, path, view)

    def _show_failure(self, path: str, fault: str) -> None:
        if path == self.path:
            self.is_opening = False
            self._tell_failed(fault)

    def _show_view(self, path: str, view: View) -> None:
        if path != self.path:  # another one was chosen in the meantime
            view.close()
            return
        self.rows, self.is_opening = CallRows(view), False
        self._tell_opened(self.rows)
        self._start_reading(self.rows)

    def close(self) -> None:
        """Close the files of the recording."""
        if self.rows is not None:
            self.rows.view.close()
            self.rows = None
        self._is_reading = self._has_read = False

    def refresh(self) -> int:
        """Read on for ``_STEP_S``. Return the first row that is new or changed since the last call, or 0.

        Raises:
            McpProxyError: the recording cannot be read any more.
        """
        assert self.rows is not None
        first = self.rows.refresh(_STEP_S)
        self._has_read = False
        self._start_reading(self.rows)
        return first

    def key_pressed(self) -> None:
        """Note that the user has pressed a key: keys are handled before more is read."""
        self._key_at_s = time.monotonic()

    def _start_reading(self, rows: CallRows) -> None:
        if rows.view.unread and not self._is_reading:
            self._is_reading = True
            self._app.run_worker(self._read_rest(rows), group="read")

    async def _read_rest(self, rows: CallRows) -> None:
        """Read the rest of a recording step by step."""
        while rows is self.rows and rows.view.unread:
            if self._is_held() or not self._is_quiet:
                await asyncio.sleep(_QUIET_S)
                continue
            self._has_read = True
            try:
                rows.view.read_on(_STEP_S)
            except McpProxyError as fault:
                self._is_reading = False
                self._tell_failed(str(fault))
                return
            await asyncio.sleep(0)
        if rows is not self.rows:
            return
        self._is_reading = False
        self._tell_read()
        if save := rows.view.index.prepare_save():
            await asyncio.to_thread(save)
