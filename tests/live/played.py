"""The rows, played: what mcpproxy finds in each session of the table.

Sessions of one revision share a recording, so that a run takes as few proxies as the rules allow. A session
has connections of its own in it, and an id of its own if it has one.
"""

import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final, Literal, get_args

from mcpproxy.errors import McpProxyError
from tests.live.conversation import Conversation
from tests.live.rows import ROWS
from tests.live.stage import Recording
from tests.live.table import Row
from tests.live.verdict import Found, Verdict, judged

Side = Literal["breaks", "lawful"]


@dataclass(frozen=True, slots=True)
class Session:
    """One side of a row in one revision. ``title`` tells it from all others in its recording."""

    row: Row
    side: Side
    revision: str

    @property
    def title(self) -> str:
        return f"{self.row.requirement} {self.row.about}: {self.side} in {self.revision}"

    @property
    def conversation(self) -> Conversation:
        return self.row.breaks if self.side == "breaks" else self.row.lawful

    @property
    def recording(self) -> str:
        """The one in which it is."""
        if self.row.idle_s:
            return f"{self.row.idle_s} s idle"
        return self.title if self.row.alone else self.revision


PLAYED: Final = tuple(
    sorted(
        (
            Session(row, side, revision)
            for row in ROWS
            for revision in row.revisions
            for side in get_args(Side)
        ),
        key=lambda session: session.recording,
    )
)
"""All of them, those of one recording together: whoever asks for a few in a row needs few recordings."""


def findings(session: Session) -> list[Found]:
    """What is found in a session; its recording is made when the first of its sessions is asked for."""
    verdict = _recorded(session.recording)
    if isinstance(verdict, Exception):
        raise verdict
    return verdict[session.title]


@cache
def _recorded(name: str) -> Verdict | Exception:
    """A recording, made and judged; or why it could not be, so that it is not tried for each session."""
    try:
        return _record(name)
    except (AssertionError, OSError, McpProxyError) as error:
        return error


def _record(name: str) -> Verdict:
    sessions = [session for session in PLAYED if session.recording == name]
    with tempfile.TemporaryDirectory() as folder:
        recording = Recording(Path(folder))
        try:
            for session in sessions:
                recording.play(session.title, session.conversation, session.revision)
            recording.stop()
        finally:
            recording.kill()
        return judged(recording.trace, sessions[0].row.idle_s)
