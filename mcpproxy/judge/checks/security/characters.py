"""Invisible characters in a text: which of them have a use there, and which do not.

Invisible characters are a part of ordinary writing. Joiners shape Persian and Indic words and join emoji,
marks order right-to-left text, selectors choose the form of a character, and tags after a black flag are the
flag of a region. Such uses are recognised by the characters around them, and are not reported. Neither are
a few characters that are quoted, as in the text of a tool that looks for them.

Source: https://www.unicode.org/reports/tr31/#Layout_and_Format_Control_Characters
"""

from enum import Enum
from typing import Final

from mcpproxy.base.patterns import pattern
from mcpproxy.base.slotted import slotted
from mcpproxy.base.visible import is_pictograph
from mcpproxy.judge.checks.engine.context import shortened

IN_FRAME: Final = pattern(
    rb"\\b|\x7f|\xc2[\x80-\x9f\xad]|\xcd\x8f|\xd8\x9c|\xe1[\x84\x85\x9e\xa0]|\xe2\x80[\x8b-\x8f\xaa-\xae]"
    rb"|\xe2\x81[\xa0-\xaf]|\xe3\x85\xa4|\xef(?:\xb8[\x80-\x8f]|\xbb\xbf|\xbe\xa0|\xbf[\xb0-\xbb])|\xf3\xa0"
    rb"|\\u(?:00[0189aA]|007[fF]|034[fF]|061[cC]|11[56]|17[bB]|180|20[0267]|3164|[fF][eE][0fF]|[fF]{2}[aAfF]"
    rb"|[dD][bB]4)"
)
"""Matches somewhere in every JSON text that has one of these characters, as UTF-8 or as an escape."""

_ESCAPE: Final = (
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-_a-~]|\x1b\][^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?|\x1b[0-Z\\^_a-~]"
)
_CONTROL: Final = r"\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f"
"""All controls but tabs, the ends of lines and pages, and NEL, which is white space too."""
_DIRECTION: Final = r"\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
_SELECTOR: Final = r"\ufe00-\ufe0f\U000e0100-\U000e01ef"
_TAG: Final = r"\u2065\ufff0-\ufff8\U000e0000-\U000e00ff\U000e01f0-\U000e0fff"
"""Tag characters, and code points that are reserved and never shown."""
_ZERO_WIDTH: Final = (
    r"\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200d\u2060-\u2064\u206a-\u206f"
    r"\u3164\ufeff\uffa0\ufff9-\ufffb"
)

_RUN: Final = pattern(f"(?:{_ESCAPE}|[{_CONTROL}{_DIRECTION}{_SELECTOR}{_TAG}{_ZERO_WIDTH}])+")
_PIECE: Final = pattern(f"({_ESCAPE})|([{_CONTROL}])|([{_DIRECTION}])|([{_SELECTOR}{_TAG}{_ZERO_WIDTH}])")
UNSEEN: Final = pattern(f"[{_CONTROL}{_DIRECTION}{_SELECTOR}{_TAG}{_ZERO_WIDTH}]")
"""Matches one control or invisible character, whether it has a use or not."""

_NEVER_SHOWN: Final = pattern(f"[{_TAG}\U000e0100-\U000e01ef]")

_FLAG: Final = pattern(
    "\U0001f3f4[\U000e0030-\U000e0039\U000e0061-\U000e007a]{1,6}\U000e007f?"
)  # also one that was cut off
_RIGHT_TO_LEFT: Final = pattern(
    "[\u0590-\u060b\u060d-\u061b\u061d-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\U00010800-\U00010fff\U0001e800-\U0001efff]"
)
_REVERSED: Final = pattern("\u202e[^\u202c\u202e\n]*?[A-Za-z]{2}")
"""Finds letters that are read from left to right and forced to be shown from right to left."""
_JOINING: Final = pattern(
    "[\u0590-\u08ff\u0900-\u109f\u1700-\u18af\u1900-\u1cff\ua800-\ua82f\ua840-\ua95f\ua980-\uaaff\uabc0-\uabff\ufb1d-\ufdff"
    "\ufe70-\ufefc\U00010800-\U00010fff\U00011000-\U00011fff\U0001e800-\U0001efff]"
)
"""Finds a letter of a script that uses joiners or zero-width spaces: Semitic, Indic, Southeast Asian."""
_EAST_ASIAN: Final = pattern("[\u3000-\u9fff\uac00-\ud7af\uf900-\ufaff\uff00-\uffef\U00020000-\U0003ffff]")
_IDEOGRAPH: Final = pattern("[\u3005\u3007\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")
_NEIGHBOURS: Final = {
    "\u115f": pattern("[\u1100-\u11ff]"),
    "\u1160": pattern("[\u1100-\u11ff]"),
    "\u3164": pattern("[\u3131-\u318e]"),
    "\uffa0": pattern("[\uffa1-\uffdc]"),
    "\u17b4": pattern("[\u1780-\u17ff]"),
    "\u17b5": pattern("[\u1780-\u17ff]"),
    **{mongolian: pattern("[\u1800-\u18af]") for mongolian in "\u180b\u180c\u180d\u180e\u180f"},
}
"""Characters that have a use only next to the letters of one script, and those letters."""

_QUOTES: Final = {"'": "'", '"': '"', "`": "`", "\u2018": "\u2019", "\u201c": "\u201d", "(": ")", "[": "]"}
_MOST_QUOTED: Final = 3
"""How many invisible characters may be quoted or be a whole value: a text cannot be hidden in so few."""

_LONG_RUN: Final = 4
"""No writing has so many invisible characters in a row, but a text can be encoded in them."""

_MOST_SHOWN: Final = 3
"""How many code points a finding names."""


class Effect(Enum):
    """What invisible characters do to a text. The value is a phrase for such characters."""

    HIDDEN = "characters that hide text"
    DIRECTION = "controls that change the order of what is shown"
    ESCAPE = "escape sequences for a terminal"
    CONTROL = "control characters"
    INVISIBLE = "invisible characters"


@slotted(frozen=True)
class Unseen:
    """The characters of one kind in a text. ``first`` is the index of the first one."""

    kind: Effect
    first: int
    characters: str

    def __str__(self) -> str:
        points = [f"U+{ord(character):04X}" for character in self.characters[:_MOST_SHOWN]]
        more = " …" if len(self.characters) > _MOST_SHOWN else ""
        hidden = _hidden_text(self.characters) if self.kind is Effect.HIDDEN else ""
        says = f', saying "{hidden}"' if hidden else ""
        return f"{self.kind.value} ({' '.join(points)}{more} at character {self.first + 1}{says})"


def unseen(text: str, *, is_value: bool = False) -> list[Unseen]:
    """Return the invisible characters in ``text`` that it has no use for, by kind.

    ``is_value`` says that the text is not prose but a value. A value may consist of a few such characters
    alone, for instance one that separates fields.
    """
    runs = [run.span() for run in _RUN.finditer(text)]
    if not runs or (is_value and runs[0] == (0, len(text)) and len(text) <= _MOST_QUOTED):
        return []
    found: dict[Effect, list[tuple[int, str]]] = {}
    in_flags = {index for flag in _FLAG.finditer(text) for index in range(*flag.span())}
    unused_directions, direction_kind = _unused_directions(text)
    for start, end in runs:
        if _is_quoted(text, start, end):
            continue
        strays: list[tuple[int, str]] = []
        length = 0  # of the run, without the tags of flags
        for piece in _PIECE.finditer(text, start, end):
            at, characters = piece.start(), piece[0]
            if piece[1]:
                found.setdefault(Effect.ESCAPE, []).append((at, characters))
            elif piece[2]:
                found.setdefault(Effect.CONTROL, []).append((at, characters))
            elif piece[3]:
                if characters in unused_directions:
                    found.setdefault(direction_kind, []).append((at, characters))
            elif at not in in_flags:
                length += 1
                if not _has_use(text, at, start, end):
                    strays.append((at, characters))
        for at, character in strays:
            hides = length >= _LONG_RUN or _NEVER_SHOWN.match(character)
            found.setdefault(Effect.HIDDEN if hides else Effect.INVISIBLE, []).append((at, character))
    return [
        Unseen(kind, found[kind][0][0], "".join(characters for _, characters in found[kind]))
        for kind in Effect
        if kind in found
    ]


def _unused_directions(text: str) -> tuple[str, Effect]:
    """Return the marks and controls of direction that ``text`` has no use for, and what they do to it."""
    if _RIGHT_TO_LEFT.search(text):
        unused = "\u202e" if _REVERSED.search(text) else ""
    else:
        # An isolate from left to right changes nothing in such a text. Templates put it around each value.
        isolates = "\u2066\u2068\u2069" if "\u2067" in text else ""
        unused = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2067" + isolates
    turns = any(control in text and control in unused for control in "\u202b\u202d\u202e\u2067")
    return unused, Effect.DIRECTION if turns else Effect.INVISIBLE


def _is_quoted(text: str, start: int, end: int) -> bool:
    """Whether a run of invisible characters is between quotes or brackets, with nothing else.

    The run must be short, or begin with an escape sequence.
    """
    is_short = end - start <= _MOST_QUOTED or text[start] in "\x1b\x9b"
    return is_short and start > 0 and end < len(text) and _QUOTES.get(text[start - 1]) == text[end]


def _has_use(text: str, at: int, start: int, end: int) -> bool:
    """Whether the character at ``at``, in the run from ``start`` to ``end``, has a use there."""
    character = text[at]
    previous = text[at - 1] if at else ""
    before, after = text[start - 1 : start], text[end : end + 1]
    if character in _NEIGHBOURS:
        return bool(_NEIGHBOURS[character].match(before) or _NEIGHBOURS[character].match(after))
    if "\ufe00" <= character <= "\ufe0f":
        return previous in tuple("#*0123456789") or (previous > "\x7f" and not UNSEEN.match(previous))
    if "\U000e0100" <= character <= "\U000e01ef":
        return bool(_IDEOGRAPH.match(previous))
    if end - start >= 2 * _LONG_RUN:
        return False
    match character:
        case "\u200d" if is_pictograph(before) and is_pictograph(after):
            return True
        case "\u200c" | "\u200d" | "\u2060":
            return bool(_JOINING.match(before) or _JOINING.match(after))
        case "\u200b":
            scripts = (_JOINING, _EAST_ASIAN)
            return any(script.match(before) or script.match(after) for script in scripts)
        case "\u00ad":
            return before.isalpha() and after.isalpha()
        case "\u034f":
            return before > "\x7f"
        case _:
            return False


def _hidden_text(characters: str) -> str:
    """Return the text that is encoded in tag characters or, byte by byte, in selectors; empty if none is.

    Fewer than ``_LONG_RUN`` selectors count as none.
    """
    tags = "".join(chr(ord(c) - 0xE0000) for c in characters if "\U000e0020" <= c <= "\U000e007e")
    if tags:
        return shortened(tags, 200)
    selected = bytes(
        ord(c) - (0xFE00 if c <= "\ufe0f" else 0xE00F0)
        for c in characters
        if "\ufe00" <= c <= "\ufe0f" or "\U000e0100" <= c <= "\U000e01ef"
    )
    return shortened(selected.decode("utf-8", "replace"), 200) if len(selected) >= _LONG_RUN else ""
