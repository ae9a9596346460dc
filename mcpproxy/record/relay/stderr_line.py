"""The lines that mcpproxy itself writes to stderr: text or, with ``--live json``, one JSON object a line.

The relay imports this module for its first line, while the server starts, so it imports nothing slow.
"""

import os

from mcpproxy.base.json_string import quoted
from mcpproxy.base.paths import rfc3339
from mcpproxy.base.visible import visible, visible_lines, without_commands

PREFIX = "mcpproxy: "

_STDERR = 2

_MODE = {"json": False}
"""Whether the lines of this process are JSON objects; ``use_json`` sets it."""


class StderrEvent(str):
    """A line of text that says what has happened: its ``event``, ``level``, and ``members`` for programs.

    The values of ``members`` are JSON text.
    """

    event: str
    level: str
    members: dict[str, str]

    def __new__(cls, text: str, event: str, level: str = "info", **members: str) -> "StderrEvent":
        """Return the line ``text``."""
        note = super().__new__(cls, text)
        note.event, note.level, note.members = event, level, members
        return note

    def after(self, prefix: str) -> "StderrEvent":
        """Return the same event with ``prefix`` before its text."""
        return StderrEvent(prefix + self, self.event, self.level, **self.members)


def use_json() -> None:
    """From now on write JSON objects, in this process and in those that are forked from it."""
    _MODE["json"] = True


def is_json() -> bool:
    """Whether the lines of this process are JSON objects."""
    return _MODE["json"]


def stderr_line(text: str, *, as_json: bool | None = None) -> bytes:
    """Return ``text`` as a line for stderr, line feed included.

    ``as_json`` says whether the line is a JSON object; ``None`` means the form of this process's lines. An
    object has ``ts`` (RFC 3339, UTC), ``level`` (``info``, ``warning`` or ``error``), ``event``, the members
    of the event, and the text as ``message``. The event of a text that is no `StderrEvent` is ``note``. Its
    level is ``error`` if it names a fault of mcpproxy, ``warning`` if it begins with ``warning:``, and else
    ``info``.
    """
    if not (_MODE["json"] if as_json is None else as_json):
        return in_a_log(f"{PREFIX}{visible(text)}\n").encode()
    if isinstance(text, StderrEvent):
        event, level, members = text.event, text.level, text.members
    else:
        event, members = "note", {}
        is_warning = text.lower().startswith("warning:")
        level = "error" if "a fault of mcpproxy" in text else "warning" if is_warning else "info"
    stamped = {name: quoted(value) for name, value in stamp(event, level).items()}
    pairs = {**stamped, **members, "message": quoted(visible(text))}
    line = "{" + ",".join(f'"{name}":{value}' for name, value in pairs.items()) + "}\n"
    return in_a_log(visible_lines(line)).encode()


def in_a_log(text: str) -> str:
    """Return ``text`` in a form that is safe in a log: within GitHub Actions, without workflow commands."""
    return without_commands(text) if os.environ.get("GITHUB_ACTIONS") else text


def stamp(event: str, level: str) -> dict[str, str]:
    """Return the members that every JSON object begins with: time, level and event."""
    return {"ts": rfc3339(3), "level": level, "event": event}


def write_own_line(line: bytes, *, quiet: bool = False) -> None:
    """Write a line of text that another process of mcpproxy made, in the form of this process's lines.

    Nothing is written if ``quiet``, and no error is raised if nobody reads stderr.
    """
    if not quiet:
        text = line.decode("utf-8", "backslashreplace").removesuffix("\n").removeprefix(PREFIX)
        try:
            os.write(_STDERR, stderr_line(text))
        except OSError:
            pass  # nobody reads it, or not fast enough
