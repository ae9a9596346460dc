"""Text output: colours, glyphs, widths, sizes and durations.

Text from a peer passes through ``visible`` before it is shown, so that no server can move the cursor, ring
the bell or reorder the line.
"""

from typing import Final, Literal

from mcpproxy.base.slotted import slotted
from mcpproxy.base.visible import visible

Colour = Literal["bold", "dim", "red", "yellow", "green", "blue", "cyan"]

_CODES: Final[dict[Colour, str]] = {
    "bold": "1",
    "dim": "2",
    "red": "31",
    "green": "32",
    "yellow": "33",
    "blue": "34",
    "cyan": "36",
}
"""The parameters of the escape sequences of a terminal (ECMA-48, SGR)."""

_SKIN_TONES: Final = "".join(map(chr, range(0x1F3FB, 0x1F400)))
_FLAG_LETTERS: Final = "".join(map(chr, range(0x1F1E6, 0x1F200)))
"""Regional indicators; two of them together are a flag."""

SEVERITY_COLOUR: Final[dict[str, Colour]] = {"error": "red", "warning": "yellow", "info": "blue"}


@slotted(frozen=True)
class Style:
    """The features of a terminal or file.

    ``width`` is in columns; ``None`` if lines are not shortened. ``unicode`` says whether glyphs outside
    ASCII may be written.
    """

    colour: bool = False
    width: int | None = None
    unicode: bool = True

    def paint(self, text: str, *colours: Colour) -> str:
        """Return ``text`` in ``colours``; unchanged if colours are off."""
        if not self.colour or not text:
            return text
        return f"\x1b[{';'.join(_CODES[c] for c in colours)}m{text}\x1b[0m"

    def severity(self, severity: str) -> str:
        """Return the word for a severity in its colour."""
        return self.paint(severity, "bold", SEVERITY_COLOUR[severity])

    def arrow(self, sender: str) -> str:
        """Return an arrow to the right for the client, to the left for the server."""
        if self.unicode:
            return self.paint("→", "cyan") if sender == "client" else self.paint("←", "green")
        return self.paint("->", "cyan") if sender == "client" else self.paint("<-", "green")

    @property
    def ellipsis(self) -> str:
        """The text that stands where something was cut."""
        return "…" if self.unicode else "..."

    def shorten(self, text: str, limit: int, *, keeps_end: bool = False) -> str:
        """Return ``text`` shortened to at most ``limit`` columns, with an ellipsis where it was cut.

        The ellipsis is there even if ``limit`` has no room for it. The end is cut, or with ``keeps_end`` the
        beginning. A sequence that a reader sees as one character, such as an emoji, is never split.
        """
        if columns(text) <= limit:
            return text
        room = max(limit - len(self.ellipsis), 0)
        if keeps_end:
            return self.ellipsis + text[_suffix_start(text, room) :]
        return text[: room if text.isascii() else _prefix_end(text, room)] + self.ellipsis


PLAIN: Final = Style()
"""The style of a file: no colours, and no limit of width."""


def columns(text: str) -> int:
    """Return the width of ``text`` in terminal columns.

    Wide East Asian characters and most emoji take 2, combining and format characters (joiners, say) 0, the
    others 1.
    """
    if text.isascii():
        return len(text)
    from unicodedata import category, combining, east_asian_width  # imported late: most text is ASCII

    beyond_ascii = [char for char in text if char > "\x7f"]
    return (len(text) - len(beyond_ascii)) + sum(
        0 if combining(char) or category(char) in ("Mn", "Me", "Cf") else 1 + (east_asian_width(char) in "WF")
        for char in beyond_ascii
    )


def character_start(text: str, at: int) -> int:
    """Return ``at``, or the start of a sequence around it that a reader sees as one character."""
    while at and _is_inside(text, at):
        at -= 1
    return at


def _prefix_end(text: str, room: int) -> int:
    """Return the end of the longest prefix of ``text`` that takes at most ``room`` columns."""
    taken = end = 0
    for at, char in enumerate(text):
        if not _is_inside(text, at):
            end = at
        taken += columns(char)
        if taken > room:
            return end
    return len(text)


def _suffix_start(text: str, room: int) -> int:
    """Return the start of the longest suffix of ``text`` that takes at most ``room`` columns."""
    taken, start = 0, len(text)
    for at in range(len(text) - 1, -1, -1):
        taken += columns(text[at])
        if taken > room:
            break
        if not _is_inside(text, at):
            start = at
    return start


def _is_inside(text: str, at: int) -> bool:
    """Whether the character at ``at`` continues the one before it.

    It does if a joiner precedes it, it takes no column, or it is a skin tone or the second half of a flag.
    """
    char = text[at]
    if char.isascii():
        return False
    if text[at - 1 : at] == "\u200d" or not columns(char) or char in _SKIN_TONES:
        return True
    if char not in _FLAG_LETTERS:
        return False
    before = text[:at]
    return (len(before) - len(before.rstrip(_FLAG_LETTERS))) % 2 == 1


def decoded(raw: bytes) -> str:
    """Return bytes from a peer as visible text; bytes that are not UTF-8 become ``\\xNN``."""
    return visible(raw.decode("utf-8", "backslashreplace"))


def count(number: int, noun: str) -> str:
    """Return a number with its noun: ``1 frame``, ``2 frames``."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def size(number: int) -> str:
    """Return a size with three digits: ``312 B``, ``1.20 kB``, ``33.6 MB``.

    It takes at most seven columns below 9,999.5 GB.
    """
    if number < 1000:
        return f"{number} B"
    for limit, unit_bytes, unit in ((999_500, 1e3, "kB"), (999_500_000, 1e6, "MB")):
        if number < limit:
            return f"{_three_digits(number / unit_bytes)} {unit}"
    return f"{_three_digits(number / 1e9)} GB"


def duration(ns: int) -> str:
    """Return nanoseconds with three digits: ``25.0 µs``, ``338 ms``, ``2.41 s``, ``3m12s``, ``2h05m``."""
    for limit, unit_ns, unit in ((999_500, 1e3, "µs"), (999_500_000, 1e6, "ms"), (60e9, 1e9, "s")):
        if ns < limit:
            return f"{_three_digits(ns / unit_ns)} {unit}"
    seconds = ns // 1_000_000_000
    if seconds < 3600:
        return f"{seconds // 60}m{seconds % 60:02d}s"
    return f"{seconds // 3600}h{seconds % 3600 // 60:02d}m"


def _three_digits(value: float) -> str:
    if value < 9.995:
        return f"{value:.2f}"
    return f"{value:.1f}" if value < 99.95 else f"{value:.0f}"


def tally(errors: int, warnings: int, infos: int) -> str:
    """Return the numbers of findings in words: ``2 errors, 1 warning``, ``3 info``, or ``no findings``."""
    words = [count(n, noun) for n, noun in ((errors, "error"), (warnings, "warning")) if n]
    return ", ".join([*words, *([f"{infos:,} info"] if infos else [])]) or "no findings"
