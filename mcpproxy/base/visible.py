"""Make untrusted text safe to show: escape control characters and invisible characters.

Most of the text that mcpproxy prints comes from a peer or from the author of a trace. Control characters move
the cursor, forge lines and retitle the window; bidirectional marks reorder the text; invisible characters
hide instructions. So everything that mcpproxy writes for people (to stderr, a terminal, a log or a report)
passes through ``visible``. Only the stderr of the wrapped server is forwarded unchanged.

The invisible characters of a valid emoji sequence stay, because it falls apart without them: joiners between
pictographs, the selector after a pictograph or before a keycap, the tags of a flag.

The relay, the process that forwards the traffic, imports this module before it starts the server. So no
other module is imported with it.
"""

_SHORT_ESCAPES = {"\t": "\\t", "\n": "\\n", "\r": "\\r"}

_JOINER, _SELECTOR = "\u200d", "\ufe0f"
_KEYS = "#*0123456789"
_OTHER_EMOJI = "\u203c\u2049\u2139\u3030"
"""Emoji that Unicode counts as punctuation or letters."""
_BLACK_FLAG, _LAST_TAG = "\U0001f3f4", "\U000e007f"
_EMOJI_MARKS = frozenset((_JOINER, _SELECTOR, _BLACK_FLAG))
"""Without one of these a text has no emoji sequence with an invisible character."""
_TAGS = frozenset(map(chr, (*range(0xE0030, 0xE003A), *range(0xE0061, 0xE007B))))
"""The tags that may be in a flag: digits and small letters."""

_INVISIBLE = frozenset(
    map(
        chr,
        (
            0x034F,  # combining grapheme joiner
            0x115F,  # fillers of Hangul
            0x1160,
            0x3164,
            0xFFA0,
            0x17B4,  # inherent vowels of Khmer
            0x17B5,
            *range(0x180B, 0x1810),  # variation selectors of Mongolian
            *range(0xFE00, 0xFE10),  # variation selectors; ``_emoji_parts`` finds those that stay
            *range(0xE0100, 0xE01F0),
        ),
    )
)
"""Invisible characters that ``str.isprintable`` accepts, because Unicode counts them as letters or marks.
``isprintable`` rejects all other unsafe characters: controls, format characters (bidirectional, zero-width,
tags), surrogates, unassigned code points, and spaces other than U+0020."""


def visible(text: str) -> str:
    """Return ``text`` on one line, with every unsafe character written as an escape: ``\\u001b``.

    The escapes are those of JSON, so the strings in a JSON text keep their values.
    """
    if text.isprintable() and (text.isascii() or _INVISIBLE.isdisjoint(text)):
        return text
    kept = () if _EMOJI_MARKS.isdisjoint(text) else _emoji_parts(text)
    return "".join(
        [
            c if at in kept or (c.isprintable() and c not in _INVISIBLE) else _escape(c)
            for at, c in enumerate(text)
        ]
    )


def is_pictograph(char: str) -> bool:
    """Whether a character may be a symbol or a tag in an emoji sequence; false for an empty text."""
    if "\U0001f000" <= char <= "\U0001fbff" or "\U000e0020" <= char <= "\U000e007f":
        return True
    from unicodedata import category  # imported here: it is a megabyte, and few sessions need it

    return bool(char) and category(char) in ("So", "Sm")


def _emoji_parts(text: str) -> set[int]:
    """Return the indexes of the invisible characters that are parts of an emoji sequence.

    ``static/format.js`` of the web page does the same; a test compares the two.
    """
    parts: set[int] = set()
    for at, char in enumerate(text):
        before = text[at - 1 : at]
        if char == _SELECTOR:
            is_keycap = before in _KEYS and text[at + 1 : at + 2] == "\u20e3"
            if at and (is_keycap or before in _OTHER_EMOJI or _is_emoji(before)):
                parts.add(at)
        elif char == _JOINER:
            base = text[at - 2 : at - 1] if before == _SELECTOR and at - 1 in parts else before
            if _is_emoji(base) and _is_emoji(text[at + 1 : at + 2]):
                parts.add(at)
        elif char == _BLACK_FLAG:
            end = at + 1
            while text[end : end + 1] in _TAGS and end < len(text):
                end += 1
            if 4 <= end - at <= 7 and text[end : end + 1] == _LAST_TAG:
                parts.update(range(at + 1, end + 1))
    return parts


def _is_emoji(char: str) -> bool:
    """Whether a character may be next to a joiner. ASCII characters and tags never are."""
    return "\x7f" < char < "\U000e0000" and is_pictograph(char)


def visible_lines(text: str) -> str:
    """Return ``text`` escaped as by ``visible``, except for its line feeds."""
    return "\n".join(map(visible, text.split("\n")))


def without_commands(text: str) -> str:
    """Return ``text`` changed so that the runner of GitHub Actions finds no commands in it.

    The runner executes commands in every log. It recognises the newer form (``::name``) after leading spaces,
    and the older form (``##[name]``) anywhere in a line. One character of each becomes a JSON escape.

    Source: https://github.com/actions/runner/blob/main/src/Runner.Common/ActionCommand.cs
    """
    if "::" in text:
        text = "\n".join(map(_without_command, text.split("\n")))
    return text.replace("##[", "#\\u0023[")


def _without_command(line: str) -> str:
    rest = line.lstrip()
    return f"{line[: -len(rest)]}\\u003a{rest[1:]}" if rest.startswith("::") else line


def _escape(char: str) -> str:
    if char in _SHORT_ESCAPES:
        return _SHORT_ESCAPES[char]
    code = ord(char)
    if code < 0x10000:
        return f"\\u{code:04x}"
    code -= 0x10000
    return f"\\u{0xD800 + (code >> 10):04x}\\u{0xDC00 + (code & 0x3FF):04x}"
